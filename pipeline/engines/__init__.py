"""The engines, all behind the protocol of `base`."""
