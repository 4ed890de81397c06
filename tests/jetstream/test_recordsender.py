"""
Sending stored messages: the lane sends what the readable path does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.interfaces.records import Record, RecordRun
from natsbroker.jetstream.recordsender import RecordSender, Sent
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind
from tests.storage.encodings import encodedRecords
from tests.support import (
    COMPILED,
    HEADERS,
    PURE,
    Doorkeeper,
    Names,
    Recorder,
    World,
    needsCompiled,
    onEach,
    using,
)

BLOCK = b"NATS/1.0\r\nA: 1\r\n\r\n"
PREFIX = b"$JS.ACK.S.C%."

RECORDS = [
    Record(7, 1_700_000_000_000_000_000, b"s.a", b"", b"x" * 300),
    Record(8, 1_700_000_000_000_000_001, b"s.b", BLOCK, b"two"),
    Record(1 << 53, 3, b"s.c", BLOCK, b""),
    Record((1 << 53) + 1, 4, b"s.d", b"", b""),
]


def deliver(world: World, *run: Any) -> Sent:
    """The messages that are sent to the clients."""
    sender = RecordSender(world.accounts["$G"].busFor(Kind.INTERNAL))
    return sender.deliver(RecordRun(*run))


def frames(names: Names, records: Sequence[Record], most: int, isShown: bool) -> list[object]:
    """The frames for two clients, of which one supports headers, and the sender's result."""
    with using(names):
        world = World()
        plain, withHeaders = world.client(), world.client(HEADERS)
        plain.send(b"SUB d 1\r\nSUB * 22\r\n")
        withHeaders.send(b"SUB d 333\r\n")
        sent = deliver(world, [b"d"], records, PREFIX, 9, 2, most, isShown)
        traffic = [client.session.traffic for client in (plain, withHeaders)]
        # The order of subscriptions with one subject is the router's.
        return [sent, sorted(plain.receive().split(b"MSG ")), withHeaders.receive(), traffic]


@needsCompiled
@given(
    st.lists(
        st.builds(
            Record,
            st.integers(1, 1 << 62),
            st.integers(0, 1 << 62),
            st.sampled_from([b"s", b"s.long.subject"]),
            st.sampled_from([b"", BLOCK]),
            st.binary(max_size=20),
        ),
        max_size=4,
    ),
    st.integers(0, 400),
    st.booleans(),
)
def test_lanes(records: list[Record], most: int, isShown: bool) -> None:
    """Both lanes send the same frames, and stop at the same message."""
    assert COMPILED is not None
    expected = frames(PURE, records, most, isShown)
    assert frames(COMPILED, records, most, isShown) == expected
    assert frames(COMPILED, encodedRecords(records), most, isShown) == expected
    assert frames(COMPILED, encodedRecords(records, 4), most, isShown) == expected


@onEach
def test_numbers(names: Names) -> None:
    """Messages come with the stream's subject and a numbered reply subject."""
    with using(names):
        world = World()
        client = world.client(HEADERS)
        client.send(b"SUB d 1\r\n")
        size = sum(len(record.subject + record.headers + record.payload) for record in RECORDS)
        sent = deliver(world, [b"d"], RECORDS, PREFIX, 9, 2, 10_000, True)
        lines = client.receive().split(b"\r\n")
        acks = [line.split()[3] for line in lines if b"MSG " in line]
        assert [line.split()[1] for line in lines if b"MSG " in line] == [
            record.subject for record in RECORDS
        ]
        assert acks == [
            PREFIX + b"1.7.9.1700000000000000000.2",
            PREFIX + b"1.8.10.1700000000000000001.1",
            PREFIX + b"1.9007199254740992.11.3.0",
            PREFIX + b"1.9007199254740993.12.4.0",
        ]
        assert sent == Sent(4, size + sum(map(len, acks)))


@onEach
@pytest.mark.parametrize("isEncoded", [False, True])
def test_subjects(names: Names, isEncoded: bool) -> None:
    """Messages can each go to a subject of their own, until one has no receiver."""
    with using(names):
        world = World()
        client = world.client(HEADERS)
        client.send(b"SUB a 1\r\nSUB b 2\r\nSUB d 4\r\n")
        records = encodedRecords(RECORDS) if isEncoded and names is COMPILED else RECORDS
        subjects = [b"a", b"b", b"c", b"d"]
        assert deliver(world, subjects, records, PREFIX, 1, 3, 10_000, True).messages == 2
        lines = client.receive().split(b"\r\n")
        assert [line.split()[1:3] for line in lines if b"MSG " in line] == [
            [b"s.a", b"1"],
            [b"s.b", b"2"],
        ]


@onEach
def test_nobody(names: Names) -> None:
    """Without a receiver, no message is sent; after the last receiver has left, no further one."""
    with using(names):
        world = World()
        assert deliver(world, [b"d"], RECORDS, PREFIX, 1, 0, 10_000, True) == Sent(0, 0)
        client = world.client(HEADERS)
        client.send(b"SUB d 1\r\nUNSUB 1 2\r\n")
        sent = deliver(world, [b"d"], RECORDS, PREFIX, 1, 0, 10_000, True)
        assert sent.messages == 2
        assert client.receive().count(b"MSG s.") == 2


@onEach
def test_services(names: Names) -> None:
    """
    A service in the broker gets messages. A subscription whose permissions deny the subject gets
    none.
    """
    with using(names):
        denied = SubscribePermissions((b">",), (b"d",))
        world = World(authorizer=Doorkeeper(lambda hello: Grant(subscribe=denied)))
        client, recorder = world.client(HEADERS), Recorder()
        client.send(b"SUB * 1\r\n")
        assert deliver(world, [b"d"], RECORDS, PREFIX, 1, 0, 10_000, True).messages == 0
        world.accounts["$G"].busFor(Kind.INTERNAL).subscribe(b"d", recorder, "tag")
        assert deliver(world, [b"d"], RECORDS, PREFIX, 1, 0, 10_000, True).messages == 4
        assert [message.shownSubject for message, _ in recorder.got] == [
            record.subject for record in RECORDS
        ]
        assert client.receive() == b""


@onEach
@pytest.mark.parametrize("length", [100, 1020, 2000])
def test_longPrefixes(names: Names, length: int) -> None:
    """Long names of streams and consumers do not change how messages are sent."""
    with using(names):
        world = World()
        client = world.client(HEADERS)
        client.send(b"SUB d 1\r\n")
        prefix = b"$JS.ACK." + b"S" * length + b".C."
        assert deliver(world, [b"d"], RECORDS[:1], prefix, 1, 0, 10_000, True).messages == 1
        assert prefix + b"1.7.1.1700000000000000000.0 300\r\n" in client.receive()
