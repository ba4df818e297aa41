"""The vendor's ISA simulator as an engine: tile programs lowered to the public headers, built and run."""
