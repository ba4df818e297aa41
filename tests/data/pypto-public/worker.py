"""The backend's worker with the program `gemm` in its catalogue: `python worker.py ORDER.json`."""

from __future__ import annotations

import sys
from pathlib import Path

from kernels import catalogue
from pipeline.engines.pypto import worker
from pipeline.engines.pypto.messages import decode_order, encode

worker.PROGRAMS = {
    "gemm": catalogue.TileProgram("gemm", "gemm:build_gemm", ("x", "filter1", "bias1"), "y"),
    **catalogue.PROGRAMS,
}

if __name__ == "__main__":
    reply = worker.perform(decode_order(Path(sys.argv[1]).read_text()))
    sys.stdout.write("\n" + encode(reply) + "\n")
