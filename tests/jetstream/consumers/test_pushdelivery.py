"""
Deliveries to a deliver subject.
"""

from __future__ import annotations

import pytest
from zope.interface import implementer

from natsbroker import hot
from natsbroker.interfaces import IOutboxSubscriber
from natsbroker.jetstream.model.consumerconfig import AckPolicy
from natsbroker.wire.values import Message
from tests.jetstream.consumers.support import SECOND, ConsumerStage, Inbox, numbers


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def bound(stage: ConsumerStage) -> Inbox:
    """
    A subscription to the deliver subject.
    """
    inbox = stage.inbox(subject=b"d")
    stage.fakeAccount.interest(b"d", True)
    stage.settle()
    return inbox


class TestInterest:
    """Delivery follows the interest in the deliver subject."""

    def test_waits(self, stage: ConsumerStage) -> None:
        """A push consumer delivers nothing before there is interest in its deliver subject."""
        stage.publish(2)
        consumer = stage.consumer(deliver_subject="d")
        assert "push_bound" not in consumer.info()
        inbox = bound(stage)
        assert inbox.texts() == ["1", "2"]
        assert consumer.info()["push_bound"] is True
        stage.publish(1)
        assert inbox.texts() == ["3"]

    def test_interestAtStart(self, stage: ConsumerStage) -> None:
        """With interest at the start, delivery begins at once. Clients see the stream's subject."""
        inbox = stage.inbox(subject=b"d")
        stage.publish(1)
        stage.consumer(deliver_subject="d", ack_policy=AckPolicy.NONE)
        (message,) = inbox.take()
        assert (message.subject, message.shownSubject) == (b"d", b"s.a")

    def test_continues(self, stage: ConsumerStage) -> None:
        """
        After its interest was lost and came back, a push consumer continues with the next message.
        """
        consumer = stage.consumer(deliver_subject="d")
        inbox = bound(stage)
        stage.publish(1)
        inbox.close()
        stage.publish(1)  # Found out by the delivery, before any notice.
        assert "push_bound" not in consumer.info()
        stage.fakeAccount.interest(b"d", False)
        stage.publish(1)
        again = bound(stage)
        assert [numbers(message) for message in again.take()] == [(1, 2, 2, 1), (1, 3, 3, 0)]

    def test_headersOnly(self, stage: ConsumerStage) -> None:
        """With headers_only, messages come without payloads."""
        inbox = stage.inbox(subject=b"d")
        stage.stream.publish("s.a", "four", b"NATS/1.0\r\nA: 1\r\n\r\n")
        stage.consumer(deliver_subject="d", headers_only=True)
        (message,) = inbox.take()
        assert message.headers == b"NATS/1.0\r\nA: 1\r\nNats-Msg-Size: 4\r\n\r\n"
        assert message.payload == b""

    def test_anotherSubject(self, stage: ConsumerStage) -> None:
        """
        After a change of the deliver subject, pending messages are redelivered to the new one.
        """
        consumer = stage.consumer(deliver_subject="d")
        old = bound(stage)
        stage.publish(2)
        new = stage.inbox(subject=b"e")
        consumer.update(stage.config(deliver_subject="e"))
        stage.settle()
        assert [numbers(message)[:2] for message in new.take()] == [(2, 1), (2, 2)]
        assert old.texts() == ["1", "2"]


