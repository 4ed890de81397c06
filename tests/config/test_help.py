"""
Tests for L{natsbroker.config.help}.
"""

from __future__ import annotations

import re

from natsbroker.config.commandline import invocationFrom
from natsbroker.config.errors import ConfigError
from natsbroker.config.flags import EVERY_FLAG
from natsbroker.config.goflags import FlagType
from natsbroker.config.help import REFUSED, tlsHelp, usage
from natsbroker.config.tls import CIPHER_SUITES, CURVES, INSECURE_CIPHER_SUITES

VALUES = {
    FlagType.BOOLEAN: "true",
    FlagType.INTEGER: "1",
    FlagType.STRING: "x",
    FlagType.DURATION: "1s",
    FlagType.SIZE: "1",
}
"""A value for a flag of each kind."""


def isMissing(name: str, kind: FlagType) -> bool:
    """Whether a flag is refused because its feature is not there."""
    try:
        invocationFrom([f"--{name}={VALUES[kind]}"], {})
    except ConfigError as error:
        return "not supported yet" in str(error)
    return False


def test_everyFlag() -> None:
    """The usage names every flag, each of its spellings with its dashes."""
    named = set(re.findall(r"(?<![\w-])--?(\w+)", usage("natsbroker")))
    assert {name for flag in EVERY_FLAG for name in flag.names} <= named


def test_program() -> None:
    """The usage begins with the name of the program, where scripts look for it."""
    text = usage("natsbroker")
    assert text.startswith("\nUsage: natsbroker [options]\n       natsbroker spark JOB ")


def test_refusedFlagsStandApart() -> None:
    """Exactly those flags whose feature is missing are listed as refused."""
    section = usage("natsbroker").split(f"{REFUSED}:\n")[1].split("\n\n")[0]
    listed = set(re.findall(r"(?<![\w-])--?(\w+)", section))
    missing = {
        name for flag in EVERY_FLAG for name in flag.names if isMissing(flag.names[0], flag.kind)
    }
    assert listed == missing


def test_width() -> None:
    """The usage fits a terminal."""
    assert max(map(len, usage("natsbroker").splitlines())) <= 100


def test_tls() -> None:
    """The help about TLS names everything that a block may choose."""
    words = set(tlsHelp().split())
    assert set(CIPHER_SUITES + INSECURE_CIPHER_SUITES + CURVES) <= words
