"""The kernels: how a geometry is tiled, and the tile programs that compute it."""