class TestHeartbeats:
    """Idle heartbeats."""

    def test_onlyWhileIdle(self, stage: ConsumerStage) -> None:
        """Heartbeats come only when no message was delivered for the interval."""
        stage.consumer(deliver_subject="d", idle_heartbeat=SECOND)
        inbox = bound(stage)
        stage.advance(0.8)
        stage.publish(1)
        assert inbox.texts() == ["1"]
        stage.advance(0.9)
        assert inbox.texts() == []
        stage.advance(0.1)
        (status,) = inbox.take()
        assert (status.subject, status.headers) == (
            b"d",
            b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n",
        )
        stage.advance(3)
        assert inbox.texts() == ["100 Idle Heartbeat"] * 3

    def test_skippedMessages(self, stage: ConsumerStage) -> None:
        """
        Heartbeats name the last stream sequence, including messages that a filter left out, from
        the second one on.
        """
        stage.consumer(deliver_subject="d", idle_heartbeat=SECOND, filter_subject="s.b")
        inbox = bound(stage)
        stage.publish(3)
        stage.advance(2)
        first, second = inbox.take()
        assert b"Nats-Last-Consumer: 0\r\nNats-Last-Stream: 0\r\n" in first.headers
        assert b"Nats-Last-Consumer: 0\r\nNats-Last-Stream: 3\r\n" in second.headers

    def test_notWithoutInterest(self, stage: ConsumerStage) -> None:
        """Heartbeats stop while the deliver subject has no interest."""
        stage.consumer(deliver_subject="d", idle_heartbeat=SECOND)
        stage.advance(5)
        inbox = bound(stage)
        assert inbox.texts() == []
        stage.advance(1)
        assert inbox.texts() == ["100 Idle Heartbeat"]


class TestFlowControl:
    """The flow control window."""

    def flowing(self, stage: ConsumerStage) -> Inbox:
        """A consumer with forty messages of 100,000 bytes."""
        inbox = stage.inbox(subject=b"d")
        for _ in range(40):
            stage.stream.publish("s.a", "x" * 100_000)
        stage.consumer(
            deliver_subject="d",
            flow_control=True,
            idle_heartbeat=SECOND,
            ack_policy=AckPolicy.NONE,
        )
        return inbox

    def test_window(self, stage: ConsumerStage) -> None:
        """
        A flow control request comes at half of the window. At the full window, delivery waits for
        the answer.
        """
        inbox = self.flowing(stage)
        got = inbox.take()
        statuses = [place for place, message in enumerate(got) if message.headers]
        assert (statuses, len(got)) == ([11], 22)
        request = got[11]
        assert request.headers == b"NATS/1.0 100 FlowControl Request\r\n\r\n"
        assert request.reply.startswith(b"$JS.FC.S.C.")
        assert len(request.reply) == len(b"$JS.FC.S.C.") + 4
        stage.send(request.reply)
        more = inbox.take()
        assert [message.payload for message in more if message.payload] == [b"x" * 100_000] * 19
        assert sum(1 for message in more if message.headers) == 1

    def test_stalled(self, stage: ConsumerStage) -> None:
        """While a flow control request is unanswered, heartbeats name its subject."""
        inbox = self.flowing(stage)
        request = inbox.take()[11].reply
        stage.advance(1)
        (status,) = inbox.take()
        assert b"\r\nNats-Consumer-Stalled: " + request + b"\r\n\r\n" in status.headers

    def test_otherAnswer(self, stage: ConsumerStage) -> None:
        """An answer to another request has no effect."""
        inbox = self.flowing(stage)
        inbox.take()
        stage.send(b"$JS.FC.S.C.abcd")
        assert inbox.texts() == []

    def test_asAcknowledgement(self, stage: ConsumerStage) -> None:
        """
        With the policy C{flow_control}, an answer acknowledges the messages that it names. An idle
        consumer sends a request too.
        """
        inbox = stage.inbox(subject=b"d")
        stage.publish(3)
        consumer = stage.consumer(
            deliver_subject="d",
            flow_control=True,
            idle_heartbeat=SECOND,
            ack_policy=AckPolicy.FLOW_CONTROL,
        )
        stage.advance(1)
        request = inbox.take()[-1]
        assert request.headers.startswith(b"NATS/1.0 100 FlowControl Request")
        answer = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
        stage.send(request.reply, b"", b"", answer)
        info = consumer.info()
        assert info["ack_floor"]["stream_seq"] == 2
        assert info["num_ack_pending"] == 1

    def test_asksWhenFull(self, stage: ConsumerStage) -> None:
        """
        With the policy C{flow_control}, a request is sent as soon as max_ack_pending is reached.
        """
        inbox = stage.inbox(subject=b"d")
        stage.publish(5)
        stage.consumer(
            deliver_subject="d",
            flow_control=True,
            idle_heartbeat=SECOND,
            ack_policy=AckPolicy.FLOW_CONTROL,
            max_ack_pending=2,
        )
        *messages, request = inbox.take()
        assert [message.payload for message in messages] == [b"1", b"2"]
        answer = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
        stage.send(request.reply, b"", b"", answer)
        assert [message.payload for message in inbox.take() if message.payload] == [b"3", b"4"]


