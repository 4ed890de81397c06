"""Tests for L{natsbroker.accounts.tracing}; events are compared with nats-server's elsewhere."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from natsbroker.accounts.tracing import (
    CLIENT,
    GATEWAY,
    LEAF,
    ROUTER,
    AccountTracing,
    TracePeer,
)
from natsbroker.connections.s2stream import S2Decoder
from natsbroker.wire.tracing import withHeader
from natsbroker.wire.values import Message

ME = TracePeer(CLIENT, 7, "me")
ROUTE = TracePeer(ROUTER, 1, "s1")


class Answer:
    """Permissions that allow every subject or none."""

    def __init__(self, isAllowed: bool) -> None:
        self._isAllowed = isAllowed

    def __call__(self, dest: bytes) -> bool:
        return self._isAllowed


class Link:
    """
    A link to a server.
    """

    def __init__(self, *peer: Any) -> None:
        self.tracePeer = TracePeer(*peer)


class Tracing(AccountTracing):
    """
    The traces of account C{A}, at second 0.

    @ivar sent: what was published.
    """

    def __init__(self) -> None:
        self.sent: list[Message] = []
        super().__init__("A", lambda: {"name": "s"}, float, Random(1), self.sent.append)

    def traced(self, *lines: bytes, peer: TracePeer = ME) -> Any:
        """A message with these headers, as the broker passes it on."""
        headers = b"\r\n".join([b"NATS/1.0", *lines, b"", b""])
        return self.begin(Message(b"foo", headers + b"hi", headerLength=len(headers)), peer)

    @property
    def documents(self) -> list[Any]:
        """The published JSON documents."""
        return [json.loads(message.payload) for message in self.sent]


@pytest.fixture
def tracing() -> Iterator[Tracing]:
    """
    An account without a destination of its own.
    """
    yield Tracing()


def test_document(tracing: Tracing) -> None:
    """A trace names the server, the received message and all its deliveries."""
    message = tracing.traced(b"Nats-Trace-Dest: t")
    message.trace.egress(TracePeer(CLIENT, 9, ""), "A", b"f>", b"q")
    message.trace.release()
    (sent,) = tracing.sent
    assert (sent.subject, sent.headerLength) == (b"t", 0)
    time = "1970-01-01T00:00:00Z"
    assert tracing.documents == [
        {
            "server": {"name": "s"},
            "request": {"header": {"Nats-Trace-Dest": ["t"]}, "msgsize": 34},
            "events": [
                {
                    **{"type": "in", "ts": time, "kind": 0, "cid": 7, "name": "me"},
                    **{"acc": "A", "subj": "foo"},
                },
                {"type": "eg", "ts": time, "kind": 0, "cid": 9, "sub": "f>", "queue": "q"},
            ],
        }
    ]
    assert b"f\\u003e" in sent.payload


def test_hops(tracing: Tracing) -> None:
    """Each forwarded copy has a hop number, which follows that of the message."""
    message = tracing.traced(b"Nats-Trace-Dest: t", b"Nats-Trace-Hop: 2", peer=ROUTE)
    links = Link(ROUTER, 1, "r"), Link(LEAF, 2, "l"), Link(GATEWAY, 3, "g")
    copies = [message.trace.forwarded(link, message, "B") for link in links]
    assert [copy.headers.split(b"\r\n")[-3] for copy in copies] == [
        b"Nats-Trace-Hop: 2.1",
        b"Nats-Trace-Hop: 2.2",
        b"Nats-Trace-Hop: 2.3",
    ]
    message.trace.release()
    (document,) = tracing.documents
    assert document["hops"] == 3
    assert [event.get("acc") for event in document["events"]] == ["A", None, "B", None]


def test_hopOfClient(tracing: Tracing) -> None:
    """A hop number from a client is shown in the trace and not used."""
    message = tracing.traced(b"Nats-Trace-Dest: t", b"Nats-Trace-Hop: 2")
    copy = message.trace.forwarded(Link(ROUTER, 1, "r"), message, "A")
    assert copy.headers == withHeader(message.headers, b"Nats-Trace-Hop", b"1")


@pytest.mark.parametrize(("only", "isSent"), [(b"0", True), (b"1", False)])
def test_oldPeer(tracing: Tracing, only: bytes, isSent: bool) -> None:
    """A peer that does not support traces receives no message that is to be traced only."""
    message = tracing.traced(b"Nats-Trace-Dest: t", b"Nats-Trace-Only: " + only)
    copy = message.trace.forwarded(Link(ROUTER, 1, "old", False), message, "A")
    assert (copy is not None) is isSent
    assert "does not support message tracing" in message.trace.events[-1]["error"]
    assert message.trace.events[-1]["hop"] == "1"


def test_heldTrace(tracing: Tracing) -> None:
    """A trace is sent after everything that adds events to it is done."""
    message = tracing.traced(b"Nats-Trace-Dest: t")
    message.trace.hold()
    message.trace.release()
    assert tracing.sent == []
    message.trace.release()
    assert len(tracing.sent) == 1


def test_mapped(tracing: Tracing) -> None:
    """A mapping is an event of the trace, and later events have the new subject."""
    message = tracing.traced(b"Nats-Trace-Dest: t")
    message.trace.mapped(message, b"foo")
    message.trace.mapped(message, b"bar")
    assert message.subject == b"bar"
    assert [event.get("to") for event in message.trace.events] == [None, "bar"]


def test_deniedDestination(tracing: Tracing) -> None:
    """A message is dropped if its publisher may not publish to the destination."""
    message = Message(b"foo", b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n", headerLength=33)
    assert tracing.begin(message, ME, lambda dest: False) is None


def test_tooLarge(tracing: Tracing) -> None:
    """A message that is too large is traced with its announced size, and goes nowhere."""
    headers = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"
    for isAllowed in (False, True):
        asked = Message(b"foo", headers, headerLength=len(headers))
        tracing.refuse(asked, ME, 5000, Answer(isAllowed))
    (document,) = tracing.documents
    assert document["request"]["msgsize"] == 5000
    (event,) = document["events"]
    assert (event["type"], event["error"]) == ("in", "maximum payload exceeded")


def test_invalidDestination(tracing: Tracing) -> None:
    """
    A message with an invalid destination of its trace is delivered untraced, unless it is to be
    traced only.
    """
    assert tracing.traced(b"Nats-Trace-Dest: a.*").trace is None
    assert tracing.traced(b"Nats-Trace-Dest: a.*", b"Nats-Trace-Only: 1") is None


def test_originAccount(tracing: Tracing) -> None:
    """A message with the trace header of old servers is passed on as an untraced one."""
    origin = b"Nats-Trace-Origin-Account: A"
    message = tracing.traced(b"Nats-Trace-Dest: t", origin)
    assert message.trace is None
    assert message.headers.endswith(origin + b"\r\nNats-Trace-Dest: trace disabled\r\n\r\n")
    assert tracing.traced(b"Nats-Trace-Dest: t", b"Nats-Trace-Only: 1", origin) is None


class TestParent:
    """Messages with C{traceparent}."""

    LINE = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    def test_destination(self, tracing: Tracing) -> None:
        """
        A message with a parent's trace is traced to the destination of the account, if there is
        one.
        """
        assert tracing.traced(self.LINE).trace is None
        tracing.dest = b"t"
        tracing.traced(self.LINE).trace.release()
        assert tracing.sent[0].subject == b"t"

    def test_sampling(self, tracing: Tracing) -> None:
        """
        The share of traced messages is the configured percentage plus one. The other messages are
        not traced by any server.
        """
        tracing.dest, tracing.sampling = b"t", 1
        messages = [tracing.traced(self.LINE) for _ in range(2000)]
        traced = [message for message in messages if message.trace is not None]
        assert 20 < len(traced) < 70
        other = next(message for message in messages if message.trace is None)
        assert other.headers.endswith(b"Nats-Trace-Dest: trace disabled\r\n\r\n")

    def test_links(self, tracing: Tracing) -> None:
        """
        A message that came over a link is always traced, because the first server has sampled it.
        """
        tracing.dest, tracing.sampling = b"t", 1
        assert all(tracing.traced(self.LINE, peer=ROUTE).trace for _ in range(100))


@pytest.mark.parametrize("accepted", ["gzip", "snappy", "br"])
def test_encoding(tracing: Tracing, accepted: str) -> None:
    """Events are compressed with the encoding that the message accepts."""
    message = tracing.traced(b"Nats-Trace-Dest: t", b"Accept-Encoding: " + accepted.encode())
    message.trace.release()
    (sent,) = tracing.sent
    used = "identity" if accepted == "br" else accepted
    assert sent.headers == b"NATS/1.0\r\nContent-Encoding: %b\r\n\r\n" % used.encode()
    payload = sent.payload
    if accepted == "gzip":
        payload = gzip.decompress(payload)
    elif accepted == "snappy":
        decoder = S2Decoder()
        decoder.feed(payload)
        payload = decoder.read(1 << 20)
    assert json.loads(payload)["request"]["msgsize"] == message.trace.size
