"""
Deliveries to pull requests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.connections.turns import AccountTurns
from natsbroker.jetstream.consumers.deliverer import FEW, SHORT_SLICE, SLICE
from natsbroker.jetstream.model.consumerconfig import AckPolicy, PriorityPolicy
from natsbroker.wire.values import AckRun, Message
from tests.jetstream.consumers.support import SECOND, ConsumerStage, Inbox, numbers


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


class TestRequests:
    """The messages that requests receive."""

    def test_oneMessage(self, stage: ConsumerStage) -> None:
        """A message has the stream's subject, and a reply subject with its numbers."""
        stage.publish(3)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox)
        (message,) = inbox.take()
        assert (message.subject, message.streamSubject) == (inbox.subject, b"s.a")
        stamp = b"%d" % stage.now()
        assert message.reply == b"$JS.ACK.S.C.1.1.1." + stamp + b".2"

    @pytest.mark.parametrize("body", [b"", b"garbage", b"0", b"-3", b'{"batch":0}', b" \r\n"])
    def test_bodyWithoutBatch(self, stage: ConsumerStage, body: bytes) -> None:
        """A body without a batch asks for one message."""
        stage.publish(3)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, body)
        assert inbox.texts() == ["1"]

    def test_roundRobin(self, stage: ConsumerStage) -> None:
        """Waiting requests get one message each in turn."""
        stage.consumer()
        inboxes = [stage.inbox() for _ in range(3)]
        for inbox in inboxes:
            stage.pull(inbox, b"2")
        stage.publish(6)
        assert [inbox.texts() for inbox in inboxes] == [["1", "4"], ["2", "5"], ["3", "6"]]

    def test_noWaitWithoutMessages(self, stage: ConsumerStage) -> None:
        """A request with no_wait gets a status at once if there is no message."""
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":10,"no_wait":true}')
        (status,) = inbox.take()
        assert status.headers == b"NATS/1.0 404 No Messages\r\n\r\n"

    def test_noWaitWithFewerMessages(self, stage: ConsumerStage) -> None:
        """A request with no_wait gets the messages that there are, then the status."""
        stage.publish(2)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":10,"no_wait":true}')
        assert inbox.texts() == ["1", "2", "404 No Messages"]

    def test_noWaitWithExpiry(self, stage: ConsumerStage) -> None:
        """
        A request with no_wait and an expiry waits for the first message, and ends after that
        message.
        """
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":10,"no_wait":true,"expires":5000000000}')
        assert inbox.texts() == []
        stage.publish(1)
        assert inbox.texts() == ["1", "404 No Messages"]

    def test_noWaitBehindOthers(self, stage: ConsumerStage) -> None:
        """
        A request with no_wait is refused while an earlier request waits for more messages than are
        pending.
        """
        consumer = stage.consumer(max_ack_pending=1)
        stage.publish(3)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b"5")
        assert consumer.info()["num_waiting"] == 1
        stage.pull(second, b'{"batch":1,"no_wait":true}')
        assert second.texts() == ["408 Requests Pending"]

    def test_noWaitForAcknowledgements(self, stage: ConsumerStage) -> None:
        """
        At max_ack_pending, a request with no_wait waits. It ends once an acknowledgement shows that
        no message is left.
        """
        stage.publish(2)
        stage.consumer(max_ack_pending=1)
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":1,"expires":120000000}')
        (first,) = inbox.take()
        stage.ack(first, b'+NXT {"batch":2,"no_wait":true}', inbox.subject)
        stage.advance(0.2)
        (second,) = inbox.take()
        assert second.streamSubject == b"s.a"
        stage.ack(second)
        assert inbox.texts() == ["404 No Messages"]

    def test_expiry(self, stage: ConsumerStage) -> None:
        """A request that expires learns the rest that it did not get."""
        stage.publish(1)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":4,"expires":1000000000}')
        stage.advance(0.999)
        assert inbox.texts() == ["1"]
        stage.advance(0.001)
        (status,) = inbox.take()
        assert status.headers == (
            b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n"
            b"Nats-Pending-Bytes: 0\r\n\r\n"
        )

    def test_negativeExpiry(self, stage: ConsumerStage) -> None:
        """An expiry in the past ends the request at once."""
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":1,"expires":-1}')
        assert inbox.texts() == ["408 Request Timeout"]

    def test_heartbeats(self, stage: ConsumerStage) -> None:
        """Heartbeats come while no message is delivered, and a delivery postpones the next one."""
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":9,"expires":10000000000,"idle_heartbeat":1000000000}')
        stage.advance(1)
        (status,) = inbox.take()
        assert status.headers == (
            b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 0\r\n\r\n"
        )
        stage.advance(0.9)
        stage.publish(1)
        assert inbox.texts() == ["1"]
        stage.advance(0.9)
        assert inbox.texts() == []
        stage.advance(0.1)
        (status,) = inbox.take()
        assert b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n" in status.headers

    def test_interestGone(self, stage: ConsumerStage) -> None:
        """A request whose client is gone is dropped, and its message goes to another request."""
        consumer = stage.consumer()
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b"2")
        stage.pull(second, b"2")
        first.close()
        stage.publish(2)
        assert (first.texts(), second.texts()) == ([], ["1", "2"])
        assert consumer.info()["num_waiting"] == 0

    def test_goneRequestIsNotShown(self, stage: ConsumerStage) -> None:
        """C{num_waiting} leaves out requests whose clients are gone."""
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox)
        assert consumer.info()["num_waiting"] == 1
        inbox.close()
        assert consumer.info()["num_waiting"] == 0

    def test_oneByOne(self, stage: ConsumerStage) -> None:
        """Messages that are sent one by one are sent a few in each turn."""
        stage.publish(300)
        stage.consumer(headers_only=True)
        inbox = stage.inbox()
        assert max(slicesOf(stage, inbox, 300)) == FEW
        assert [numbers(message)[1] for message in inbox.take()] == [*range(1, 301)]

    @pytest.mark.parametrize(("isSpent", "most"), [(False, SLICE), (True, 2 * SHORT_SLICE)])
    def test_slices(self, stage: ConsumerStage, isSpent: bool, most: int) -> None:
        """A slice of messages that go out in runs is shorter while other work waits."""
        stage.publish(5000)
        stage.consumer(ack_policy=AckPolicy.NONE)
        inbox = stage.inbox()
        with patch.object(AccountTurns, "isSpent", isSpent):
            slices = slicesOf(stage, inbox, 5000)
        assert sum(slices) == 5000
        assert most // 2 < max(slices) <= most

    def test_manyMessages(self, stage: ConsumerStage) -> None:
        """A batch of more messages than are read at once is delivered in order."""
        stage.publish(700)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"700")
        got = inbox.take()
        assert [numbers(message) for message in got] == [(1, n, n, 700 - n) for n in range(1, 701)]


