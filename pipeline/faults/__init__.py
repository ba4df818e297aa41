"""The faults that can be injected: what there are, how each is committed, and whether each is found."""
