"""
Tests for L{natsbroker.accounts.exports}.
"""

from __future__ import annotations

from natsbroker.accounts.exports import Latency, ResponseType, ServiceExport


def test_defaults() -> None:
    """A service answers once within two minutes, and is not measured."""
    export = ServiceExport(b"a.*")
    assert (export.responseType, export.threshold) == (ResponseType.SINGLETON, 120.0)
    assert export.latency is None
    assert repr(export) == "<ServiceExport b'a.*'>"


def test_identity() -> None:
    """Exports are told apart by identity, whatever they say."""
    assert ServiceExport(b"a") != ServiceExport(b"a")


def test_latency() -> None:
    """By default everything is measured."""
    assert (Latency(b"x").subject, Latency(b"x").sampling) == (b"x", 100)