def slicesOf(stage: ConsumerStage, inbox: Inbox, count: int) -> list[int]:
    """The messages that the answer to a request has in each turn of the reactor."""
    counts: list[int] = []
    later = stage.clock.callLater

    def callLater(*arguments: Any) -> Any:
        counts.append(len(inbox.got))
        return later(*arguments)

    vars(stage.clock)["callLater"] = callLater
    stage.pull(inbox, b"%d" % count)
    counts.append(len(inbox.got))
    return [after - before for before, after in pairwise(counts)]


class TestBytes:
    """Requests with C{max_bytes}."""

    def test_tooLarge(self, stage: ConsumerStage) -> None:
        """A message that does not fit ends the request, and waits for another request."""
        stage.publish(1)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":2,"max_bytes":10}')
        (status,) = inbox.take()
        assert status.headers == (
            b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 2\r\n"
            b"Nats-Pending-Bytes: 10\r\n\r\n"
        )
        stage.pull(inbox)
        assert inbox.texts() == ["1"]

    def test_remainingBytes(self, stage: ConsumerStage) -> None:
        """
        A batch that completes below max_bytes is followed by a status with the remaining bytes.
        """
        stage.publish(1)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":1,"max_bytes":1000}')
        message, status = inbox.take()
        left = 1000 - len(b"s.a") - len(message.reply) - len(message.payload)
        assert status.headers == (
            b"NATS/1.0 409 Batch Completed\r\nNats-Pending-Messages: 0\r\n"
            b"Nats-Pending-Bytes: %d\r\n\r\n" % left
        )

    def test_exactFit(self, stage: ConsumerStage) -> None:
        """A message that uses exactly the last byte ends the request without a status."""
        stage.publish(2)
        stage.consumer()
        probe, inbox = stage.inbox(), stage.inbox()
        stage.pull(probe)
        size = sum(len(e.reply) + len(e.payload) + 3 for e in probe.take())
        stage.pull(inbox, b'{"batch":5,"max_bytes":%d}' % size)
        assert inbox.texts() == ["2"]


