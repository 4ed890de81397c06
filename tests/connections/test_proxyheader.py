"""
Tests for L{natsbroker.connections.proxyheader}. A comparison with nats-server is in
tests/interop/test_proxied.py.
"""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from natsbroker.connections.proxyheader import (
    SIGNATURE,
    TIMEOUT,
    HeaderStage,
    ProxiedPeer,
    ProxyHeader,
    ProxyHeaderError,
)
from tests.connections.headers import FIRST, NAMED, UNNAMED, WRONG, second

HELLO = b"CONNECT {}\r\n"


def read(*pieces: bytes) -> tuple[ProxiedPeer | None, bytes | None]:
    """The header in a connection's input."""
    header, rest = ProxyHeader(), b""
    for piece in pieces:
        if header.rest is None:
            header.received(piece)
        else:
            rest += piece
    return header.peer, None if header.rest is None else header.rest + rest


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("given", [*NAMED, *UNNAMED])
def test_pieces(given: bytes, size: int) -> None:
    """A header may come in pieces of any size, and the bytes after it are passed on."""
    data = given + HELLO
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    peer, rest = read(*pieces)
    assert rest == HELLO
    assert peer == NAMED.get(given)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("given", WRONG)
def test_malformed(given: bytes, size: int) -> None:
    """Input that begins like a header but is malformed is an error, in any pieces."""
    data = given + HELLO * 20
    with pytest.raises(ProxyHeaderError):
        read(*[data[start : start + size] for start in range(0, len(data), size)])


@pytest.mark.parametrize("given", [b"P", b"PROXY", FIRST[:-1], b"\r\n", SIGNATURE, second()[:-1]])
def test_incomplete(given: bytes) -> None:
    """Input that may still become a header is not passed to the client's session."""
    assert read(given) == (None, None)


@pytest.mark.parametrize("given", [b"X", b"PI", b"PROXZ", b"\r\n\r\nC", b"\x16\x03\x01"])
def test_noHeader(given: bytes) -> None:
    """Input that cannot become a header is passed to the client's session at once."""
    assert read(given) == (None, given)


class TestStage:
    """The stage of a connection before the client's input."""

    def stage(self, clock: Clock) -> tuple[HeaderStage, list[object], list[str]]:
        """A stage, and a list of its calls."""
        done: list[object] = []
        failed: list[str] = []
        return HeaderStage(clock, lambda *said: done.append(said), failed.append), done, failed

    def test_done(self) -> None:
        """The client's address and input are passed on once."""
        clock = Clock()
        stage, done, failed = self.stage(clock)
        stage.received(FIRST[:9])
        stage.received(FIRST[9:] + HELLO)
        assert done == [(("1.2.3.4", 1111), HELLO)]
        clock.advance(TIMEOUT)
        assert not failed and not clock.getDelayedCalls()

    def test_malformed(self) -> None:
        """A malformed header is reported once."""
        clock = Clock()
        stage, done, failed = self.stage(clock)
        stage.received(b"PROXY TCP4 a b 1 2\r\n")
        assert failed == ["invalid PROXY protocol header: invalid TCP4 address"]
        assert not done and not clock.getDelayedCalls()

    def test_late(self) -> None:
        """A header must be complete within its time limit, even if its bytes arrive one by one."""
        clock = Clock()
        stage, done, failed = self.stage(clock)
        for byte in FIRST[:10]:
            clock.advance(TIMEOUT / 10 + 0.001)
            if not failed:
                stage.received(bytes([byte]))
        assert failed == ["timeout reading PROXY protocol header"] and not done

    def test_stop(self) -> None:
        """A connection that ends before the header leaves no timer."""
        clock = Clock()
        stage, _, failed = self.stage(clock)
        stage.stop()
        clock.advance(TIMEOUT)
        assert not failed
