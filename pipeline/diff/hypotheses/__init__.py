"""Known faults, one small class each, that predict what an output would be if the fault were true."""
