"""
Responses whose requestors have left.
"""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import implementer

from natsbroker.accounts import withdrawn
from natsbroker.accounts.withdrawn import WithdrawnResponses, isPull
from natsbroker.config.settings.accounts import STREAM
from natsbroker.interfaces import IInterestWatcher
from natsbroker.wire.values import Kind, Message
from tests.accounts.market import Market
from tests.support import LinkRecorder, Recorder

PULL = b"$JS.API.CONSUMER.MSG.NEXT.S.c"


def test_isPull() -> None:
    """Pull requests are recognized with and without a domain."""
    assert isPull(PULL)
    assert isPull(b"$JS.hub.API.CONSUMER.MSG.NEXT.S.c")
    assert not isPull(b"$JS.API.CONSUMER.INFO.S.c")
    assert not isPull(b"x.CONSUMER.MSG.NEXT.S.c")


def test_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only single responses are remembered, and the oldest of them are forgotten."""
    monkeypatch.setattr(withdrawn, "_MOST", 2)
    known = WithdrawnResponses()
    for pattern in (b"_R_.a.1", b"_R_.a.>", b"inbox", b"_R_.a.2", b"_R_.a.3"):
        known.ended(pattern)
    assert list(known) == [b"_R_.a.2", b"_R_.a.3"]


@implementer(IInterestWatcher)
class Peer:
    """A peer broker that learns of the interest in an account."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, bytes]] = []

    def interestGained(self, pattern: bytes, queue: bytes, weight: int) -> None:
        self.changes.append(("+", pattern))

    def interestWeightChanged(self, pattern: bytes, queue: bytes, weight: int) -> None:
        """There are no queue groups."""

    def interestLost(self, pattern: bytes, queue: bytes) -> None:
        self.changes.append(("-", pattern))


class Importer:
    """
    An account that imports the API of JetStream from another.

    @ivar reply: the subject of the responses to the last request.
    """

    def __init__(self) -> None:
        self.market = Market("JS", "APP")
        self.market.service("APP", "JS", b"$JS.API.>", responseType=STREAM)
        self.api = self.market.subscribe("JS", b"$JS.API.>")
        self.services = self.market["JS"].busFor(Kind.INTERNAL)
        self.peer = Peer()
        self.services.watchInterest(self.peer)

    def ask(self, subject: bytes, inbox: bytes, pattern: bytes = b"") -> Any:
        """Send a request, and return the subscription to its reply subject."""
        client = self.market.subscribe("APP", pattern or inbox)
        self.market.publish("APP", subject, b"1", inbox)
        self.reply: bytes = self.api.got[-1][0].reply
        self.peer.changes.clear()
        return client

    def give(self) -> int:
        """
        Send a message as JetStream answers the last request, and return the number of receivers.
        """
        return self.services.publish(Message(self.reply, b"job", b"$JS.ACK.S.c.1.1.1.1.0"))


@pytest.mark.parametrize("pattern", [b"inbox.1", b"inbox.*"])
def test_nobodyLeft(pattern: bytes) -> None:
    """
    JetStream and other brokers learn that the client of an imported pull request has unsubscribed.
    """
    here = Importer()
    client = here.ask(PULL, b"inbox.1", pattern)
    assert here.services.hasInterest(here.reply)
    assert here.give() == 1
    client.subscription.cancel()
    assert not here.services.hasInterest(here.reply)
    assert here.give() == 0
    assert here.peer.changes == [("+", here.reply), ("-", here.reply)]


def test_otherRequests() -> None:
    """Peers are not told when the requestor of another request than a pull has unsubscribed."""
    here = Importer()
    client = here.ask(b"$JS.API.STREAM.INFO.S", b"inbox.1")
    client.subscription.cancel()
    assert here.peer.changes == []


def test_notCompared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for a withdrawal does not depend on the number of awaited requests."""
    monkeypatch.setattr("natsbroker.accounts.responses._MOST_COMPARED", 0)
    here = Importer()
    client = here.ask(PULL, b"inbox.1", b"inbox.*")
    client.subscription.cancel()
    assert not here.services.hasInterest(here.reply)
    assert here.give() == 0


def test_chain() -> None:
    """JetStream learns that a client two imports away has unsubscribed."""
    market = Market("JS", "B", "C")
    market.service("B", "JS", b"$JS.API.>", responseType=STREAM)
    market.service("C", "B", b"$JS.API.>", responseType=STREAM)
    api = market.subscribe("JS", b"$JS.API.>")
    client = market.subscribe("C", b"inbox")
    market.publish("C", PULL, b"1", b"inbox")
    reply = api.got[-1][0].reply
    services = market["JS"].busFor(Kind.INTERNAL)
    assert services.hasInterest(reply) and services.publish(Message(reply, b"job"))
    client.subscription.cancel()
    assert not services.hasInterest(reply)
    assert services.publish(Message(reply, b"job")) == 0


@pytest.mark.parametrize("kind", [Kind.ROUTE, Kind.SPOKE, Kind.HUB])
def test_atAnotherBroker(kind: Kind) -> None:
    """
    A response that a link has withdrawn receives nothing from services here, and other responses
    still do.
    """
    account = Market("JS")["JS"]
    link, services = LinkRecorder(), account.busFor(Kind.INTERNAL)
    links = account.busFor(kind)
    links.subscribe(b"_R_.there.>", link)
    assert services.hasInterest(b"_R_.there.1")
    links.subscribe(b"_R_.there.1", link).cancel()
    assert not services.hasInterest(b"_R_.there.1")
    assert services.publish(Message(b"_R_.there.1")) == 0
    assert services.publish(Message(b"_R_.there.2")) == 1
    assert account.busFor(Kind.CLIENT).publish(Message(b"_R_.there.1")) == 1


def test_clientsChangeNothing() -> None:
    """A client cannot withdraw the responses of others."""
    account = Market("JS")["JS"]
    account.busFor(Kind.ROUTE).subscribe(b"_R_.there.>", LinkRecorder())
    account.busFor(Kind.CLIENT).subscribe(b"_R_.there.1", Recorder()).cancel()
    assert account.busFor(Kind.INTERNAL).hasInterest(b"_R_.there.1")


def test_otherCluster() -> None:
    """Interest of another cluster is withdrawn like that of a member."""
    account = Market("JS")["JS"]
    account.busFor(Kind.ROUTE).subscribe(b"_R_.there.>", LinkRecorder())
    gate: Any = account.busFor(Kind.GATEWAY)
    gate.interestLost(b"_R_.there.1")
    assert not account.busFor(Kind.INTERNAL).hasInterest(b"_R_.there.1")
