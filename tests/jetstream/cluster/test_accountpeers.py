"""An account's part whatever its brokers share: requests to others, lists and totals of all."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.task import Clock

from natsbroker.errors import NoResponders
from natsbroker.jetstream.cluster.accountpeers import HEARING, AccountPeers
from natsbroker.jetstream.model.members import JetStreamPeer, JetStreamPeers
from natsbroker.jetstream.requesters import PassedRequester, clientOf
from natsbroker.jetstream.storenames import logName
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.wire.values import Message


class Requests:
    """
    Other brokers. C{n3} does not answer.

    @ivar asked: the questions.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes, dict[str, Any]]] = []

    def ask(self, peer: str, what: str, body: bytes = b"", **fields: Any) -> Deferred[Any]:
        self.asked.append((peer, what, body, fields))
        if peer == "n3":
            return fail(NoResponders(b"n3"))
        if what == "list":
            return succeed({"streams": [{"config": {"name": name}} for name in fields["names"]]})
        return succeed({"streams": 5} if what == "usage" else {})


class Brokers:
    """Three brokers, without a named cluster."""

    isSilent = False

    def __init__(self) -> None:
        self.requests: Any = Requests()
        names = ("n1", "n2", "n3")
        self.members = JetStreamPeers("", "n1", {name: JetStreamPeer(name) for name in names})

    def answersFor(self, account: str) -> bool:
        return account == "A"


class Account:
    """
    @ivar isHeard: whether answers have a receiver.
    """

    name = "A"
    streams: ClassVar = {"S": "S"}

    def __init__(self) -> None:
        self.clock: Any = Clock()
        self.deadlines = Deadlines(self.clock, self.clock.seconds)
        self.bus = self
        self.isHeard = True

    def hasInterest(self, subject: bytes, isRequest: bool = True) -> bool:
        return self.isHeard


class Part(AccountPeers):
    """The part of C{n1}, which has C{S}; C{n2} has C{T}, C{n3} has C{U}, and nobody has C{V}."""

    def __init__(self) -> None:
        self.brokers: Any = Brokers()
        account: Any = Account()
        super().__init__(self.brokers, account)
        self.handle = self._keep
        self.handled: list[Message] = []

    async def _keep(self, message: Message) -> None:
        self.handled.append(message)

    def leads(self, name: str) -> bool:
        return name in Account.streams

    async def configs(self) -> Any:
        return self._decoded([_stored("S"), _stored("T")])

    async def exists(self, name: str) -> bool:
        return name in "STU"

    async def leaders(self) -> dict[str, str | None]:
        leaders = {"S": "n1", "T": "n2", "U": "n3", "V": None}
        return {logName("A", name): leader for name, leader in leaders.items()}

    async def refresh(self) -> None:
        """Do nothing: no member joins or leaves."""

    def verify(self, name: str) -> None:
        """Do nothing: every lease is valid."""

    async def stepDown(self, stream: Any, placement: Any) -> None:
        raise NotImplementedError

    async def forgotten(self, name: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def _stored(name: str) -> bytes:
    return json.dumps({"created": 1, "config": {"name": name}}).encode()


def result(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    results: list[Any] = []
    ensureDeferred(coroutine).addBoth(results.append)
    return results[0]


def test_members() -> None:
    """Brokers without a named cluster show none, and each knows its own name."""
    part = Part()
    assert (part.members, part.own, part.fitting(None)) == (None, "n1", [])
    assert (part.isMeta, part.isSilent) == (True, False)


def test_decoded() -> None:
    """A configuration is decoded again only if it has changed."""
    part = Part()
    first, again = result(part.configs()), result(part.configs())
    assert set(first) == {"S", "T"}
    assert first["S"] is again["S"]


def test_passedOn() -> None:
    """A request is passed on to another broker unchanged, even if its subject is not UTF-8."""
    sender, receiver = Part(), Part()
    client = PassedRequester("A", {"user": "u"})
    request = Message(b"$JS.API.STREAM.INFO.\xff", b"body", b"reply", 0, client)
    result(sender.passOn("n2", request))
    [(peer, what, body, fields)] = sender.brokers.requests.asked
    assert (peer, what, fields["account"]) == ("n2", "apply", "A")
    result(receiver.apply(json.loads(json.dumps(fields)), body))
    [message] = receiver.handled
    assert (message.subject, message.payload, message.reply) == (
        request.subject,
        b"body",
        b"reply",
    )
    assert clientOf(message, "A") == {"user": "u"}


@pytest.mark.parametrize("isComing", [True, False])
def test_answerWithoutReceiver(isComing: bool) -> None:
    """
    A request that is passed on waits until this broker knows of interest in the reply subject, or
    for a limited time.
    """
    part = Part()
    account: Any = part.account
    account.isHeard = False
    fields = {"subject": "$JS.API.STREAM.DELETE.S", "reply": "inbox", "headers": 0}
    ensureDeferred(part.apply(fields, b""))
    account.clock.advance(HEARING / 2)
    assert part.handled == []
    account.isHeard = isComing
    account.clock.pump([0.01] * (1 if isComing else 100))
    assert [message.reply for message in part.handled] == [b"inbox"]


def test_lists() -> None:
    """A list has the streams of all brokers in order, and the names of those that are missing."""
    part = Part()

    async def show(stream: Any) -> dict[str, Any]:
        return {"config": {"name": stream}}

    part.show = show
    listed, missing = result(part.lists(["S", "T", "U", "V"]))
    assert [stream["config"]["name"] for stream in listed] == ["S", "T"]
    assert missing == ["U", "V"]
    asked = [(peer, fields["names"]) for peer, _, _, fields in part.brokers.requests.asked]
    assert asked == [("n2", ["T"]), ("n3", ["U"])]


def test_usages() -> None:
    """Usage is collected from this broker and from each other broker that answers."""
    part = Part()

    async def count() -> dict[str, Any]:
        return {"streams": 1}

    part.count = count
    assert result(part.usages()) == [{"streams": 1}, {"streams": 5}]
