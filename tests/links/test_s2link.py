"""
S2 between a link's session and its transport.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from cramjam import snappy

from natsbroker.routes.route import Route
from natsbroker.wire.compression import Compression
from tests.links.linkpeers import linked
from tests.links.s2frames import BEGIN, compressed, plain
from tests.routes.clusters import Node, connect, info
from tests.server.support import logLines
from tests.support import Names, onEach, using

#: As much as a session is given in one turn.
TURN = 1 << 18


def joined(**limits: Any) -> tuple[Node, Any]:
    """A member, and a peer that has agreed on S2 with it."""
    node = Node(compression=Compression("s2_fast"), limits=linked(**limits))
    wire = node.accepted()
    wire.send(connect() + info(compression="s2_fast"))
    wire.squeeze(info(compression="s2_fast"))
    wire.take()
    return node, wire


def block(content: bytes) -> bytes:
    """A compressed chunk."""
    return compressed(bytes(snappy.compress_raw(content)), content)


@onEach
def test_budget(names: Names) -> None:
    """
    However much a small chunk stands for, a turn handles as much of it as an uncompressed
    connection brings; the transport is not read before all is handled.
    """
    with using(names):
        node, wire = joined()
        content = b"PING\r\n" * 200_000
        assert len(block(content)) < 100_000
        turns: list[int] = []
        later = node.clock.callLater

        def callLater(*arguments: Any) -> Any:
            turns.append(wire.link.decoder.received)
            return later(*arguments)

        vars(node.clock)["callLater"] = callLater
        wire.protocol.dataReceived(BEGIN + block(content[: 1 << 20]) + block(content[1 << 20 :]))
        assert not wire.transport.isReading
        node.settle()
        assert wire.transport.isReading
        sizes = [after - before for before, after in pairwise(turns)]
        assert 0 < max(sizes) <= TURN + (1 << 16)
        assert wire.unpack()[1] == b"PONG\r\n" * 200_000


def test_emptyChunks() -> None:
    """Chunks without content use up a turn, too, and in the end the link."""
    node, wire = joined()
    wire.protocol.dataReceived(BEGIN + plain(b"") * 20_000 + plain(b"PING\r\n"))
    assert not wire.transport.isReading and wire.transport.take() == b""
    node.settle()
    assert wire.transport.isReading and wire.unpack()[1] == b"PONG\r\n"
    with logLines() as lines:
        for _ in range(600):
            wire.send(plain(b"") * 1000)
    assert wire.closed == "Read Error"
    assert any("S2: chunks without content" in line for line in lines)


def test_paused() -> None:
    """While the session wants nothing, nothing is decoded; then what was read comes first."""
    node, wire = joined()
    heard = node.subscribe(b"foo")
    messages = [b"RMSG A foo 1\r\n%d\r\n" % number for number in range(9)]
    wire.protocol.pauseReading()
    wire.protocol.dataReceived(BEGIN + plain(messages[0]) + plain(messages[1]))
    wire.send(BEGIN + plain(messages[2]))
    assert heard.bodies == [] and not wire.transport.isReading
    wire.protocol.resumeReading()
    node.settle()
    assert heard.bodies == [b"0", b"1", b"2"]
    assert wire.transport.isReading
    wire.protocol.pauseReading()
    wire.protocol.resumeReading()
    assert wire.transport.isReading
    wire.squeeze(messages[3])
    assert len(heard.bodies) == 4


def test_pausedWithin() -> None:
    """A session that pauses while it is given something gets no more of it."""
    node, wire = joined()
    link: Route = wire.link
    original = link.received
    seen: list[bytes] = []

    def received(data: bytes) -> None:
        seen.append(data)
        original(data)
        wire.protocol.pauseReading()

    link.received = received  # type: ignore[method-assign]
    wire.squeeze(b"PING\r\n", b"PING\r\n")
    assert seen == [b"PING\r\n"] and not wire.transport.isReading
    link.received = original  # type: ignore[method-assign]
    wire.protocol.resumeReading()
    node.settle()
    assert wire.unpack()[1] == b"PONG\r\nPONG\r\n"


def test_damaged() -> None:
    """What is no S2 ends the link without a word; the log says what is wrong."""
    _, wire = joined()
    with logLines() as lines:
        wire.send(BEGIN + b"\x02\x00\x00\x00")
    assert wire.take() == b"" and wire.closed == "Read Error"
    assert any("S2: chunk of type 0x02 and 0 bytes" in line for line in lines)


def test_flushes() -> None:
    """All that one turn says is one stream, and what is said last goes out before the end."""
    _, wire = joined()
    wire.squeeze(b"PING\r\nPI", b"NG\r\nPING\r\n")
    stream = wire.take()
    assert stream.startswith(BEGIN)
    wire.squeeze(b"BOGUS\r\n")
    assert wire.unpack() == (b"", b"-ERR 'Unknown Protocol Operation'\r\n")
    assert wire.transport.closed == "lost"


def test_fullTransport() -> None:
    """What a full transport holds is compressed, what waits behind it is not yet; both count."""
    node, wire = joined(max_pending=1_000_000)
    wire.squeeze(b"RS+ A foo\r\n")
    wire.transport.taking = False
    bodies = [Random(number).randbytes(30_000) for number in range(60)]
    for body in bodies[:9]:
        node.publish(b"foo", body)
    pending = wire.link.outbox.pending
    assert pending > wire.transport.waiting
    wire.transport.taking = True
    _, said = wire.unpack()
    assert [said.count(body) for body in bodies[:9]] == [1] * 9
    wire.transport.taking = False
    for body in bodies:
        node.publish(b"foo", body)
    assert wire.closed == "Slow Consumer (Pending Bytes)"


def test_secondLevel() -> None:
    """Another level holds for what is said from then on."""
    node, wire = joined()
    wire.squeeze(b"RS+ A foo\r\n")
    node.publish(b"foo", bytes(5000))
    short = len(wire.take())
    wire.link.peer.compress("s2_uncompressed")
    node.publish(b"foo", bytes(5000))
    assert short < 400 < 5000 < len(wire.take())
