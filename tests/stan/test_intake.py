"""
Taking what clients send, in order.
"""

from __future__ import annotations

from zope.interface.verify import verifyObject

from natsbroker.interfaces import IBatchSubscriber
from natsbroker.stan import protocol
from natsbroker.wire.values import Message
from tests.conftest import FlushLoggedErrors
from tests.stan.support import Inbox, Stage


def test_provides() -> None:
    """It is a batch subscriber."""
    assert verifyObject(IBatchSubscriber, Stage().service.parts.intake)


def test_order() -> None:
    """What came before a request is in force when it is served, whatever subjects they came on."""
    stage = Stage()
    client = stage.client()
    client.publish("foo", b"0")
    first = Inbox(stage)
    request = protocol.SubscriptionRequest(
        clientID="me",
        subject="foo",
        inbox=first.subject.decode(),
        maxInFlight=10,
        ackWaitInSecs=5,
        startPosition=protocol.NEW_ONLY,
    )
    client.publishMany("foo", [b"1"])
    stage.send(b"_STAN.sub.test-cluster", request, b"a", client.origin)
    client.publishMany("foo", [b"2"])
    stage.send(
        b"_STAN.close.test-cluster", protocol.CloseRequest(clientID="me"), b"b", client.origin
    )
    late = client.publishMany("foo", [b"3"])
    stage.settle()
    assert stage.model.channel("foo").last_seq == 3
    assert protocol.PubAck.FromString(late.got[0].payload).error


def test_single() -> None:
    """A message that is delivered by itself is taken at once."""
    stage = Stage()
    client = stage.client()
    inbox = Inbox(stage)
    intake = stage.service.parts.intake
    data = client.pubMsg("foo", b"x").SerializeToString()
    intake.deliver(Message(b"any", data, inbox.subject, origin=client.origin), None)
    assert len(inbox.got) == 1


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """A message whose handling fails is logged and hinders no other."""
    stage = Stage()
    client = stage.client()
    intake = stage.service.parts.intake

    def fail(message: Message) -> None:
        raise ZeroDivisionError

    good = Message(b"s", client.pubMsg("foo", b"x").SerializeToString(), origin=client.origin)
    intake.deliverMany([(good, fail), (good, None)])
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1
    assert stage.model.channel("foo").msgs == 1


def test_closed() -> None:
    """Nothing is taken once it is closed."""
    stage = Stage()
    client = stage.client()
    intake = stage.service.parts.intake
    before = len(stage.account)
    intake.close()
    assert len(stage.account) == before - 7
    good = Message(b"s", client.pubMsg("foo", b"x").SerializeToString(), origin=client.origin)
    intake.deliver(good, None)
    intake.subscriptionEnded(None)
    assert stage.model.channelNames() == []
