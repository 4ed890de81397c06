"""
Classic routes under input that nobody would send.

Whatever comes, and however it is cut: nothing fails inside, the answer is the same, and nothing is
left of a peer that is gone. C{python -m tests.routes.test_classicinput FIRST LAST} tries more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from natsbroker.routes.dialects import RouteDialect
from natsbroker.wire.values import Kind
from tests.links.linkpeers import linked
from tests.routes.clusters import Node, connect, info, oldConnect, oldInfo

SEEDS = range(120)

SUBJECTS = [b"a", b"a.b", b"b.*", b">", b"a..b", b"", b"_SYS.x", b"a\x01b", b"\xff.x"]
SIDS = [b"RSID:1:1", b"RSID:1:2", b"QRSID:1:1", b"QRSID:2:1", b"QRSID:9:9", b"QRSID", b"9", b":"]
WORDS = [b"SUB", b"UNSUB", b"MSG", b"PUB", b"sub", b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"X"]
PARTS = [*SUBJECTS, *SIDS, b"q", b"r", b"0", b"1", b"-1", b"999999999", b"{}", b" ", b"\t", b"\r"]

LIMITS = linked(
    max_control_line=300, max_payload=2000, max_pending=1 << 20, no_fast_producer_stall=True
)


def statement(random: Random) -> bytes:
    """A line that a peer may send, mostly well formed."""
    subject, sid = random.choice(SUBJECTS), random.choice(SIDS)
    body = random.choice([b"", b"x", b"y" * 500, b"\r\nPING\r\n"])
    queue = random.choice([b"", b"", b"q", b"r"])
    choices = [
        b"SUB %b %b %b\r\n" % (subject, queue, sid),
        b"UNSUB %b\r\n" % sid,
        b"UNSUB %b %d\r\n" % (sid, random.randrange(4)),
        b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(body), body),
        b"MSG %b %b r.s %d\r\n%b\r\n" % (subject, sid, len(body), body),
        b"PUB %b %d\r\n%b\r\n" % (subject, len(body), body),
        b"PING\r\n",
        oldInfo(server_id=random.choice(["PEER", "OTHER", "ID-n1"]), port=random.choice([0, 7])),
        random.choice(WORDS)
        + b" "
        + b" ".join(random.sample(PARTS, random.randrange(5)))
        + b"\r\n",
        bytes(random.randrange(256) for _ in range(random.randrange(30))),
    ]
    weights = [10, 4, 4, 8, 4, 4, 2, 1, 0.3, 0.1]
    return random.choices(choices, weights)[0]


def beginning(random: Random) -> bytes:
    """The first lines of a peer."""
    isVerbose = random.random() < 0.3
    return random.choices(
        [
            oldConnect(verbose=isVerbose) + oldInfo(),
            oldInfo() + oldConnect(verbose=isVerbose),
            oldConnect(verbose=isVerbose),
            connect() + info(),
            b"",
        ],
        [12, 2, 1, 1, 1],
    )[0]


@contextmanager
def failures() -> Iterator[list[str]]:
    """The internal errors meanwhile."""
    results: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        if event.get("log_failure") is not None or event["log_level"].name == "critical":
            results.append(f"{formatEvent(event)} {event.get('log_failure')}")

    globalLogPublisher.addObserver(observe)
    try:
        yield results
    finally:
        globalLogPublisher.removeObserver(observe)


def answer(seed: int, cuts: int) -> tuple[list[bytes], list[list[bytes]], str]:
    """
    Send random input as a peer, and publish as clients in between.

    @param cuts: how the input is cut.
    @return: what we said, what our clients had, and why the connection ended.
    """
    random, knife = Random(seed), Random(cuts)
    dialect = random.choice([RouteDialect.CLASSIC, RouteDialect.CLASSIC, RouteDialect.AUTO])
    node = Node.classic(dialect=dialect, limits=LIMITS)
    other = node.joinedOld(server_id="P0")
    ears = [node.subscribe(b"a.*", account="$G"), node.subscribe(b"a", b"q", "$G")]
    wire = node.accepted()
    said: list[bytes] = []
    for _ in range(random.randrange(1, 5)):
        data = beginning(random) if not said else b""
        data += b"".join(statement(random) for _ in range(random.randrange(12)))
        while data:
            size = knife.choice([1, 5, 50, len(data)]) if cuts else len(data)
            wire.send(data[:size])
            data = data[size:]
        for subject in (b"a", b"a.b", b"_SYS.x"):
            node.publish(subject, b"z" * random.randrange(10), "$G", reply=b"r")
        said.append(b"\n".join(wire.lines()))
    reason = wire.closed
    wire.hangUp()
    other.hangUp()
    account = node.buses.accounts["$G"]
    assert [
        subscription for subscription in account.subscriptions() if subscription.kind == Kind.ROUTE
    ] == []
    assert len(node.cluster) == 0 and node.peers() == []
    for ear in ears:
        ear.subscription.cancel()
    assert len(account) == 0
    return said, [ear.bodies for ear in ears], reason


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 20))
def test_input(first: int) -> None:
    """
    Random input of any size raises no error and leaves no state behind. The sizes of its pieces do
    not matter.
    """
    for seed in range(first, first + 20):
        with failures() as failed:
            whole = answer(seed, 0)
            assert answer(seed, seed + 1) == whole, f"seed {seed}"
        assert failed == [], f"seed {seed}"


if __name__ == "__main__":
    begin, end = map(int, sys.argv[1:3])
    for start in range(begin, end, 20):
        test_input(start)
