"""
The text of the files that a configuration names.
"""

from __future__ import annotations

from collections.abc import Callable


def readText(path: str) -> str:
    """Read a file; bytes that are not UTF-8 become surrogate escapes."""
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "surrogateescape")


CERTIFICATE = "CERTIFICATE-----"
PRIVATE_KEY = "PRIVATE KEY-----"


def pemProblem(path: str, kind: str, read: Callable[[str], str]) -> str:
    try:
        text = read(path)
    except (OSError, ValueError) as error:
        return f"open {path}: {getattr(error, 'strerror', None) or error}"
    if "-----BEGIN " not in text or kind not in text:
        wanted = "private key" if kind == PRIVATE_KEY else "certificate"
        return f"{path} holds no {wanted} in PEM format"
    return ""
