"""CANN's PyPTO as an engine: compiler, cost model and numeric verifier, on any machine without cards."""
