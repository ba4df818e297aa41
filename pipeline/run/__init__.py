"""The run: controller, workers, devices, journal."""
