"""
Tests for L{natsbroker.config.helptext}.
"""

from __future__ import annotations

import re

from natsbroker.config.build_tls import CIPHER_SUITES, CURVES, INSECURE_CIPHER_SUITES
from natsbroker.config.flags import EVERY_FLAG
from natsbroker.config.helptext import tlsHelp, usage


def test_everyFlag() -> None:
    """The usage names every flag, each of its spellings with its dashes."""
    named = set(re.findall(r"(?<![\w-])--?(\w+)", usage("natsbroker")))
    assert {name for flag in EVERY_FLAG for name in flag.names} <= named


def test_program() -> None:
    """The usage begins with the name of the program, where scripts look for it."""
    assert usage("natsbroker").startswith("\nUsage: natsbroker [options]\n")


def test_width() -> None:
    """The usage fits a terminal."""
    assert max(map(len, usage("natsbroker").splitlines())) <= 100


def test_tls() -> None:
    """The help about TLS names everything that a block may choose."""
    words = set(tlsHelp().split())
    assert set(CIPHER_SUITES + INSECURE_CIPHER_SUITES + CURVES) <= words
