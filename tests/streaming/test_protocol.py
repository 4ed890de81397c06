"""
The messages of the protocol.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.streaming import protocol
from natsbroker.streaming.protocol import Malformed, Replies, decode, messageClasses
from tests.streaming.support import Inbox, Stage

#: Every field with its number, as nats-streaming-server and its clients have them.
FIELDS = {
    "PubMsg": "clientID=1 guid=2 subject=3 reply=4 data=5 connID=6 sha256=10",
    "PubAck": "guid=1 error=2",
    "MsgProto": "sequence=1 subject=2 reply=3 data=4 timestamp=5 redelivered=6 redeliveryCount=7"
    " CRC32=10",
    "Ack": "subject=1 sequence=2",
    "ConnectRequest": "clientID=1 heartbeatInbox=2 protocol=3 connID=4 pingInterval=5 pingMaxOut=6",
    "ConnectResponse": "pubPrefix=1 subRequests=2 unsubRequests=3 closeRequests=4 error=5"
    " subCloseRequests=6 pingRequests=7 pingInterval=8 pingMaxOut=9 protocol=10 publicKey=100",
    "Ping": "connID=1",
    "PingResponse": "error=1",
    "SubscriptionRequest": "clientID=1 subject=2 qGroup=3 inbox=4 maxInFlight=5 ackWaitInSecs=6"
    " durableName=7 startPosition=10 startSequence=11 startTimeDelta=12",
    "SubscriptionResponse": "ackInbox=2 error=3",
    "UnsubscribeRequest": "clientID=1 subject=2 inbox=3 durableName=4",
    "CloseRequest": "clientID=1",
    "CloseResponse": "error=1",
}


@pytest.mark.parametrize("name", FIELDS)
def test_numbers(name: str) -> None:
    """The fields have the numbers of the real protocol."""
    fields = getattr(protocol, name).DESCRIPTOR.fields
    assert " ".join(f"{field.name}={field.number}" for field in fields) == FIELDS[name]


def test_bytesOnTheWire() -> None:
    """A PubAck and a MsgProto have the bytes that nats-streaming-server sends."""
    assert protocol.PubAck(guid="guid1").SerializeToString() == b"\n\x05guid1"
    message = protocol.MsgProto(sequence=1, subject="foo", data=b"x", timestamp=5)
    assert message.SerializeToString() == b"\x08\x01\x12\x03foo\x22\x01x\x28\x05"


def test_unknownFieldsAreSkipped() -> None:
    """A field that a newer client adds is ignored."""
    assert decode(protocol.Ack, b"\x10\x07\x7a\x03abc\x98\x06\x01").sequence == 7


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 11,
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\x07abc",
        b"\x00\x00",
        b"\x0b" * 100_000,
        b"\x0d\x00\x00",
        b"\x09\x00",
        b"\x0a\x01\xff",
        b"\x0c",
        b"\x0f",
    ],
)
def test_malformed(data: bytes) -> None:
    """Bytes that are no message raise only L{Malformed}."""
    with pytest.raises(Malformed):
        decode(protocol.PubMsg, data)


def test_mutations() -> None:
    """A changed message is either read as a message or raises L{Malformed}."""
    random = Random(7)
    seeds: list[tuple[Any, bytes]] = [
        (protocol.PubMsg, protocol.PubMsg(clientID="c", guid="g", data=b"x" * 20)),
        (protocol.ConnectRequest, protocol.ConnectRequest(clientID="c", connID=b"i", protocol=1)),
        (protocol.SubscriptionRequest, protocol.SubscriptionRequest(subject="s", maxInFlight=-1)),
    ]
    outcomes = {True: 0, False: 0}
    for _ in range(3000):
        kind, message = random.choice(seeds)
        data = bytearray(message.SerializeToString())  # type: ignore[attr-defined]
        for _ in range(random.randint(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            decode(kind, bytes(data[: random.randint(0, len(data))]))
            outcomes[True] += 1
        except Malformed:
            outcomes[False] += 1
    assert min(outcomes.values()) > 100


def test_replies() -> None:
    """Each answer is a message of its kind, with the error in its place."""
    stage = Stage()
    inbox = Inbox(stage)
    replies = Replies(stage.bus)
    replies.connectError(inbox.subject, "e")
    replies.publishError(inbox.subject, "g", "e")
    replies.subscription(inbox.subject, "e")
    replies.close(inbox.subject, "e")
    replies.subscription(inbox.subject)
    replies.close(inbox.subject)
    assert [message.payload for message in inbox.got] == [
        protocol.ConnectResponse(error="e").SerializeToString(),
        protocol.PubAck(guid="g", error="e").SerializeToString(),
        protocol.SubscriptionResponse(error="e").SerializeToString(),
        protocol.CloseResponse(error="e").SerializeToString(),
        b"",
        b"",
    ]


def test_replyWithoutSubject() -> None:
    """A request without a reply subject is not answered."""
    stage = Stage()
    published: list[object] = []
    stage.bus.subscribe(b">", Inbox(stage, published.append))
    Replies(stage.bus).close(b"", "e")
    assert published == []


ROOT = Path(__file__).resolve().parents[2]

COMPILED = [
    ("natsbroker.streaming", "protocol"),
    ("natsbroker.streaming", "state"),
    ("natsbroker.streaming.filestore", "filestore"),
]


@pytest.mark.parametrize(("package", "name"), COMPILED)
def test_compiledFilesAreCurrent(package: str, name: str, tmp_path: Path) -> None:
    """protoc compiles each file into the descriptor set beside it."""
    pytest.importorskip("grpc_tools", reason="protoc is not installed")
    source = f"{package.replace('.', '/')}/{name}.proto"
    made = tmp_path / "made"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={made}", source],
        cwd=ROOT,
        check=True,
    )
    assert made.read_bytes() == files(package).joinpath(f"{name}.binpb").read_bytes()


def test_ownPool() -> None:
    """Two loads of a file are independent of each other and of the library's own pool."""
    one = messageClasses("natsbroker.streaming", "protocol")["Ping"]
    other = messageClasses("natsbroker.streaming", "protocol")["Ping"]
    assert one is not other
    assert one.FromString(other(connID=b"x").SerializeToString()).connID == b"x"


@pytest.mark.parametrize(("package", "name"), COMPILED)
def test_messageClasses(package: str, name: str) -> None:
    """Every message of the protocol file has a class, which reads its own bytes."""
    source = files(package).joinpath(f"{name}.proto").read_text("utf-8")
    classes = messageClasses(package, name)
    assert sorted(classes) == sorted(
        line.split()[1] for line in source.splitlines() if line.startswith("message ")
    )
    for messageClass in classes.values():
        assert messageClass.FromString(messageClass().SerializeToString()) == messageClass()
