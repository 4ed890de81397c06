"""Requests to one of several brokers that are one server."""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from natsbroker.system.requests import SystemRequests
from natsbroker.system.shared import SharedAnswers
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, World


class Own:
    """The answers of one broker about itself."""

    def ofSubscribers(self, body: bytes) -> Deferred[Any]:
        return succeed(b"own")


class Stage:
    """
    Two brokers on one bus, as if there were no way between them.

    @ivar asked: the questions about the server, with the broker that asked.
    """

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.world = World()
        self.bus = self.world.accounts["$SYS"].busFor(Kind.CLIENT)
        makeOwn: Any = Own
        for broker in (1, 2):
            SystemRequests(
                self.world.accounts["$SYS"].busFor(Kind.INTERNAL),
                "ID",
                makeOwn,
                Clock(),
                lambda: 0.0,
                SharedAnswers(self._askFor(broker)),
                partial(eq, broker, 2),
            )

    def _askFor(self, broker: int) -> Any:
        def ask(method: str, *arguments: Any) -> Deferred[Any]:
            self.asked.append((broker, method, *arguments))
            return succeed(b"answer")

        return ask

    def request(self, subject: bytes, body: bytes = b"x") -> list[bytes]:
        recorder = Recorder()
        self.bus.subscribe(b"_INBOX.one", recorder)
        self.bus.publish(Message(subject, body, b"_INBOX.one", origin=object()))
        self.world.settle()
        return recorder.bodies


def test_once() -> None:
    """One of the brokers answers a request, after asking about the whole server."""
    for subject, question in {
        b"$SYS.REQ.SERVER.PING": ("ofServer", "STATSZ", b"x"),
        b"$SYS.REQ.SERVER.ID.VARZ": ("ofServer", "VARZ", b"x"),
        b"$SYS.REQ.SERVER.ID.KICK": ("ofAction", "KICK", b"x"),
        b"$SYS.REQ.ACCOUNT.A.CONNZ": ("ofAccount", "CONNZ", "A", b"x"),
    }.items():
        stage = Stage()
        assert stage.request(subject) == [b"answer"]
        assert [asked[1:] for asked in stage.asked] == [question]


def test_subscribers() -> None:
    """The broker that speaks counts subscriptions of all; for each other they count their own."""
    stage = Stage()
    subject, body = b"$SYS.REQ.ACCOUNT.NSUBS", b'{"acc":"A","subject":"s"}'
    assert stage.request(subject, body) == [b"answer"]
    assert stage.asked == [(2, "ofSubscribers", body)]
    assert stage.request(subject, b'{"natsbroker_server":"ID"}') == [b"own", b"own"]
    for other in (b'{"natsbroker_server":"OTHER"}', b'{"natsbroker_server":1}', b"[]", b"{"):
        assert stage.request(subject, other) == [b"answer"]


def test_rows() -> None:
    """The rows of accounts are requested by their names."""
    stage = Stage()
    SharedAnswers(stage._askFor(1)).accountRows(["A", "B"])
    assert stage.asked == [(1, "accountRows", ("A", "B"))]
