"""Outputs against goldens: the difference as data, and its rendering."""
