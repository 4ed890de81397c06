"""
Clients and subscriptions, replayed from logs.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from natsbroker.streaming.filestore import state
from natsbroker.streaming.filestore.framing import SourceError, TypedRecord, typedRecords
from natsbroker.streaming.filestore.state import (
    SourceSubscription,
    replayClients,
    replaySubscriptions,
)
from tests.streaming.filestore.writer import ChannelWriter, StoreWriter


def subscriptionsOf(channel: ChannelWriter) -> list[SourceSubscription]:
    """The subscriptions of a channel."""
    records = typedRecords("s", channel.path("subs.dat").read_bytes(), crc32, pytest.fail)
    return replaySubscriptions("s", records)


@pytest.fixture
def channel(tmp_path: Path) -> ChannelWriter:
    """A channel."""
    return ChannelWriter(tmp_path / "orders", crc32)


def test_clients(tmp_path: Path) -> None:
    """
    A client that is recorded again replaces its old record; a client that left is not returned.
    """
    writer = StoreWriter(tmp_path / "store")
    writer.client("a", "_INBOX.1")
    writer.client("b")
    writer.client("a", "_INBOX.2", b"2")
    writer.clientGone("b")
    writer.clientGone("never")
    data = (writer.root / "clients.dat").read_bytes()
    clients = replayClients("c", typedRecords("c", data, crc32, pytest.fail))
    assert list(clients) == ["a"]
    assert (clients["a"].hbInbox, clients["a"].connID, clients["a"].protocol) == (
        "_INBOX.2",
        b"2",
        1,
    )


def test_pending(channel: ChannelWriter) -> None:
    """A message that was sent and not acknowledged is pending. The last sent message is known."""
    channel.subscription(1, durableName="d", clientID="c", isDurable=True, lastSent=4)
    channel.sent(1, 7, 5, 6, 6)
    channel.acknowledged(1, 6, 9)
    (subscription,) = subscriptionsOf(channel)
    assert (subscription.pending, subscription.lastSent) == ({5, 7}, 7)


def test_update(channel: ChannelWriter) -> None:
    """A changed subscription keeps its pending messages; an unknown one is made."""
    channel.subscription(1, clientID="c", durableName="d")
    channel.sent(1, 1, 2)
    channel.subscription(1, 2, clientID="c", durableName="d", isClosed=True, lastSent=2)
    channel.subscription(2, 2, clientID="e", durableName="d")
    one, two = subscriptionsOf(channel)
    assert (one.state.isClosed, one.pending, one.lastSent) == (True, {1, 2}, 2)
    assert two.state.clientID == "e"


def test_deleted(channel: ChannelWriter) -> None:
    """
    A deleted subscription is not returned, also if it was deleted twice and later records name it.
    """
    channel.subscription(1, clientID="c", durableName="d")
    channel.deleted(1)
    channel.deleted(1)
    channel.sent(1, 1)
    channel.acknowledged(1, 1)
    assert subscriptionsOf(channel) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"durableName": "d"}, True),
        ({"durableName": "d", "isDurable": True}, True),
        ({"qGroup": "d:g", "isDurable": True}, True),
        ({"qGroup": "g"}, False),
        ({}, False),
    ],
)
def test_isDurable(fields: dict[str, object], expected: bool) -> None:
    """
    A durable name without a queue group makes a subscription durable, as servers before 0.3.0 had
    no flag.
    """
    assert SourceSubscription(state.SubState(id=1, **fields)).isDurable is expected


def test_compacted(channel: ChannelWriter) -> None:
    """After compaction, pending messages follow in any order."""
    channel.subscription(2, clientID="c", durableName="d", isDurable=True, lastSent=9)
    channel.sent(2, 9, 3, 5)
    channel.subscription(1, clientID="c", durableName="e", isDurable=True, lastSent=2)
    two, one = subscriptionsOf(channel)
    assert (two.pending, two.lastSent, one.pending) == ({3, 5, 9}, 9, set())


def test_unknownType() -> None:
    """A record of an unknown type is an error, with its place."""
    record = TypedRecord(6, b"", 44)
    with pytest.raises(SourceError, match="s: the record at 44 has unknown type 6"):
        replaySubscriptions("s", [record])
    with pytest.raises(SourceError, match="c: the record at 44 has unknown type 6"):
        replayClients("c", [record])


def test_noMessage() -> None:
    """A payload that is no message, although its checksum is right, is reported."""
    with pytest.raises(SourceError, match="s: the record at 4 is not a message"):
        replaySubscriptions("s", [TypedRecord(1, b"\xff", 4)])