class TestRefusals:
    """Requests that are refused."""

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b'{"batch":3}', "409 Exceeded MaxRequestBatch of 2"),
            (b"3", "409 Exceeded MaxRequestBatch of 2"),
            (b'{"expires":2000000000}', "409 Exceeded MaxRequestExpires of 1s"),
            (b'{"max_bytes":101}', "409 Exceeded MaxRequestMaxBytes of 100"),
            (b'{"idle_heartbeat":1000000000}', "400 Bad Request - heartbeat value too large"),
            (b'{"min_pending":1}', "400 Bad Request - Not a Overflow Priority consumer"),
            (b'{"id":"x"}', "400 Bad Request - Not a Pinned Client Priority consumer"),
            (b'{"priority":10}', "400 Bad Request - Priority must be between 0 and 9"),
        ],
    )
    def test_limits(self, stage: ConsumerStage, body: bytes, status: str) -> None:
        """A request beyond the limits of the consumer gets a status."""
        stage.publish(1)
        stage.consumer(max_batch=2, max_expires=SECOND, max_bytes=100)
        inbox = stage.inbox()
        stage.pull(inbox, body)
        assert inbox.texts() == [status]

    def test_tooManyWaiting(self, stage: ConsumerStage) -> None:
        """A request beyond the limit is refused, but silently if it has heartbeats."""
        stage.consumer(max_waiting=1)
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.pull(inbox)
        stage.pull(inbox, b'{"expires":9000000000,"idle_heartbeat":1000000000}')
        assert inbox.texts() == ["409 Exceeded MaxWaiting"]

    def test_roomIsMade(self, stage: ConsumerStage) -> None:
        """Waiting requests whose clients are gone do not count for max_waiting."""
        stage.consumer(max_waiting=1)
        inbox = stage.inbox()
        for _ in range(5):
            gone = stage.inbox()
            stage.pull(gone)
            gone.close()
            assert gone.texts() == []
        stage.pull(inbox)
        stage.pull(inbox, b"3")
        stage.advance(1)
        stage.publish(1)
        assert inbox.texts() == ["409 Exceeded MaxWaiting", "1"]

    def test_goneClientsAreSoughtSeldom(self, stage: ConsumerStage) -> None:
        """
        When max_waiting is reached, only some of the refused requests cause a search for clients
        that are gone.
        """
        stage.consumer(max_waiting=64)
        waiting, late = stage.inbox(), stage.inbox()
        for _ in range(65):
            stage.pull(waiting)
        waiting.close()
        for _ in range(5):
            stage.pull(late)
        assert late.texts() == ["409 Exceeded MaxWaiting"] * 4

    def test_pushConsumer(self, stage: ConsumerStage) -> None:
        """A push consumer takes no requests."""
        stage.consumer(deliver_subject="d")
        inbox = stage.inbox()
        stage.pull(inbox)
        assert inbox.texts() == ["409 Consumer is push based"]

    @pytest.mark.parametrize(("level", "text"), [(b"6", "412"), (b"x", "412"), (b"5", "1")])
    def test_apiLevel(self, stage: ConsumerStage, level: bytes, text: str) -> None:
        """A request for a higher API level is refused."""
        stage.publish(1)
        stage.consumer()
        inbox = stage.inbox()
        headers = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level
        stage.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"", inbox.subject, headers)
        assert inbox.texts()[0].startswith(text)


