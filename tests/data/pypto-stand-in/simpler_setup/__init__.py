"""Stands for simpler, PyPTO's runtime."""
