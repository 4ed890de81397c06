"""
A bus on another server, which is a broker in memory here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.accounts.requests import request
from natsbroker.client.bus import RECONNECT, RETRY, RemoteBus
from natsbroker.client.client import Client
from natsbroker.errors import BrokerError, NoResponders
from natsbroker.interfaces import (
    IBatchSubscriber,
    ILinkSubscriber,
    IMessageBus,
    IOrigin,
    IReadiness,
    IRunSubscriber,
    ISubscriber,
    ISubscription,
)
from natsbroker.streaming.requests.access import requesterOf
from natsbroker.testing.memory import MemoryBroker
from natsbroker.wire.values import Message, Run
from tests.client.stage import Stage
from tests.conftest import FlushLoggedErrors
from tests.support import Recorder


@implementer(ISubscriber)
class Listener(Recorder):
    """A subscriber that keeps its messages."""

    @property
    def heard(self) -> list[tuple[bytes, Any]]:
        """Payloads with their tags."""
        return [(message.payload, tag) for message, tag in self.got]


@implementer(IRunSubscriber)
class RunListener(Listener):
    """
    A subscriber that receives runs.

    @ivar calls: bodies and tags of each call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[tuple[list[bytes], Any]]] = []

    def deliverRuns(self, runs: list[tuple[Run, Any]]) -> None:
        self.calls.append([(run.bodies, tag) for run, tag in runs])


@implementer(IBatchSubscriber)
class BatchListener(Listener):
    """
    A subscriber that receives batches.

    @ivar calls: payloads of each call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[bytes]] = []

    def deliverMany(self, messages: list[tuple[Message, Any]]) -> None:
        self.calls.append([message.payload for message, _ in messages])


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A bus that is connected. It is closed after the test."""
    made = Stage()
    made.start()
    assert made.prepared == [None]
    yield made
    made.bus.stopService()
    made.settle()
    made.broker.stop()
    assert made.broker.reactor.getDelayedCalls() == []


def test_interfaces(stage: Stage) -> None:
    """A remote bus provides the interfaces of a bus, an origin and a link."""
    for interface in (IMessageBus, IOrigin, ILinkSubscriber, IReadiness):
        assert verifyObject(interface, stage.bus)
    assert verifyObject(ISubscription, stage.bus.subscribe(b"a", Listener()))


