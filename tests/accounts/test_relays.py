"""
Tests for L{natsbroker.accounts.relays}.
"""

from __future__ import annotations

import pytest
from zope.interface.verify import verifyObject

from natsbroker.accounts.relays import (
    MOST_HOPS,
    ImportHop,
    ImportPath,
    Relay,
    originOf,
    relaySubscription,
)
from natsbroker.config.settings.accounts import ServiceExport
from natsbroker.interfaces import ISubscriber
from natsbroker.wire.values import Kind, Message
from tests.accounts.market import Market, Person
from tests.support import Recorder


class TestPassage:
    """The exports that a message has passed."""

    def test_sameExport(self) -> None:
        """A message does not pass the same export twice."""
        one, other = ServiceExport("a"), ServiceExport("a")
        path = ImportPath((ImportHop(one, False),), None)
        assert path.refuses(one)
        assert not path.refuses(other)

    @pytest.mark.parametrize(("hops", "refuses"), [(MOST_HOPS - 1, False), (MOST_HOPS, True)])
    def test_tooFar(self, hops: int, refuses: bool) -> None:
        """A relay passes at most sixteen exports."""
        passed = tuple(ImportHop(ServiceExport("a"), False) for _ in range(hops))
        assert ImportPath(passed, None).refuses(ServiceExport("a")) == refuses


class TestRelay:
    """The base class of relays."""

    def test_abstract(self) -> None:
        """
        A relay provides the interface of subscribers, but its methods raise NotImplementedError.
        """
        relay = Relay()
        assert verifyObject(ISubscriber, relay)
        for call in (
            lambda: relay.deliver(Message(b"a"), None),
            lambda: relay.relay(Message(b"a"), Kind.CLIENT, None),
            lambda: relay.reaches(b"a", Kind.CLIENT, 0),
        ):
            with pytest.raises(NotImplementedError):
                call()
        relay.subscriptionEnded(None)

    def test_subscription(self) -> None:
        """The subscription of a relay is one of the broker's own, which no lane delivers."""
        account = Market("A")["A"]
        subscription = relaySubscription(account, b"a.>", Relay())
        assert (subscription.pattern, subscription.queue) == (b"a.>", b"")
        assert (subscription.kind, subscription.outbox) == (Kind.INTERNAL, None)


def test_originOf() -> None:
    """The origin of a message is known only if it is a client."""
    person = Person("A")
    assert originOf(Message(b"a", origin=person)) is person
    assert originOf(Message(b"a", origin=Recorder())) is None
    assert originOf(Message(b"a")) is None
