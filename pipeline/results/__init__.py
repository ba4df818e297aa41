"""What is said of a finished result: history, performance, fingerprint, the command that repeats it."""
