"""Tests for L{natsbroker.wire.tracing}; nats-server is compared elsewhere."""

from __future__ import annotations

import pytest

from natsbroker.wire.tracing import DEST, HOP, asksForTrace, readRequest, withHeader

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"


def block(*lines: bytes) -> bytes:
    """
    A header block.
    """
    return b"\r\n".join([b"NATS/1.0", *lines, b"", b""])


@pytest.mark.parametrize(
    ("line", "hasDest", "expected"),
    [
        (b"Nats-Trace-Dest: x", False, True),
        (b"nats-trace-dest: x", False, False),
        (b"traceparent: y", False, False),
        (b"traceparent: y", True, True),
        (b"TraceParent : y", True, True),
        (b"xtraceparent: y", True, False),
        (b"A: B", True, False),
    ],
)
def test_asksForTrace(line: bytes, hasDest: bool, expected: bool) -> None:
    """The names of headers decide whether a message may ask for a trace."""
    headers = block(line)
    assert asksForTrace(headers + b"payload", len(headers), hasDest) is expected


def test_payloadDoesNotAsk() -> None:
    """A payload that looks like a header does not ask for a trace."""
    headers = block(b"A: B")
    assert not asksForTrace(headers + b"\nNats-Trace-Dest: x\ntraceparent: y", len(headers), True)


def test_headersAreSorted() -> None:
    """Headers are sorted by name; values of one name stay in order, and empty ones are left out."""
    request = readRequest(block(b"b: 2", b"B:3", b"b:  1 ", b"Empty: ", b"Nats-Trace-Dest: x"))
    assert request is not None
    assert list(request.headers.items()) == [
        ("B", ["3"]),
        ("Nats-Trace-Dest", ["x"]),
        ("b", ["2", "1"]),
    ]
    assert (request.dest, request.isOnly, request.hop) == (b"x", False, b"")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"1", True), (b"TRUE", True), (b"on", True), (b"yes", False), (b"0", False)],
)
def test_noDelivery(value: bytes, expected: bool) -> None:
    """Three values of the header mean a trace without delivery."""
    request = readRequest(block(b"Nats-Trace-Dest: x", b"Nats-Trace-Only: " + value))
    assert request is not None and request.isOnly is expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(b"01", True), (b"03", True), (b"7f", True), (b"00", False), (b"ff", False), (b"1", False)],
)
def test_parent(flags: bytes, expected: bool) -> None:
    """The last part of a C{traceparent} decides whether the message is sampled."""
    request = readRequest(block(b"TraceParent: " + PARENT + flags))
    assert (request is not None) is expected


@pytest.mark.parametrize(
    "headers",
    [
        block(b"Nats-Trace-Dest: trace disabled", b"traceparent: " + PARENT + b"01"),
        block(b"Nats-Trace-Dest:"),
        block(b"Nats-Trace-Only: 1"),
        b"NATS/1.0 503\r\nNats-Trace-Dest: x\r\n\r\n",
    ],
)
def test_noRequest(headers: bytes) -> None:
    """A message with a disabled or missing destination, or with a status line, is not traced."""
    assert readRequest(headers) is None


def test_originAccount() -> None:
    """The header of old servers forbids a trace."""
    request = readRequest(block(b"Nats-Trace-Dest: x", b"Nats-Trace-Origin-Account: A"))
    assert request is not None and request.isRefused


def test_withHeader() -> None:
    """A header replaces all others of its name and comes last."""
    headers = block(b"Nats-Trace-Hop: 1", b"Nats-Trace-Dest: x", b"Nats-Trace-Hop: 2")
    assert withHeader(headers, HOP, b"1.1") == block(b"Nats-Trace-Dest: x", b"Nats-Trace-Hop: 1.1")
    assert withHeader(block(), DEST, b"y") == block(b"Nats-Trace-Dest: y")
