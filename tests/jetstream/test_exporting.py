"""
The streams of an account for the export service.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.accounts.requests import ProgramOrigin
from natsbroker.export.service import ExportService
from natsbroker.jetstream.exporting import StreamDirectory
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.wire.columnar import readFrame
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Message
from tests.jetstream.support import Stage


def test_directory() -> None:
    """A directory lists the streams of an account, and finds their logs."""
    stage = Stage()
    stage.stream(name="B")
    memory = stage.stream(name="A", subjects=("a",), storage=StorageType.MEMORY)
    directory = StreamDirectory(stage.jetstream)
    assert (directory.kind, directory.realm, directory.names()) == ("STREAM", "_", ["A", "B"])
    assert directory.find("A") is memory.log
    assert directory.find("C") is None
    assert [directory.headerPrefix(name) for name in ("A", "B", "C")] == [0, 4, 0]
    assert directory.readSubjects("B") == (b"$JS.API.STREAM.MSG.GET.B", b"$JS.API.DIRECT.GET.B")
    stage.stream(name="C", subjects=("c",)).isChannel = True
    assert (directory.find("C"), directory.names()) == (None, ["A", "B"])
    memory.isDeleted = True
    assert directory.find("A") is None
    stage.jetstream.domain = "hub"
    hub = StreamDirectory(stage.jetstream)
    assert hub.realm == "hub"
    assert b"$JS.hub.API.DIRECT.GET.B" in hub.readSubjects("B")


def test_export() -> None:
    """A frame of the export has the messages of a stream as they were published."""
    stage = Stage()
    stage.stream()
    stage.publish(b"s.a", b"1")
    stage.publish(b"s.b", b"2", Colour="red")
    service = ExportService(stage.jetstream.bus, stage.clock, stage.jetstream.turns, stage.now)
    stage.wait(service.begin(StreamDirectory(stage.jetstream)))

    def ask(verb: str, **question: Any) -> bytes:
        inbox = stage.inbox(b"_INBOX.x")
        subject, body = b"$NB.API.STREAM.%b._.S" % verb.encode(), json.dumps(question).encode()
        stage.bus.publish(Message(subject, body, b"_INBOX.x", origin=ProgramOrigin("A")))
        stage.settle()
        return inbox.payloads[0]

    assert json.loads(ask("INFO"))["last"] == 2
    frame = readFrame(ask("EXPORT", start=1, subjects=["s.b"]))
    assert (frame.rows, frame.place.next, bytes(frame.payloads)) == (1, 3, b"2")
    assert Headers.fromBlock(bytes(frame.headers)).get("Colour") == "red"
    stage.wait(service.end())