class TestMessages:
    """Messages in both directions."""

    def test_received(self, stage: Stage) -> None:
        """
        Messages come with the tag, in the order in which they were sent, with reply subject and
        headers.
        """
        listener = Listener()
        stage.bus.subscribe(b"a.*", listener, "tag")
        stage.settle()
        client = stage.client()
        client.publish(b"a.1", b"one", b"answers")
        client.publish(b"a.2", b"two")
        stage.settle()
        assert listener.heard == [(b"one", "tag"), (b"two", "tag")]
        assert [message.reply for message, _ in listener.got] == [b"answers", b""]

    def test_waysOfPublishing(self, stage: Stage) -> None:
        """All ways of publishing reach others, in order."""
        got: list[tuple[bytes, bytes, bytes]] = []
        stage.client().subscribe(b"b", lambda m: got.append((m.payload, m.reply, m.headers)))
        stage.settle()
        bus, block = stage.bus, b"NATS/1.0\r\nA: b\r\n\r\n"
        assert bus.publish(Message(b"b", block + b"1", b"r", len(block))) == 1
        assert (bus.publishInternal(b"b", b"2"), bus.publishBatch(b"b", [b"3", b"4"])) == (1, 1)
        bus.forward(Message(b"b", b"5"), ())
        stage.settle()
        assert got == [
            (b"1", b"r", block), (b"2", b"", b""), (b"3", b"", b""), (b"4", b"", b""),
            (b"5", b"", b""),
        ]  # fmt: skip

    def test_servicesOnOneBus(self, stage: Stage) -> None:
        """Two services on one bus receive each other's messages."""
        listener = Listener()
        stage.bus.subscribe(b"c", listener)
        stage.bus.publishInternal(b"c", b"x")
        stage.settle()
        assert listener.heard == [(b"x", None)]

    def test_tooLarge(self, stage: Stage, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A message for which the server would close the connection is not sent, and is logged."""
        assert stage.bus.maxPayload == 1000
        assert stage.bus.publishBatch(b"d", [b"x", b"y" * 1001]) == 0
        stage.settle()
        assert stage.clients[-1].isOpen

    def test_invalidSubject(self, stage: Stage) -> None:
        """A message to an invalid subject is dropped, and no other one is."""
        assert stage.bus.publishInternal(b"a..b", b"x") == 0
        with pytest.raises(ValueError, match="not a valid subject"):
            stage.bus.subscribe(b"a..b", Listener())

    def test_request(self, stage: Stage) -> None:
        """Requests are answered, also with the status for no responders."""
        client = stage.client()
        client.subscribe(b"echo", lambda m: client.publish(m.reply, m.payload))
        stage.settle()
        for subject in (b"echo", b"nobody"):
            answers: list[Any] = []
            request(stage.bus, stage.broker.reactor, subject, b"x").addBoth(answers.append)
            stage.settle()
            if subject == b"echo":
                assert answers[0].payload == b"x"
            else:
                assert answers[0].check(NoResponders)


class TestBatches:
    """Subscribers that get all messages of a turn in one call."""

    def test_runs(self, stage: Stage) -> None:
        """
        Messages with the same line come as one run, and the runs of all subjects in one call, in
        order.
        """
        listener = RunListener()
        stage.bus.subscribe(b"a", listener, 1)
        stage.bus.subscribe(b"b", listener, 2)
        stage.settle()
        client = stage.client()
        for subject, payload in ((b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"a", b"4")):
            client.publish(subject, payload)
        stage.settle()
        assert listener.calls == [[([b"1", b"2"], 1), ([b"3"], 2), ([b"4"], 1)]]

    def test_batches(self, stage: Stage) -> None:
        """A batch subscriber gets the messages of a turn in one call."""
        listener = BatchListener()
        stage.bus.subscribe(b"a", listener)
        stage.settle()
        client = stage.client()
        for payload in (b"1", b"2"):
            client.publish(b"a", payload)
        stage.settle()
        assert listener.calls == [[b"1", b"2"]]


class TestSubscriptions:
    """The end of subscriptions."""

    def test_cancel(self, stage: Stage) -> None:
        """A cancelled subscription gets no more messages. Cancelling it twice does no harm."""
        listener = Listener()
        subscription = stage.bus.subscribe(b"a", listener)
        stage.settle()
        subscription.cancel()
        subscription.cancel()
        stage.client().publish(b"a", b"x")
        stage.settle()
        assert (listener.heard, subscription.closed, listener.ended) == ([], True, [])

    def test_cancelAll(self, stage: Stage) -> None:
        """Several subscriptions can be cancelled at once."""
        listener = Listener()
        made = [stage.bus.subscribe(subject, listener) for subject in (b"a", b"b")]
        stage.settle()
        stage.bus.cancelAll(made)
        client = stage.client()
        for subject in (b"a", b"b"):
            client.publish(subject, b"x")
        stage.settle()
        assert (listener.got, [subscription.closed for subscription in made]) == ([], [True, True])

    def test_cancelAfter(self, stage: Stage) -> None:
        """A subscription ends after its maximum of messages, also over several connections."""
        listener = Listener()
        subscription = stage.bus.subscribe(b"a", listener, "tag")
        subscription.cancelAfter(3)
        stage.settle()
        client = stage.client()
        client.publish(b"a", b"1")
        client.publish(b"a", b"2")
        stage.settle()
        stage.cut()
        stage.broker.advance(RECONNECT)
        stage.settle()
        client.publish(b"a", b"3")
        client.publish(b"a", b"4")
        stage.settle()
        assert [message[0] for message in listener.heard] == [b"1", b"2", b"3"]
        assert (subscription.closed, subscription.delivered, listener.ended) == (True, 3, ["tag"])

    def test_cancelAfter_reached(self, stage: Stage) -> None:
        """A subscription ends at once if its maximum is already reached."""
        subscription = stage.bus.subscribe(b"a", Listener())
        subscription.cancelAfter(0)
        assert subscription.closed

    def test_queue(self, stage: Stage) -> None:
        """Each message reaches one member of a group."""
        one, two = Listener(), Listener()
        for side in (one, two):
            stage.bus.subscribe(b"a", side, queue=b"q")
        stage.settle()
        client = stage.client()
        for _ in range(20):
            client.publish(b"a", b"x")
        stage.settle()
        assert len(one.heard) + len(two.heard) == 20

    def test_link(self, stage: Stage) -> None:
        """A link cannot subscribe on a remote bus."""

        @implementer(ILinkSubscriber)
        class Link:
            def forward(self, message: Message, queues: tuple[bytes, ...]) -> None:
                raise AssertionError(message)

        with pytest.raises(BrokerError, match="links cannot subscribe"):
            stage.bus.subscribe(b"a", Link())


class TestConnection:
    """The loss of the connection, and reconnects."""

    def test_reconnects(self, stage: Stage) -> None:
        """
        After a reconnect the subscriptions exist again; messages published in between are lost.
        """
        listener = Listener()
        stage.bus.subscribe(b"a", listener)
        ended = stage.bus.subscribe(b"a", listener)
        stage.isDown = True
        stage.cut()
        ended.cancel()
        stage.bus.subscribe(b"b", listener)
        assert not stage.bus.hasInterest(b"a")
        assert stage.bus.publishInternal(b"a", b"lost") == 0
        stage.broker.advance(RECONNECT)
        stage.isDown = False
        stage.broker.advance(RECONNECT)
        stage.settle()
        assert stage.bus.hasInterest(b"a")
        client = stage.client()
        client.publish(b"a", b"1")
        client.publish(b"b", b"2")
        stage.settle()
        assert listener.heard == [(b"1", None), (b"2", None)]
        assert len(stage.clients) == 2

    def test_cluster(self, stage: Stage) -> None:
        """A reconnect knows the members of the cluster that the server has reported last."""
        stage.clients[-1].protocol.info["connect_urls"] = ["10.0.0.1:4222", 5]
        stage.cut()
        assert stage.heardOf == [[], ["10.0.0.1:4222"]]

    def test_pauses(self, stage: Stage) -> None:
        """
        The first reconnect is tried at once, the next ones after short pauses, and later ones every
        two seconds.
        """
        stage.isDown = True
        stage.cut()
        counts = []
        for pause in (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.0, 2.0):
            counts.append(len(stage.heardOf) - 1)
            stage.broker.advance(pause)
        assert counts == [1, 2, 3, 4, 5, 6, 7, 8, 9]

    def test_firstConnectionIsRetried(self) -> None:
        """
        The first connection may take some attempts, because both servers may start at the same
        time.
        """
        stage = Stage()
        stage.isDown = True
        stage.start()
        stage.broker.advance(RETRY)
        assert stage.prepared == []
        stage.isDown = False
        stage.broker.advance(RETRY * 2)
        stage.settle()
        assert stage.prepared == [None]
        stage.bus.stopService()
        stage.broker.stop()

    def test_firstFails(self) -> None:
        """
        If the first connection fails, the bus is not prepared, and no further attempt is made.
        """
        stage = Stage()
        stage.isDown = True
        stage.start()
        stage.fail()
        assert isinstance(stage.prepared[0], Failure)
        assert stage.prepared[0].check(ConnectionRefusedError)
        stage.bus.stopService()
        stage.broker.stop()
        assert stage.broker.reactor.getDelayedCalls() == []

    def test_stoppedWhileDown(self, stage: Stage) -> None:
        """A bus that is stopped between two attempts makes no more."""
        stage.isDown = True
        stage.cut()
        attempts = len(stage.heardOf)
        assert stage.bus.stopService().called
        stage.broker.advance(RECONNECT)
        stage.settle()
        assert len(stage.heardOf) == attempts
        stage.bus.startService()

    def test_stoppedWhileDialling(self) -> None:
        """A bus that is stopped during an attempt cancels it."""
        stage = Stage()
        given: list[Any] = []
        dialling: Deferred[Client] = Deferred(given.append)
        bus = RemoteBus(stage.broker.reactor, lambda heardOf: dialling)
        bus.startService()
        bus.stopService()
        assert given == [dialling]
        stage.broker.stop()

    def test_subscribesBefore(self) -> None:
        """A subscription made before the connection is sent when there is one."""
        stage, listener = Stage(), Listener()
        stage.bus.subscribe(b"a", listener)
        stage.start()
        stage.client().publish(b"a", b"x")
        stage.settle()
        assert listener.heard == [(b"x", None)]
        stage.bus.stopService()
        stage.broker.stop()


class TestOrigin:
    """The origin of messages."""

    def test_requests(self, stage: Stage) -> None:
        """A request is sent to the other server only if its origin is the bus itself."""
        got: list[bytes] = []
        subject = b"$JS.API.STREAM.DELETE.S"
        stage.client().subscribe(b"$JS.>", lambda message: got.append(message.payload))
        stage.settle()
        bus = stage.bus
        assert bus.publish(Message(subject, b"1")) == bus.publishInternal(subject, b"2") == 0
        assert bus.publishBatch(subject, [b"3"]) == 0
        assert bus.publish(Message(subject, b"4", origin=bus)) == 1
        stage.settle()
        assert got == [b"4"]

    def test_serve(self, stage: Stage) -> None:
        """A service receives the requests of clients of the other server."""
        service = Listener()
        stage.bus.serve(b"ask", service, "tag")
        stage.settle()
        stage.client().publish(b"ask", b"x")
        stage.settle()
        assert service.heard == [(b"x", "tag")]

    def test_link(self, stage: Stage) -> None:
        """
        Services treat senders as clients of a peer. The server has checked the subject, which the
        content of a message must match.
        """
        listener = Listener()
        stage.bus.subscribe(b"a", listener)
        stage.settle()
        stage.client().publish(b"a", b"x")
        stage.settle()
        requester = requesterOf(listener.got[0][0].origin)
        assert (requester.isLink, requester.hearsAll, requester.unrestricted) == (True, False, True)
        assert requester.mayHear(b"_INBOX.x") and not requester.mayHear(b"a")
        assert stage.bus.clientInfo(True).acc == "$G"

    def test_unknownMappings(self, stage: Stage) -> None:
        """A remote bus maps no subjects, and its interest cannot be watched."""
        assert stage.bus.mapped(b"a") == b"a"
        stage.bus.refresh()
        with pytest.raises(BrokerError, match="cannot be watched"):
            stage.bus.watchInterest(None)


def test_nothingToWaitFor() -> None:
    """A bus that was never connected stops at once, and has no payload limit."""
    bus = RemoteBus(MemoryBroker().reactor, lambda heardOf: succeed(None))  # type: ignore[arg-type]
    assert bus.maxPayload == 0
    assert bus.stopService().called
