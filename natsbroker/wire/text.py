"""
Text of peers as JSON shows it. It need not be Unicode: as in Go, each byte that is not UTF-8
becomes U+FFFD, and so does each half of a surrogate pair.

Where such text must become the same bytes again, C{surrogateescape} reads and writes it instead.
L{encoded} accepts such text too.
"""

from __future__ import annotations

import codecs
import re

REPLACED = "natsbroker.replaced"
"""The name of the error handler. Python's own replaces several bytes by one character."""

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)


_MARK = "\ufffd"
_BYTES = _MARK.encode("utf-8")


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return _MARK, error.start + 1
    if isinstance(error, UnicodeEncodeError):
        # As text, UTF-8's encoder would take only ASCII.
        return _BYTES, error.start + 1
    raise error


codecs.register_error(REPLACED, _replace)


def decoded(data: bytes) -> str:
    return data.decode("utf-8", REPLACED)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", REPLACED)


def whole(text: str) -> str:
    """JSON without escapes for halves of surrogate pairs."""
    return _ESCAPE.sub(_wholeEscape, text) if "\\u" in text else text


def _wholeEscape(match: re.Match[str]) -> str:
    escape = match[0]
    return "\\ufffd" if len(escape) == 6 else escape
