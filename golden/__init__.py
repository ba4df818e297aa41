"""The golden: what each workload must compute, exact to the bit. It imports no other package."""
