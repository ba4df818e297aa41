"""What each command of the command line does, a module a kind; each function gives the exit code."""
