"""What is added to a finished result: history, performance, fingerprint, the command that repeats it."""
