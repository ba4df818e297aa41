"""CANN's PyPTO as an engine: the compiler, cost model and numeric verifier of every plain machine."""
