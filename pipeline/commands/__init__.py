"""The commands of the command line; the function of each command gives the exit code."""
