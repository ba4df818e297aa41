"""Typed programs as C++ for the vendor's public ISA headers, with the event flags that a card needs."""
