"""Known faults, each of which predicts what an output would be if the fault were true."""
