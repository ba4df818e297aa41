"""Ten nights of the shipped matrix, and what is asked in the mornings: see `__main__`."""
