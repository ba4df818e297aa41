"""hw-native-sys PyPTO behind the engine protocol: the tile kernels as they are, in its own environment.

`engine` and `toolchain` run in the pipeline; `inquiry` and `worker` run under the interpreter that
`PIPELINE_PYTHON` names, which need have nothing but the standard library, NumPy and what PyPTO brings.
"""
