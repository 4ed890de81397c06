"""
A first look at PEM files.

This module promises to notice a file that is missing or holds something else, before a
listener meets it.  It must never parse a certificate.
"""

from __future__ import annotations

from collections.abc import Callable

CERTIFICATE = "CERTIFICATE-----"
PRIVATE_KEY = "PRIVATE KEY-----"


def pemProblem(path: str, kind: str, read: Callable[[str], str]) -> str:
    """
    Say what is wrong with a file.

    @param kind: L{CERTIFICATE} or L{PRIVATE_KEY}.
    @param read: gives the text of a path, or raises L{OSError}.
    @return: empty when the file seems fine.
    """
    try:
        text = read(path)
    except (OSError, ValueError) as error:
        return f"open {path}: {getattr(error, 'strerror', None) or error}"
    if "-----BEGIN " not in text or kind not in text:
        wanted = "private key" if kind == PRIVATE_KEY else "certificate"
        return f"{path} holds no {wanted} in PEM format"
    return ""
