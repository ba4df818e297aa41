"""`pypto.backend.pto_backend`: the error of code generation, whose message has a row for each function."""

from __future__ import annotations


class PartialCodegenError(RuntimeError):
    def __init__(self, message: str, files: dict[str, str]) -> None:
        super().__init__(message)
        self.files = files
