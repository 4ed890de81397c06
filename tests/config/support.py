"""
Shared parts of the tests of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from natsbroker.config.blocks import Diagnostics, ParsedBlock, readTable
from natsbroker.config.errors import ConfigError, ConfigErrors
from natsbroker.config.keys.root import ROOT
from natsbroker.config.language.parser import parse
from natsbroker.config.model import Settings
from natsbroker.server.configuration.build import Built, buildText

PEM = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n"
"""Stands for a certificate and for a key."""


def filesystem(files: Mapping[str, str]) -> Callable[[str], str]:
    """A C{read} function that knows only these files."""

    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    return read


NO_FILES = filesystem({})
CERTIFICATES = filesystem({"cert.pem": PEM, "key.pem": PEM, "ca.pem": PEM})


def built(text: str, files: Callable[[str], str] = CERTIFICATES) -> Built:
    """
    Build the settings of a text, in a file called C{s.conf}.
    """
    return buildText(text, {}, "s.conf", read=files)


def settingsOf(text: str) -> Settings:
    """
    Build the settings of a text.
    """
    return built(text).settings


def errorsOf(text: str) -> list[ConfigError]:
    """The errors of a text."""
    with pytest.raises(ConfigErrors) as raised:
        built(text)
    return list(raised.value.errors)


def complaintsOf(text: str) -> list[str]:
    """The errors of a text, as lines."""
    return [str(error) for error in errorsOf(text)]


def readingOf(text: str) -> tuple[ParsedBlock, Diagnostics]:
    """Read a text with the tables of keys, without building settings."""
    findings = Diagnostics()
    return readTable(parse(text, {}, "s.conf", NO_FILES), ROOT, findings), findings
