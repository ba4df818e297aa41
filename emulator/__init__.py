"""The emulator: a reference engine for tile programs that needs nothing but NumPy. Knows no other room."""
