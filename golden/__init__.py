"""The golden: what a conv pair must compute, to the bit. Knows no other room."""
