"""
Tests for the handling of clients' requests in order.
"""

from __future__ import annotations

from zope.interface.verify import verifyObject

from natsbroker.interfaces import IRunSubscriber
from natsbroker.streaming import protocol
from natsbroker.streaming.requests.dispatcher import RequestHandler
from natsbroker.subjects.channels import RequestSubjects
from natsbroker.subjects.permissions import SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message, Run
from tests.conftest import FlushLoggedErrors
from tests.streaming.support import Inbox, Stage


def test_provides() -> None:
    """The dispatcher is a subscriber that accepts several messages at once."""
    assert verifyObject(IRunSubscriber, Stage().service.dispatcher)


def test_orderOfRequests() -> None:
    """A request takes effect after earlier requests, also after those on other subjects."""
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


def test_singleMessage() -> None:
    """A message that is delivered alone is handled at once."""
    stage = Stage()
    client = stage.client()
    inbox = Inbox(stage)
    dispatcher = stage.service.dispatcher
    data = client.pubMsg("foo", b"x").SerializeToString()
    dispatcher.deliver(Message(b"any", data, inbox.subject, origin=client.origin), None)
    assert len(inbox.got) == 1


def test_failure(flushLoggedErrors: FlushLoggedErrors) -> None:
    """A message whose handling fails is logged and does not affect other messages."""
    stage = Stage()
    client = stage.client()
    dispatcher = stage.service.dispatcher

    def fail(message: Message) -> None:
        raise ZeroDivisionError

    body = client.pubMsg("foo", b"x").SerializeToString()
    good = Run(b"s", b"", [body, body], origin=client.origin)
    dispatcher.deliverRuns([(good, RequestHandler(fail)), (good, None)])
    assert len(flushLoggedErrors(ZeroDivisionError)) == 2
    assert stage.model.channel("foo").msgs == 2


def test_answersOfOthers() -> None:
    """
    A request whose reply subject is not allowed to its sender is carried out, but not answered;
    others in the same chunk of input are.
    """
    stage = Stage()
    mine = SubscribePermissions([b"_INBOX.mine"])
    limited, client = stage.client("limited"), stage.client()
    limited.origin.grant = Grant(subscribe=mine)
    victim, answers = Inbox(stage), Inbox(stage)
    for sender, reply in ((limited, victim), (client, answers), (limited, victim)):
        subject = b"_STAN.pub.test-cluster.foo"
        stage.send(subject, sender.pubMsg("foo", b"x"), reply.subject, sender.origin)
    close = protocol.CloseRequest(clientID="limited")
    stage.send(b"_STAN.close.test-cluster", close, victim.subject, limited.origin)
    stage.settle()
    assert (victim.got, len(answers.got)) == ([], 1)
    assert stage.model.channel("foo").msgs == 3
    assert stage.model.clientNames() == ["me"]


def test_answers() -> None:
    """A request is answered if its sender may subscribe to its reply subject."""
    grant = Grant(subscribe=SubscribePermissions([b"_INBOX.client.>"]))
    client = Stage().client(grant=grant)
    assert client.publish("foo") == client.close() == ""


def test_closed() -> None:
    """After the dispatcher was closed, no request is accepted."""
    stage = Stage()
    client = stage.client()
    dispatcher = stage.service.dispatcher
    before = len(stage.account)
    dispatcher.stop()
    assert len(stage.account) == before - 7
    good = Message(b"s", client.pubMsg("foo", b"x").SerializeToString(), origin=client.origin)
    dispatcher.deliver(good, None)
    dispatcher.subscriptionEnded(None)
    assert stage.model.channelNames() == []


def test_subjects() -> None:
    """The discover subject and all subjects in a connect response have handlers."""
    stage = Stage()
    subjects = RequestSubjects("test-cluster")
    for subject in (
        subjects.publish + b".foo",
        subjects.discover,
        subjects.pings,
        subjects.subscribe,
        subjects.unsubscribe,
        subjects.subClose,
        subjects.close,
    ):
        assert stage.bus.hasInterest(subject), subject
    stage.service.dispatcher.stop()
    assert not stage.bus.hasInterest(subjects.discover)
