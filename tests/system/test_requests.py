"""Tests for L{natsbroker.system.requests}."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker.accounts.account import Account
from natsbroker.interfaces import ISubscriber
from natsbroker.system.requests import (
    ACCOUNT_REQUESTS,
    ACTIONS,
    COLLECTING,
    SERVER_REQUESTS,
    SystemRequests,
)
from natsbroker.wire.values import Kind, Message
from tests.support import Recorder, World


class Answers:
    """
    Answers that repeat their request.

    @ivar made: how often answers were made.
    @ivar isSlow: whether answers of servers are Deferreds, with a long text.
    """

    def __init__(self) -> None:
        self.made = 0
        self.counted: tuple[str, str, bytes] | None = None
        self.isSlow = False

    def __call__(self) -> Any:
        self.made += 1
        return self

    def whileWanted(self, isWanted: Callable[[], bool]) -> Any:
        self.isWanted = isWanted
        return self

    def ofServer(self, kind: str, body: bytes) -> Any:
        if self.isSlow:
            return succeed(b"x" * 1000)
        return b"server %b %b" % (kind.encode(), body)

    def ofAccount(self, kind: str, account: str, body: bytes) -> bytes:
        return b"account %b %b %b" % (kind.encode(), account.encode(), body)

    def ofSubscribers(self, body: bytes) -> bytes:
        return b"subscribers %b" % body

    async def countSubscribers(self, account: str, subject: str, queue: bytes) -> int:
        self.counted = (account, subject, queue)
        return 3

    def ofAction(self, kind: str, body: bytes) -> bytes:
        return b"action %b %b" % (kind.encode(), body)


class Stage:
    """
    Requests to a system account and an account C{A}.
    """

    def __init__(self) -> None:
        self.answers = Answers()
        self.world = World()
        self.system, self.other = (self.world.accounts[name] for name in ("$SYS", "A"))
        self.clock, self.peers = Clock(), 0.0
        requests = SystemRequests(
            self.system.busFor(Kind.INTERNAL),
            "ID",
            self.answers,
            self.clock,
            lambda: self.peers,
        )
        requests.serve(self.other)

    def ask(self, subject: str, account: Account | None = None) -> list[bytes]:
        """
        The answers to a request behind C{$SYS.REQ.} with the body C{x}.
        """
        return self.request(f"$SYS.REQ.{subject}".encode(), b"x", account)

    def request(self, subject: bytes, body: bytes, account: Account | None = None) -> list[bytes]:
        """
        The answers to a request.
        """
        bus, recorder = (account or self.system).busFor(Kind.CLIENT), Recorder()
        bus.subscribe(b"_INBOX.one", recorder)
        bus.publish(Message(subject, body, b"_INBOX.one", origin=object()))
        self.world.settle()
        self.clock.advance(COLLECTING / 2)
        self.world.settle()
        return [message.body for message, _ in recorder.got]


def test_lazy() -> None:
    """Answers are made at the first request, and kept."""
    stage = Stage()
    assert stage.answers.made == 0
    stage.ask("SERVER.PING")
    stage.ask("SERVER.PING.VARZ")
    assert stage.answers.made == 1


@pytest.mark.parametrize("kind", SERVER_REQUESTS)
def test_servers(kind: str) -> None:
    """A request is for every server or for one; other servers ignore it."""
    stage = Stage()
    for server in ("PING", "ID"):
        assert stage.ask(f"SERVER.{server}.{kind}") == [b"server %b x" % kind.encode()]
    assert stage.ask(f"SERVER.OTHER.{kind}") == []


def test_status() -> None:
    """A request without a page is for the status."""
    assert Stage().ask("SERVER.PING") == [b"server STATSZ x"]


@pytest.mark.parametrize("kind", ACCOUNT_REQUESTS)
def test_accounts(kind: str) -> None:
    """An account is requested by its name."""
    assert Stage().ask(f"ACCOUNT.B.{kind}") == [b"account %b B x" % kind.encode()]


def test_subscribers() -> None:
    """Subscriptions are counted for users of the system account only."""
    stage = Stage()
    assert stage.ask("ACCOUNT.NSUBS") == [b"subscribers x"]
    assert stage.ask("ACCOUNT.NSUBS", stage.other) == []


@implementer(ISubscriber)
class Peer:
    """
    Other servers, which answer how many subscriptions they have.
    """

    def __init__(self, stage: Stage, *answers: bytes) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        self.bus = stage.system.busFor(Kind.INTERNAL)
        self.bus.subscribe(b"$SYS.REQ.ACCOUNT.NSUBS", self)

    def deliver(self, message: Message, tag: Any) -> None:
        self.asked.append(message.payload)
        for answer in self.answers:
            self.bus.publish(Message(message.reply, answer))

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""


COUNTING = b"$SYS.DEBUG.SUBSCRIBERS"


@pytest.mark.parametrize(
    ("body", "counted", "answer"),
    [
        (b"foo.*", ("$SYS", "foo.*", b""), b"3"),
        (b" foo q other\n", ("$SYS", "foo", b"q"), b"3"),
        (b"", ("$SYS", "", b""), b"3"),
        (b"foo  q", None, b"0"),
    ],
)
def test_debugSubscribers(body: bytes, counted: Any, answer: bytes) -> None:
    """A server that is alone answers at once for a subject, with or without a queue group."""
    stage = Stage()
    assert stage.request(COUNTING, body) == [answer]
    assert stage.answers.counted == counted


def test_debugSubscribersElsewhere() -> None:
    """The counts of other servers are added, as soon as all have answered."""
    stage = Stage()
    stage.peers = 2
    peer = Peer(stage, b"4", b"5")
    assert stage.request(COUNTING, b"foo q") == [b"12"]
    assert [json.loads(request) for request in peer.asked] == [
        {"acc": "$SYS", "subject": "foo", "queue": "cQ=="}
    ]
    assert stage.clock.getDelayedCalls() == []


def test_debugSubscribersSilent() -> None:
    """The broker waits a short time for servers that do not answer."""
    stage, recorder = Stage(), Recorder()
    stage.peers = 3
    Peer(stage, b"4", b"nonsense")
    stage.system.busFor(Kind.CLIENT).subscribe(b"_INBOX.one", recorder)
    assert stage.request(COUNTING, b"foo") == []
    stage.clock.advance(COLLECTING)
    stage.world.settle()
    assert [message.body for message, _ in recorder.got] == [b"7"]


def test_debugSubscribersImported() -> None:
    """A request that was imported is about the account that the broker names in its headers."""
    stage = Stage()
    bus, received = stage.system.busFor(Kind.CLIENT), []
    for info in (b'{"acc":"A"}', b'{"acc":"A","svc":"B"}', b"{", b"[]"):
        block = b"NATS/1.0\r\nNats-Request-Info: %b\r\n\r\n" % info
        bus.publish(Message(COUNTING, block + b"foo", b"_INBOX.one", len(block), object()))
        stage.world.settle()
        assert stage.answers.counted is not None
        received.append(stage.answers.counted[0])
    assert received == ["A", "B", "$SYS", "$SYS"]


@pytest.mark.parametrize(
    ("account", "kind"),
    [("$SYS", "SERVER.PING.VARZ"), ("$SYS", "ACCOUNT.A.CONNZ"), ("A", "ACCOUNT.PING.STATZ")],
)
def test_wanted(account: str, kind: str) -> None:
    """An answer is wanted while its inbox has a subscription."""
    stage = Stage()
    bus = stage.world.accounts[account].busFor(Kind.CLIENT)
    inbox = bus.subscribe(b"_INBOX.one", Recorder())
    bus.publish(Message(f"$SYS.REQ.{kind}".encode(), b"", b"_INBOX.one", origin=object()))
    stage.world.settle()
    assert stage.answers.isWanted()
    inbox.cancel()
    assert not stage.answers.isWanted()


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions(kind: str) -> None:
    """An action is for one server, never for all."""
    stage = Stage()
    assert stage.ask(f"SERVER.ID.{kind}") == [b"action %b x" % kind.encode()]
    assert stage.ask(f"SERVER.PING.{kind}") == []


@pytest.mark.parametrize(
    ("subject", "answers"),
    [
        ("ACCOUNT.PING.CONNZ", [b"account CONNZ A x"]),
        ("SERVER.PING.CONNZ", [b"account CONNZ A x"]),
        ("ACCOUNT.PING.STATZ", [b"account STATZ A x"]),
        ("ACCOUNT.B.CONNZ", []),
        ("SERVER.PING.VARZ", []),
        ("SERVER.ID.KICK", []),
    ],
)
def test_otherAccounts(subject: str, answers: list[bytes]) -> None:
    """Users of other accounts can only request about their own account."""
    stage = Stage()
    assert stage.ask(subject, stage.other) == answers


@pytest.mark.parametrize(
    ("headers", "encoding"),
    [
        (b"Accept-Encoding: snappy", b"snappy"),
        (b"Accept-Encoding: gzip", b"gzip"),
        (b"Accept-Encoding: br", b"identity"),
        (b"Other: gzip", b""),
        (b"no header", b""),
    ],
)
def test_compressed(headers: bytes, encoding: bytes) -> None:
    """A compressed answer is shorter, and names its encoding. Other answers have no headers."""
    stage = Stage()
    stage.answers.isSlow = True
    bus, recorder = stage.system.busFor(Kind.CLIENT), Recorder()
    bus.subscribe(b"reply", recorder)
    block = b"NATS/1.0\r\n%b\r\n\r\n" % headers
    for kind in (b"VARZ", b"IDZ"):
        subject = b"$SYS.REQ.SERVER.PING." + kind
        bus.publish(Message(subject, block, b"reply", len(block), object()))
    (varz, _), (idz, _) = recorder.got
    assert (idz.headerLength, idz.body) == (0, b"x" * 1000)
    assert varz.body[: varz.headerLength] == (
        b"NATS/1.0\r\nContent-Encoding: %b\r\n\r\n" % encoding if encoding else b""
    )
    assert (len(varz.payload) < 200) == (encoding in (b"snappy", b"gzip"))
