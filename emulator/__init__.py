"""The emulator: a reference engine for tile programs. It needs NumPy only and imports no other package."""