class TestRate:
    """The rate limit."""

    def test_limited(self) -> None:
        """Beyond a burst of the largest message, messages are spaced."""
        stage = ConsumerStage(max_msg_size=1000)
        inbox = stage.inbox(subject=b"d")
        for _ in range(3):
            stage.stream.publish("s.a", "x" * 900)
        stage.consumer(deliver_subject="d", rate_limit_bps=8000)
        assert len(inbox.take()) == 1
        stage.advance(0.8)
        assert inbox.take() == []
        stage.advance(0.2)
        assert len(inbox.take()) == 1
        stage.advance(1)
        assert len(inbox.take()) == 1

    def test_changed(self) -> None:
        """The limit can be lifted."""
        stage = ConsumerStage(max_msg_size=1000)
        inbox = stage.inbox(subject=b"d")
        for _ in range(3):
            stage.stream.publish("s.a", "x" * 900)
        consumer = stage.consumer(deliver_subject="d", rate_limit_bps=8000)
        consumer.update(stage.config(deliver_subject="d"))
        stage.settle()
        assert len(inbox.take()) == 3


@implementer(IOutboxSubscriber)
class StuckClient:
    """
    A client that reads nothing until it is resumed.

    @ivar written: what it has taken.
    """

    def __init__(self, stage: ConsumerStage, subject: bytes) -> None:
        self.written: list[bytes] = []
        self.outbox = hot.Outbox(stage.turn, self, self.written.append, 64 << 20)
        self.outbox.pause()
        stage.clients.subscribe(subject, self, b"1")

    def deliver(self, message: Message, tag: bytes) -> None:
        """Append to the outbox."""
        self.outbox.deliver(message, tag)

    def subscriptionEnded(self, tag: bytes) -> None:
        """Not called: the subscription has no maximum."""

    def outboxOverflowed(self) -> None:
        """Not called: less waits than may."""
        raise AssertionError("too much waits")

    def outboxFailed(self) -> None:
        """Not called: nothing raises."""
        raise AssertionError("sending failed")


class TestReceivers:
    """Delivery waits for connections that have much to take."""

    def test_waits(self, stage: ConsumerStage) -> None:
        """A client that lags is not sent more until it has caught up."""
        for _ in range(120):
            stage.stream.publish("s.a", "x" * 100_000)
        client = StuckClient(stage, b"d")
        consumer = stage.consumer(deliver_subject="d", ack_policy=AckPolicy.NONE)
        stage.settle()
        assert (1 << 20) < client.outbox.pending < (6 << 20)
        before = consumer.info()["num_pending"]
        stage.publish(1)
        assert consumer.info()["num_pending"] == before + 1
        client.outbox.resume()
        stage.settle()
        assert consumer.info()["num_pending"] == 0
        assert sum(map(len, client.written)) > 12_000_000

    def test_otherReceiver(self, stage: ConsumerStage) -> None:
        """
        Of two clients on a deliver subject, the one that keeps up gets messages without waiting for
        the other.
        """
        for _ in range(60):
            stage.stream.publish("s.a", "x" * 100_000)
        client, inbox = StuckClient(stage, b"d"), stage.inbox(subject=b"d")
        stage.consumer(deliver_subject="d", ack_policy=AckPolicy.NONE)
        stage.settle()
        assert len(inbox.take()) == 60
        assert client.outbox.pending > 6_000_000

    def test_stopped(self, stage: ConsumerStage) -> None:
        """A stopped consumer delivers nothing to a client that catches up."""
        for _ in range(120):
            stage.stream.publish("s.a", "x" * 100_000)
        client = StuckClient(stage, b"d")
        consumer = stage.consumer(deliver_subject="d", ack_policy=AckPolicy.NONE)
        stage.settle()
        pending = consumer.info()["num_pending"]
        consumer.stop("deleted")
        client.outbox.resume()
        stage.settle()
        assert consumer.info()["num_pending"] == pending
