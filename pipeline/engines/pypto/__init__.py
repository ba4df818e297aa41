"""hw-native-sys PyPTO as an engine: it takes the tile kernels unchanged, in an environment of its own.

`engine` and `toolchain` run in the pipeline. `inquiry` and `worker` run under the interpreter that
`PIPELINE_PYTHON` names, which needs only the standard library, NumPy and what PyPTO installs.
"""
