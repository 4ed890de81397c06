"""
Tests for L{natsbroker.config.unsupported}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.unsupported import NOT_YET, missing


def test_missing() -> None:
    """A key of a feature that is not built says which."""
    assert str(missing("mqtt", {})) == "not supported yet (MQTT)"


def test_supported() -> None:
    """A key of a feature that is there says nothing."""
    assert missing("port", 4222) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("jetstream", False),
        ("syslog", False),
        ("remote_syslog", ""),
        ("prof_port", 0),
        ("write_timeout", "default"),
        ("tls.ocsp_peer", False),
    ],
)
def test_askingForNothing(path: str, value: object) -> None:
    """The value that switches a feature off is fine."""
    assert missing(path, value) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [("jetstream", True), ("jetstream", 0), ("prof_port", False), ("remote_syslog", "udp://a")],
)
def test_askingForIt(path: str, value: object) -> None:
    """Any other value is not, nor one that is merely equal."""
    assert missing(path, value) is not None


def test_sorted() -> None:
    """The table is sorted, so that a row is found and not written twice."""
    assert list(NOT_YET) == sorted(NOT_YET)