class TestPinned:
    """Consumers with a pinned client."""

    def pinned(self, stage: ConsumerStage) -> None:
        """Start a consumer with five messages."""
        stage.publish(5)
        stage.consumer(
            priority_groups=("g",),
            priority_policy=PriorityPolicy.PINNED_CLIENT,
            priority_timeout=2 * SECOND,
        )

    def pinOf(self, headers: bytes) -> bytes:
        """The id in a delivery, whose last header it is."""
        assert headers.startswith(b"NATS/1.0\r\nNats-Pin-Id: "), headers
        return headers[len(b"NATS/1.0\r\nNats-Pin-Id: ") : -4]

    def test_firstIsPinned(self, stage: ConsumerStage) -> None:
        """The first request of the group pins its client; others wait."""
        self.pinned(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b'{"batch":2,"group":"g"}')
        stage.pull(second, b'{"batch":1,"group":"g","expires":9000000000}')
        got = first.take()
        assert [message.payload for message in got] == [b"1", b"2"]
        assert len(self.pinOf(got[0].headers)) == 22
        assert second.texts() == []
        assert stage.advisories == ["consumer_group_pinned"]

    def test_timeout(self, stage: ConsumerStage) -> None:
        """A pinned client that stops pulling is replaced after the timeout."""
        self.pinned(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b'{"batch":1,"group":"g"}')
        pin = self.pinOf(first.take()[0].headers)
        stage.advance(1.5)
        stage.pull(first, b'{"batch":1,"group":"g","id":"%b"}' % pin)
        assert first.texts() == ["2"]
        stage.pull(second, b'{"batch":1,"group":"g"}')
        stage.advance(1.9)
        assert second.texts() == []
        stage.advance(0.1)
        assert self.pinOf(second.take()[0].headers) != pin
        assert stage.advisories == [
            "consumer_group_pinned",
            "consumer_group_unpinned",
            "consumer_group_pinned",
        ]

    def test_wrongPin(self, stage: ConsumerStage) -> None:
        """
        A request with an old id is refused, with different texts while a client is pinned and while
        none is.
        """
        self.pinned(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(second, b'{"batch":1,"group":"g","id":"old"}')
        (status,) = second.take()
        assert status.headers == (
            b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\nNats-Pending-Messages: 1\r\n"
            b"Nats-Pending-Bytes: 0\r\n\r\n"
        )
        stage.pull(first, b'{"batch":1,"group":"g"}')
        stage.pull(second, b'{"batch":1,"group":"g","id":"old"}')
        assert second.texts() == ["423 Nats-Pin-Id mismatch"]

    def test_withoutGroup(self, stage: ConsumerStage) -> None:
        """A request without a group is served while no client is pinned, and its pin is empty."""
        self.pinned(stage)
        inbox = stage.inbox()
        stage.pull(inbox)
        assert self.pinOf(inbox.take()[0].headers) == b""

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"{}", "400 Bad Request - Priority Group missing"),
            (b'{"group":"x"}', "400 Bad Request - Invalid Priority Group"),
        ],
    )
    def test_groupIsNeeded(self, stage: ConsumerStage, body: bytes, status: str) -> None:
        """An object without the group, or with another one, is refused."""
        self.pinned(stage)
        inbox = stage.inbox()
        stage.pull(inbox, body)
        assert inbox.texts() == [status]

    def test_unpin(self, stage: ConsumerStage) -> None:
        """An administrator unpins the client; the next request in turn pins its own."""
        self.pinned(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b'{"batch":1,"group":"g"}')
        stage.pull(second, b'{"batch":1,"group":"g"}')
        stage.stream.consumers[0].unpin("g")
        stage.settle()
        assert second.texts() == ["2"]
        assert stage.advisories == [
            "consumer_group_pinned",
            "consumer_group_unpinned",
            "consumer_group_pinned",
        ]
        (group,) = stage.stream.consumers[0].info()["priority_groups"]
        assert list(group) == ["group", "pinned_client_id", "pinned_ts"]

    def test_tooLargeReleasesPin(self, stage: ConsumerStage) -> None:
        """A request whose first message exceeds its max_bytes does not stay pinned."""
        self.pinned(stage)
        first, second = stage.inbox(), stage.inbox()
        stage.pull(first, b'{"batch":1,"group":"g","max_bytes":1}')
        stage.pull(second, b'{"batch":1,"group":"g"}')
        assert first.texts() == ["409 Message Size Exceeds MaxBytes"]
        assert second.texts() == ["1"]


