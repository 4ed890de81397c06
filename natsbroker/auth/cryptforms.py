"""
Hashes of passwords in the forms that C{htpasswd} and C{crypt} made before bcrypt: C{$apr1$},
C{$1$}, C{$5$} and C{$6$}.

A hash that is understood can be compared in bounded time; without the library that
computes them (libpass, a package's extra), they are told apart all the same.
"""

from __future__ import annotations

import re
from typing import Any

try:
    from passlib import hash as _hashes
except ImportError:
    _hashes = None

__all__ = ["MOST_ROUNDS", "checkCrypt", "isCrypt", "problemOf"]

#: The most rounds of C{$5$} and C{$6$}; a login with so many takes a tenth of a second of a core.
MOST_ROUNDS = 100_000

#: More bytes of a password than libpass takes.
_LONGEST = 4096

_SALT = r"[^$\n:]"
_SIGN = r"[./A-Za-z0-9]"
_FORM = re.compile(
    rf"\$(?:(apr1|1)\${_SALT}{{1,8}}\${_SIGN}{{22}}"
    rf"|(5)\$(?:rounds=(\d{{1,9}})\$)?{_SALT}{{1,16}}\${_SIGN}{{43}}"
    rf"|(6)\$(?:rounds=(\d{{1,9}})\$)?{_SALT}{{1,16}}\${_SIGN}{{86}})",
    re.ASCII,
)

_NAMES = {
    "apr1": "apr_md5_crypt",
    "1": "md5_crypt",
    "5": "sha256_crypt",
    "6": "sha512_crypt",
}


def isCrypt(secret: str) -> bool:
    """
    Whether a text is a hash in one of these forms.
    """
    return _FORM.fullmatch(secret) is not None


def problemOf(secret: str) -> str:
    """
    Why a hash in one of these forms cannot be used; empty if it can.
    """
    found = _FORM.fullmatch(secret)
    if found is None:
        return "a damaged hash"
    if int(found[3] or found[5] or 0) > MOST_ROUNDS:
        return f"more than {MOST_ROUNDS} rounds"
    if _hashes is None:
        return "a hash that needs libpass (pip install natsbroker[htpasswd])"
    return ""


def checkCrypt(expected: str, given: str) -> bool:
    """
    Whether a password is the one that was hashed. Takes long.
    """
    found = _FORM.fullmatch(expected)
    password = given.encode("utf-8", "surrogateescape")
    if found is None or _hashes is None or len(password) > _LONGEST or b"\0" in password:
        return False
    form: Any = getattr(_hashes, _NAMES[found[1] or found[2] or found[4]])
    return bool(form.verify(password, expected))
