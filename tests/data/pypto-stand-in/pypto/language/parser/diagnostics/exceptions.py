"""Errors of the parser, with their place and hint."""

from __future__ import annotations


class ParserError(Exception):
    def __init__(self, message: str, span: dict[str, object] | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.span = span
        self.hint = hint


class InvalidOperationError(ParserError):
    pass