class TestOtherPolicies:
    """Overflow and priorities."""

    def test_overflow(self, stage: ConsumerStage) -> None:
        """
        With overflow, a request waits until the consumer has min_pending messages or
        min_ack_pending unacknowledged ones.
        """
        stage.consumer(priority_groups=("g",), priority_policy=PriorityPolicy.OVERFLOW)
        inbox, other = stage.inbox(), stage.inbox()
        stage.pull(inbox, b'{"batch":9,"group":"g","min_pending":3}')
        stage.publish(2)
        assert inbox.texts() == []
        stage.publish(1)
        assert inbox.texts() == ["1"]
        stage.pull(other, b'{"batch":9,"group":"g","min_ack_pending":1}')
        assert other.texts() == ["2", "3"]

    def test_priorities(self, stage: ConsumerStage) -> None:
        """The lowest number is served first, equal ones in turn."""
        stage.consumer(priority_groups=("g",), priority_policy=PriorityPolicy.PRIORITIZED)
        late, one, two = stage.inbox(), stage.inbox(), stage.inbox()
        stage.pull(late, b'{"batch":9,"group":"g","priority":5}')
        stage.pull(one, b'{"batch":2,"group":"g","priority":1}')
        stage.pull(two, b'{"batch":2,"group":"g","priority":1}')
        stage.publish(6)
        assert one.texts() == ["1", "3"]
        assert two.texts() == ["2", "4"]
        assert late.texts() == ["5", "6"]

    def test_prioritiesOfRequestsThatArriveTogether(self, stage: ConsumerStage) -> None:
        """Of requests that arrive together, those of higher priority are served first."""
        stage.consumer(priority_groups=("g",), priority_policy=PriorityPolicy.PRIORITIZED)
        stage.publish(3)
        late, early = stage.inbox(), stage.inbox()
        for inbox, priority in ((late, b"1"), (early, b"0")):
            body = b'{"batch":2,"group":"g","priority":%b}' % priority
            stage.clients.publish(
                Message(b"$JS.API.CONSUMER.MSG.NEXT.S.C", body, inbox.subject, origin=stage)
            )
        stage.settle()
        assert (early.texts(), late.texts()) == (["1", "2"], ["3"])


BODIES = [
    b"",
    b'{"batch":1,"expires":2000000000}',
    b'{"batch":1,"expires":2000000000,"idle_heartbeat":500000000}',
    b'{"batch":1,"max_bytes":60}',
    b'{"batch":1,"max_bytes":1000}',
    b'{"batch":1,"no_wait":true}',
    b'{"batch":3,"expires":1000000000}',
    b'{"batch":2,"no_wait":true}',
    b'{"batch":6}',
    b'{"batch":',
]

PULLS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(BODIES)), max_size=9)


def pulled(isTogether: bool, pulls: list[tuple[int, bytes]], stored: int, limit: int) -> object:
    """The deliveries for pull requests of one turn and for messages stored afterwards."""
    stage = ConsumerStage()
    inboxes = [stage.inbox() for _ in range(4)]
    stage.publish(stored + 1)
    consumer = stage.consumer(max_waiting=limit, max_batch=5)
    stage.pull(inboxes[0])
    inboxes[1].close()
    subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
    messages: list[tuple[Message | AckRun, Any]] = [
        (Message(subject, body, inboxes[number].subject, origin=stage), 1) for number, body in pulls
    ]
    if isTogether:
        consumer.deliverMany(messages)
    else:
        for message in messages:
            consumer.deliverMany([message])
    shown = [consumer.info()]
    stage.settle()
    for wait in (0.6, 1.0, 3.0):
        stage.publish(1)
        stage.advance(wait)
        shown.append(consumer.info())
    deliveries = [[(sent.reply, sent.body) for sent in inbox.got] for inbox in inboxes]
    return deliveries, shown


@given(PULLS, st.integers(0, 9), st.sampled_from([1, 2, 512]))
def test_together(pulls: list[tuple[int, bytes]], stored: int, limit: int) -> None:
    """Pull requests that arrive together get the same as one by one."""
    assert pulled(True, pulls, stored, limit) == pulled(False, pulls, stored, limit)
