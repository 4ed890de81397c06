"""
Password hashes of other programs, and lines of htpasswd files made with them.
"""

from __future__ import annotations

import base64
import hashlib

import bcrypt

#: Of the password with an umlaut, made by OpenSSL 3.
MADE = {
    "apr1": "$apr1$saltsalt$.OP1yZfYgQMWOu/p/7yrF.",
    "1": "$1$saltsalt$1S78VCfk8mIU4hr3ydAGd1",
    "5": "$5$saltsalt$zztp1YlH3lc3kTL.h9arh5xhdbQrdaMO0Ka8d/NAv3/",
    "6": (
        "$6$saltsalt$F6Fd30ZGBua4VcDcOYGIGgNadgKeaXGqESCWXzghPh7k5LmaRWeokOz7o6q0DjZRlMlGbrsEUBII1b"
        "pUuCMgD."
    ),
}


PASSWORD = "p\u00e4sswort"


def blowfish(password: str, prefix: bytes = b"2b") -> str:
    """The entry that C{htpasswd -B -C 4} makes."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4, prefix)).decode()


def sha(password: str) -> str:
    """The entry that C{htpasswd -s} makes."""
    return "{SHA}" + base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()
