"""
The content of files as text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker.config.files import CERTIFICATE, PRIVATE_KEY, pemProblem, readText
from tests.config.support import filesystem


def test_readText(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are kept as surrogate escapes, and line ends are unchanged."""
    path = tmp_path / "s.conf"
    path.write_bytes(b"a: \xff\r\n")
    assert readText(str(path)) == "a: \udcff\r\n"


FILES = filesystem(
    {
        "cert.pem": "text\n-----BEGIN CERTIFICATE-----\n...",
        "key.pem": "-----BEGIN EC PRIVATE KEY-----\n...",
        "other": "CERTIFICATE-----",
    }
)


@pytest.mark.parametrize(
    ("path", "kind", "problem"),
    [
        ("cert.pem", CERTIFICATE, ""),
        ("key.pem", PRIVATE_KEY, ""),
        ("cert.pem", PRIVATE_KEY, "cert.pem holds no private key in PEM format"),
        ("key.pem", CERTIFICATE, "key.pem holds no certificate in PEM format"),
        ("other", CERTIFICATE, "other holds no certificate in PEM format"),
        ("nope", CERTIFICATE, "open nope: No such file or directory"),
    ],
)
def test_problems(path: str, kind: str, problem: str) -> None:
    """A file that is missing or is not a regular text file is reported."""
    assert pemProblem(path, kind, FILES) == problem


def test_impossiblePath() -> None:
    """A path that no file can have is an error and no crash."""

    def read(path: str) -> str:
        raise ValueError("embedded null byte")

    assert pemProblem("a\0b", CERTIFICATE, read) == "open a\0b: embedded null byte"
