"""
Tests of L{natsbroker.runtime.responder}.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from natsbroker.runtime.responder import RequestResponder
from natsbroker.wire.values import Message
from tests.auth.buses import Clients, busOf
from tests.conftest import FlushLoggedErrors
from tests.support import Recorder


def test_answers() -> None:
    """An answer of bytes is sent as it is, another value as JSON, and C{None} not at all."""
    bus = busOf()
    answering = RequestResponder(bus)
    answering.on(b"bytes", lambda message: b"raw:" + message.payload)
    answering.on(b"json", lambda message: {"a": [1, "é"]})
    answering.on(b"nothing", lambda message: None)
    clients = Clients(bus)
    assert clients.ask("bytes", b"x") == [b"raw:x"]
    assert clients.json("json") == {"a": [1, "é"]}
    assert clients.ask("nothing") == []


def test_lateAnswer() -> None:
    """An answer may come later."""
    bus = busOf()
    answer: Deferred[bytes] = Deferred()
    RequestResponder(bus).on(b"later", lambda message: answer)
    inbox = Recorder()
    bus.subscribe(b"_INBOX.y", inbox)
    Clients(bus).ask("later", b"", b"_INBOX.y")
    assert inbox.bodies == []
    answer.callback(b"now")
    assert inbox.bodies == [b"now"]


def test_noPlaceForIt() -> None:
    """A request without a reply subject is handled, and gets no answer."""
    bus = busOf()
    done: list[Message] = []

    def answer(message: Message) -> bytes:
        done.append(message)
        return b"answer"

    RequestResponder(bus).on(b"x", answer)
    assert Clients(bus).ask("x", reply=b"") == []
    assert len(done) == 1


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """If handling a request fails, the error is logged, and no answer is sent."""
    bus = busOf()
    answering = RequestResponder(bus)
    answering.on(b"x", lambda message: 1 // 0)
    answering.on(b"y", lambda message: {"no": object()})
    assert Clients(bus).ask("x") == []
    assert Clients(bus).ask("y") == []
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1
    assert len(flushLoggedErrors(TypeError)) == 1


def test_queue() -> None:
    """Of several responders in a queue group, one answers."""
    bus = busOf()
    for _ in range(2):
        RequestResponder(bus).on(b"x", lambda message: b"one", b"group")
    assert Clients(bus).ask("x") == [b"one"]


def test_close() -> None:
    """A closed responder answers nothing more."""
    bus = busOf()
    answering = RequestResponder(bus)
    answering.on(b"x", lambda message: b"answer")
    answering.close()
    assert Clients(bus).ask("x") == []
    assert not bus.hasInterest(b"x")
