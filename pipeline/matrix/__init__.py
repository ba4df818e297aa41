"""What runs where: `matrix.yaml` read strictly, checked, expanded to jobs, and selected from."""
