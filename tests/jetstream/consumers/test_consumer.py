"""
The life of a consumer: where it begins, which state survives a restart, the effects of changes, and
its end.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from natsbroker.interfaces import IBatchSubscriber
from natsbroker.jetstream.consumers.consumer import Consumer, ResetRefused
from natsbroker.jetstream.consumers.state import ConsumerState, stateKey
from natsbroker.jetstream.model.consumerconfig import AckPolicy, DeliverPolicy, PriorityPolicy
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp
from natsbroker.wire.values import Message
from tests.jetstream.consumers.support import (
    BEGINNING,
    SECOND,
    ConsumerStage,
    DelayedStates,
    numbers,
)

START = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE}
LASTS = {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT}


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def mixed(stage: ConsumerStage) -> None:
    """
    Store six messages, one each second, of three subjects.
    """
    for subject in ("s.a", "s.b", "s.a", "s.c", "s.b", "s.a"):
        stage.stream.publish(subject)
        stage.advance(1)


class TestStart:
    """Where a consumer begins."""

    @pytest.mark.parametrize(
        ("config", "before", "pending", "got"),
        [
            ({}, 0, 6, [1, 2, 3, 4, 5, 6]),
            ({"filter_subject": "s.a"}, 0, 3, [1, 3, 6]),
            ({"filter_subjects": ("s.b", "s.c")}, 0, 3, [2, 4, 5]),
            ({"deliver_policy": DeliverPolicy.NEW}, 6, 0, []),
            ({"deliver_policy": DeliverPolicy.LAST}, 5, 1, [6]),
            ({"deliver_policy": DeliverPolicy.LAST, "filter_subject": "s.b"}, 4, 1, [5]),
            (
                {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 4},
                3,
                3,
                [4, 5, 6],
            ),
            ({"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 90}, 89, 0, []),
            (
                {
                    "deliver_policy": DeliverPolicy.BY_START_TIME,
                    "opt_start_time": Timestamp(BEGINNING + 3 * SECOND),
                },
                3,
                3,
                [4, 5, 6],
            ),
            (
                {
                    "deliver_policy": DeliverPolicy.BY_START_TIME,
                    "opt_start_time": Timestamp(BEGINNING + 300 * SECOND),
                },
                6,
                0,
                [],
            ),
            (
                {**LASTS, "filter_subject": "s.*"},
                3,
                3,
                [4, 5, 6],
            ),
            (
                {
                    "deliver_policy": DeliverPolicy.LAST_PER_SUBJECT,
                    "filter_subjects": ("s.a", "s.b"),
                },
                4,
                2,
                [5, 6],
            ),
        ],
    )
    def test_policies(
        self,
        stage: ConsumerStage,
        config: dict[str, Any],
        before: int,
        pending: int,
        got: list[int],
    ) -> None:
        """Each deliver policy sets the first position and the number of pending messages."""
        mixed(stage)
        info = stage.consumer(**config).info()
        assert info["delivered"] == {"consumer_seq": 0, "stream_seq": before}
        assert info["ack_floor"] == {"consumer_seq": 0, "stream_seq": before}
        assert info["num_pending"] == pending
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        messages = inbox.take()
        assert [numbers(message)[1] for message in messages] == got
        assert [numbers(message)[3] for message in messages] == list(range(len(got) - 1, -1, -1))

    @pytest.mark.parametrize("policy", [p for p in DeliverPolicy if p.value[:3] != "by_"])
    def test_emptyStream(self, stage: ConsumerStage, policy: DeliverPolicy) -> None:
        """In an empty stream every policy begins with the first message."""
        consumer = stage.consumer(deliver_policy=policy, filter_subject="s.a")
        assert consumer.info()["delivered"]["stream_seq"] == 0
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.publish(1)
        assert inbox.texts() == ["1"]

    def test_afterRemoval(self, stage: ConsumerStage) -> None:
        """A new consumer starts behind the messages that were already removed."""
        stage.publish(5)
        stage.stream.discard(4)
        assert stage.consumer().info()["delivered"]["stream_seq"] == 3

    def test_lastPerSubjectThenNew(self, stage: ConsumerStage) -> None:
        """
        With last_per_subject, messages published meanwhile are delivered after the last message of
        each subject.
        """
        mixed(stage)
        consumer = stage.consumer(
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.>"
        )
        stage.stream.publish("s.c")
        assert consumer.info()["num_pending"] == 4
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert [numbers(message)[1::2] for message in inbox.take()] == [
            (4, 3),
            (5, 2),
            (6, 1),
            (7, 0),
        ]

    def test_lastPerSubjectAfterCrash(self, stage: ConsumerStage) -> None:
        """
        With last_per_subject, a consumer that restarts delivers only the rest of the last messages,
        then new ones.
        """
        mixed(stage)
        config = {"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT, "filter_subject": "s.>"}
        consumer = stage.consumer(**config)
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.advance(1)
        stage.stream.publish("s.b")
        stage.restart(consumer)
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["4", "6", "7"]

    def test_damagedState(self, stage: ConsumerStage, flushLoggedErrors: Any) -> None:
        """A state that cannot be read starts the consumer from the beginning, and it can end."""
        stage.publish(2)
        consumer = stage.started(stage.config(), b"\x01damaged")
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["1", "2"]
        stage.stop(consumer, "deleted")


class TestInfo:
    """The answer to CONSUMER.INFO."""

    def test_order(self, stage: ConsumerStage) -> None:
        """The keys stand in nats-server's order."""
        stage.publish(1)
        consumer = stage.consumer(
            priority_groups=("g",),
            priority_policy=PriorityPolicy.OVERFLOW,
            pause_until=stage.timestamp(9),
        )
        info = consumer.info()
        assert list(info) == [
            "stream_name",
            "name",
            "created",
            "config",
            "delivered",
            "ack_floor",
            "num_ack_pending",
            "num_redelivered",
            "num_waiting",
            "num_pending",
            "paused",
            "pause_remaining",
            "priority_groups",
        ]
        assert info["created"] == "2023-11-14T22:13:20Z"
        assert info["priority_groups"] == [{"group": "g", "pinned_ts": "0001-01-01T00:00:00Z"}]

    def test_takesBatches(self, stage: ConsumerStage) -> None:
        """A consumer takes all messages that arrive in one turn together."""
        assert verifyObject(IBatchSubscriber, stage.consumer())

    def test_domain(self, stage: ConsumerStage) -> None:
        """Pull requests may name the domain in the API prefix."""
        stage.fakeAccount.domain = "hub"
        stage.publish(1)
        stage.consumer()
        inbox = stage.inbox()
        stage.send(b"$JS.hub.API.CONSUMER.MSG.NEXT.S.C", b"", inbox.subject)
        assert inbox.texts() == ["1"]


class TestRestart:
    """The state after a crash."""

    def test_positions(self, stage: ConsumerStage) -> None:
        """After a crash, positions, pending messages and redelivery counts are those of before."""
        stage.publish(5)
        consumer = stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"3")
        stage.advance(1.1)
        stage.pull(inbox, b"3")
        messages = inbox.take()
        stage.ack(messages[3])
        stage.advance(0.5)
        before = consumer.info()
        after = stage.restart(consumer).info()
        for key in ("num_ack_pending", "num_redelivered", "num_pending"):
            assert after[key] == before[key]
        for key in ("delivered", "ack_floor"):
            assert before[key].pop("last_active")
            assert after[key] == before[key]

    def test_waitGoesOn(self, stage: ConsumerStage) -> None:
        """After a restart, a pending message is redelivered at the end of its original wait."""
        stage.publish(2)
        consumer = stage.consumer(ack_wait=2 * SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        stage.advance(1)
        stage.restart(consumer)
        stage.pull(inbox, b"2")
        inbox.take()
        stage.advance(0.9)
        assert inbox.texts() == []
        stage.advance(0.2)
        assert [numbers(message)[:3] for message in inbox.take()] == [(2, 1, 3), (2, 2, 4)]

    def test_clockWasSet(self, stage: ConsumerStage) -> None:
        """
        If the clock was set back before a restart, a pending message waits no longer than ack_wait.
        """
        stage.publish(1)
        consumer = stage.consumer(ack_wait=2 * SECOND)
        inbox = stage.inbox()
        stage.pull(inbox)
        inbox.take()
        stage.advance(1)
        stage.fakeAccount.now = lambda: BEGINNING - 3600 * SECOND
        stage.restart(consumer)
        stage.pull(inbox)
        stage.advance(2.1)
        assert inbox.texts() == ["1"]

    def test_aheadOfStream(self, stage: ConsumerStage) -> None:
        """A state that is ahead of its stream is brought back to the stream's end."""
        stage.publish(3)
        state = ConsumerState(9, 9, 7, 7, 0, 0, [2, 8, 9], [2, 8, 9], [0] * 3, {2: 1, 9: 4})
        consumer = stage.started(stage.config(), state.encode())
        info = consumer.info()
        assert info["delivered"] == {"consumer_seq": 9, "stream_seq": 3}
        assert info["ack_floor"]["stream_seq"] == 3
        assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 1)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.publish(2)
        assert inbox.texts() == ["4", "5"]

    def test_pendingAheadOfStream(self, stage: ConsumerStage) -> None:
        """Pending messages that the stream lost are dropped, and the others stay."""
        stage.publish(3)
        state = ConsumerState(5, 5, 1, 1, 0, 0, [2, 3, 5], [2, 3, 5], [0] * 3)
        consumer = stage.started(stage.config(), state.encode())
        assert consumer.info()["num_ack_pending"] == 2
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(0.1)
        assert inbox.texts() == ["2", "3"]
        stage.publish(1)
        assert inbox.texts() == ["4"]

    def test_pendingBelowStream(self, stage: ConsumerStage) -> None:
        """Pending messages that the stream has removed are dropped, and the floor is above them."""
        stage.publish(9)
        stage.stream.log.discardBefore(5)
        state = ConsumerState(6, 6, 0, 0, 0, 0, range(1, 7), range(1, 7), [0] * 6, {1: 1, 6: 1})
        consumer = stage.started(stage.config(), state.encode())
        info = consumer.info()
        assert info["ack_floor"] == {"consumer_seq": 4, "stream_seq": 4}
        assert (info["num_ack_pending"], info["num_redelivered"]) == (2, 1)

    def test_startSequenceBeyondEnd(self, stage: ConsumerStage) -> None:
        """
        After a restart, a consumer still begins at its start sequence, even if the stream has not
        reached that yet.
        """
        stage.publish(2)
        consumer = stage.consumer(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=5)
        consumer = stage.restart(consumer)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.publish(4)
        assert inbox.texts() == ["5", "6"]

    def test_maxDeliverOverCrashes(self, stage: ConsumerStage) -> None:
        """With max_deliver, repeated crashes cause no further deliveries."""
        stage.publish(3)
        consumer = stage.consumer(ack_wait=SECOND, max_deliver=3)
        inbox = stage.inbox()
        for _ in range(8):
            stage.pull(inbox, b"3")
            consumer = stage.restart(consumer)
            stage.advance(1.1)
        assert sorted(inbox.texts()) == sorted(["1", "2", "3"] * 3)

    def test_doubleAckSurvives(self, stage: ConsumerStage) -> None:
        """An acknowledgement that was answered is not forgotten."""
        stage.publish(2)
        consumer = stage.consumer(ack_wait=SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        first, _ = inbox.take()
        stage.ack(first, b"", inbox.subject)
        assert inbox.texts() == [""]
        stage.restart(consumer)
        stage.advance(2)
        stage.pull(inbox, b"2")
        assert inbox.texts() == ["2"]

    def test_memoryConsumer(self, stage: ConsumerStage) -> None:
        """A consumer in memory stores no state."""
        stage.publish(1)
        stage.consumer(mem_storage=True)
        stage.pull(stage.inbox())
        stage.advance(1)
        assert stage.stateOf() is None


class TestEnd:
    """The stop of consumers."""

    @pytest.mark.parametrize(
        ("reason", "headers"),
        [
            ("deleted", b"NATS/1.0 409 Consumer Deleted\r\n\r\n"),
            ("leadership", b"NATS/1.0 409 Leadership Change\r\n\r\n"),
            (
                "shutdown",
                b"NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 5\r\n"
                b"Nats-Pending-Bytes: 1000\r\n\r\n",
            ),
        ],
    )
    def test_requestsLearn(self, stage: ConsumerStage, reason: str, headers: bytes) -> None:
        """Clients that wait learn why, and later messages have no receiver."""
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b'{"batch":5,"max_bytes":1000}')
        stage.stop(consumer, reason)
        (status,) = inbox.take()
        assert status.headers == headers
        request = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
        assert stage.clients.publish(Message(request, b"", inbox.subject, origin=stage)) == 0
        stage.stream.consumers.append(consumer)
        stage.publish(1)
        assert inbox.texts() == []

    def test_pushIsSilent(self, stage: ConsumerStage) -> None:
        """The deliver subject gets nothing when a push consumer is deleted."""
        inbox = stage.inbox(subject=b"d")
        consumer = stage.consumer(deliver_subject="d")
        stage.stop(consumer, "deleted")
        assert inbox.texts() == []

    def test_stateIsWritten(self, stage: ConsumerStage) -> None:
        """A shutdown stores a consumer's latest state."""
        stage.publish(1)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.ack(inbox.take()[0])
        stage.stop(consumer, "shutdown")
        state = ConsumerState.decode(stage.stateOf() or b"")
        assert (state.floor, state.sequences) == (1, [])

    def test_noTimersLeft(self, stage: ConsumerStage) -> None:
        """A consumer that was stopped sets no timers."""
        stage.publish(1)
        consumer = stage.consumer(inactive_threshold=SECOND)
        stage.pull(stage.inbox(), b"9")
        stage.stop(consumer, "deleted")
        stage.advance(60)
        assert stage.clock.getDelayedCalls() == []


class TestUpdate:
    """Changes of the configuration."""

    def test_filter(self, stage: ConsumerStage) -> None:
        """A changed filter counts the pending messages again, from the position on."""
        mixed(stage)
        consumer = stage.consumer(filter_subject="s.a")
        inbox = stage.inbox()
        stage.pull(inbox)
        consumer.update(stage.config(filter_subject="s.b"))
        stage.settle()
        assert (consumer.info()["num_pending"], consumer.filters) == (2, (b"s.b",))
        assert (consumer.wants(b"s.b"), consumer.wants(b"s.a")) == (True, False)
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["1", "2", "5"]

    def test_maxAckPending(self, stage: ConsumerStage) -> None:
        """Raising max_ack_pending lets waiting requests get more messages."""
        stage.publish(3)
        consumer = stage.consumer(max_ack_pending=1)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        consumer.update(stage.config(max_ack_pending=2))
        stage.settle()
        assert inbox.texts() == ["1", "2"]

    def test_ackWait(self, stage: ConsumerStage) -> None:
        """A shorter wait applies to pending messages."""
        stage.publish(1)
        consumer = stage.consumer(ack_wait=30 * SECOND)
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        consumer.update(stage.config(ack_wait=SECOND))
        stage.advance(1.1)
        assert inbox.texts() == ["1", "1"]

    @pytest.mark.parametrize(
        ("before", "after", "times"),
        [
            ({"ack_wait": 5 * SECOND}, {"backoff": (SECOND, 3 * SECOND)}, [1, 4, 7]),
            ({"backoff": (5 * SECOND, 6 * SECOND)}, {"backoff": (SECOND, 3 * SECOND)}, [1, 4, 7]),
            ({"backoff": (5 * SECOND, 6 * SECOND)}, {"ack_wait": 2 * SECOND}, [2, 4, 6]),
        ],
    )
    def test_backoff(
        self, stage: ConsumerStage, before: Any, after: Any, times: list[float]
    ) -> None:
        """A new backoff applies to pending messages, from their delivery."""
        stage.publish(1)
        consumer = stage.consumer(**before)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(0.5)
        consumer.update(stage.config(**after))
        inbox.take()
        moments = []
        for moment in range(1, 8):
            stage.advance(moment + 0.1 - stage.clock.seconds())
            moments += [moment] * len(inbox.take())
        assert moments == times

    def test_laterBackoff(self, stage: ConsumerStage) -> None:
        """A new backoff reschedules a redelivered message by its number of deliveries."""
        stage.publish(1)
        consumer = stage.consumer(backoff=(SECOND, 2 * SECOND))
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        stage.advance(1.5)
        consumer.update(stage.config(backoff=(SECOND, 4 * SECOND)))
        stage.advance(3.4)
        assert inbox.texts() == ["1", "1"]
        stage.advance(0.2)
        assert inbox.texts() == ["1"]

    def test_pauseStays(self, stage: ConsumerStage) -> None:
        """An update does not change the pause."""
        consumer = stage.consumer()
        consumer.pause(BEGINNING + SECOND)
        consumer.update(stage.config(description="x"))
        assert consumer.config.pause_until == BEGINNING + SECOND
        assert consumer.info()["paused"] is True

    def test_resumedWithoutTime(self, stage: ConsumerStage) -> None:
        """Resuming with the zero time removes the pause from the configuration."""
        consumer = stage.consumer()
        consumer.pause(BEGINNING + SECOND)
        consumer.pause(int(ZERO_TIME))
        assert consumer.config.pause_until is None

    def test_sampling(self, stage: ConsumerStage) -> None:
        """The sampling frequency can change."""
        stage.publish(1)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox)
        consumer.update(stage.config(sample_freq="100"))
        stage.ack(inbox.take()[0])
        assert stage.advisories == ["consumer_ack"]


class TestReset:
    """Beginning again."""

    def result(self, stage: ConsumerStage, consumer: Consumer, sequence: int | None = None) -> Any:
        """The result of a reset."""
        results: list[Any] = []
        consumer.reset(sequence).addBoth(results.append)
        stage.settle()
        (result,) = results
        if isinstance(result, Failure):
            assert result.check(ResetRefused)
            return str(result.value)
        return result

    def test_toFloor(self, stage: ConsumerStage) -> None:
        """A reset without a sequence goes back to the message after the floor."""
        stage.publish(4)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"3")
        stage.ack(inbox.take()[0])
        assert self.result(stage, consumer) == 2
        info = consumer.info()
        assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 1}
        assert (info["num_ack_pending"], info["num_pending"]) == (0, 3)
        stage.pull(inbox, b"9")
        assert [numbers(message)[:3] for message in inbox.take()] == [
            (1, 2, 1),
            (1, 3, 2),
            (1, 4, 3),
        ]

    def test_toSequence(self, stage: ConsumerStage) -> None:
        """With a sequence it begins there, also after a restart."""
        stage.publish(5)
        consumer = stage.consumer()
        assert self.result(stage, consumer, 4) == 4
        consumer = stage.restart(consumer)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["4", "5"]

    def test_beyondPolicy(self, stage: ConsumerStage) -> None:
        """A reset to a position that the deliver policy excludes is refused."""
        mixed(stage)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"deliver_policy": DeliverPolicy.NEW}, "not allowed"),
            (
                {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 5},
                "below start seq",
            ),
            (
                {
                    "deliver_policy": DeliverPolicy.BY_START_TIME,
                    "opt_start_time": Timestamp(BEGINNING + 3 * SECOND),
                },
                "below start time",
            ),
        ]
        for place, (config, text) in enumerate(cases):
            consumer = stage.consumer(name=f"C{place}", **config)
            assert self.result(stage, consumer, 2) == text

    def test_waitingRequestsGoOn(self, stage: ConsumerStage) -> None:
        """A request that waits gets the messages."""
        stage.publish(2)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        inbox.take()
        self.result(stage, consumer, 1)
        assert inbox.texts() == ["1", "2"]


class TestRemoval:
    """Messages that the stream removes."""

    def test_pendingMessage(self, stage: ConsumerStage) -> None:
        """A pending message that is deleted is terminated, with the reason."""
        stage.publish(3)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        inbox.take()
        stage.stream.delete(1)
        kind, fields = stage.fakeAccount.advisories[0]
        assert (kind, fields["reason"]) == ("terminated", "Unacknowledged message was deleted")
        floor = consumer.info()["ack_floor"]
        assert (floor["consumer_seq"], floor["stream_seq"]) == (1, 1)
        assert "last_active" in floor

    def test_purgedMessages(self, stage: ConsumerStage) -> None:
        """Pending messages that a purge removes are settled without advisories."""
        stage.publish(3)
        consumer = stage.consumer()
        stage.pull(stage.inbox(), b"3")
        consumer.removed([1, 3], 0, True)
        info = consumer.info()
        assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (1, 1)
        assert stage.advisories == []

    def test_countAtRedelivery(self, stage: ConsumerStage) -> None:
        """A redelivered message shows the present number of pending messages."""
        mixed(stage)
        stage.consumer(filter_subject="s.a")
        inbox = stage.inbox()
        stage.pull(inbox)
        stage.ack(inbox.take()[0], b"-NAK")
        stage.stream.delete(6)
        stage.pull(inbox)
        assert numbers(inbox.take()[0]) == (2, 1, 2, 1)

    def test_newMessage(self, stage: ConsumerStage) -> None:
        """An undelivered message that is deleted is not counted as pending any more."""
        stage.publish(4)
        consumer = stage.consumer()
        stage.stream.delete(2, 3)
        stage.stream.delete(2)
        consumer.refresh()
        assert consumer.info()["num_pending"] == 2
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        assert [numbers(message)[1::2] for message in inbox.take()] == [(1, 1), (4, 0)]

    def test_limits(self, stage: ConsumerStage) -> None:
        """A message that a limit removes is terminated, and an undelivered one is skipped."""
        stage.publish(6)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"3")
        inbox.take()
        stage.stream.discard(3)
        assert stage.advisories == ["terminated", "terminated"]
        assert consumer.info()["ack_floor"]["stream_seq"] == 2
        stage.stream.discard(6)
        stage.pull(inbox, b"9")
        assert inbox.texts() == ["6"]
        assert consumer.info()["num_ack_pending"] == 1

    def test_purge(self, stage: ConsumerStage) -> None:
        """A purge moves the positions to the end, without advisories."""
        stage.publish(6)
        consumer = stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"3")
        inbox.take()
        stage.stream.discard(7, isPurge=True)
        info = consumer.info()
        assert stage.advisories == []
        assert info["delivered"]["stream_seq"] == 6
        assert info["ack_floor"]["stream_seq"] == 6
        assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)
        stage.pull(inbox)
        stage.publish(1)
        assert inbox.texts() == ["7"]

    def test_purgeUpToSequence(self, stage: ConsumerStage) -> None:
        """A purge up to a sequence moves the floor to just below the remaining messages."""
        stage.publish(6)
        consumer = stage.consumer(filter_subject="s.x")
        stage.stream.discard(4, isPurge=True)
        info = consumer.info()
        assert (info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"]) == (3, 3)
        consumer = stage.consumer(name="D")
        inbox = stage.inbox()
        stage.pull(inbox, b"2", name="D")
        stage.stream.discard(5, isPurge=True)
        info = consumer.info()
        assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (4, 1)

    def test_queuedMessage(self, stage: ConsumerStage) -> None:
        """A message in the redelivery queue that is deleted does not come again."""
        stage.publish(2)
        stage.consumer()
        inbox = stage.inbox()
        stage.pull(inbox, b"2")
        first, _ = inbox.take()
        stage.ack(first, b"-NAK")
        stage.stream.delete(1)
        stage.pull(inbox)
        assert inbox.texts() == []

    def test_trimmedWhileWaiting(self, stage: ConsumerStage) -> None:
        """A consumer whose pending messages are all trimmed goes on with the next ones."""
        stage.publish(10)
        consumer = stage.consumer(max_ack_pending=3)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        inbox.take()
        stage.stream.discard(9)
        stage.settle()
        assert inbox.texts() == ["9", "10"]
        assert consumer.info()["num_ack_pending"] == 2


class CrashMachine(RuleBasedStateMachine):
    """
    Under crashes that lose writes, removals and acknowledgements, a consumer with a limit of
    deliveries delivers no message more often than that, no message again whose acknowledgement it
    has answered, and each message once. Its floor is not above an open message.
    """

    LIMIT = 4

    def __init__(self) -> None:
        super().__init__()
        self.stage = ConsumerStage()
        self.states = DelayedStates(self.stage.stream.states, self.stage.clock, 0.05)
        self.stage.stream.states = self.states
        config = self.stage.config(ack_wait=SECOND, max_deliver=self.LIMIT, max_ack_pending=5)
        self.stage.startLater(config)
        self.stage.advance(0.1)
        (self.consumer,) = self.stage.stream.consumers
        self.inbox = self.stage.inbox()
        self.answers = self.stage.inbox(subject=b"_ACK.*")
        self.deliveries: dict[int, int] = {}
        self.last: dict[int, Message] = {}
        self.acked: set[int] = set()
        self.removed: set[int] = set()
        self.published = 0

    def look(self) -> None:
        """Note what was delivered and answered."""
        for message in self.inbox.take():
            if message.payload:
                sequence = numbers(message)[1]
                assert sequence not in self.acked
                self.deliveries[sequence] = self.deliveries.get(sequence, 0) + 1
                self.last[sequence] = message
        self.acked.update(int(answer.subject[5:]) for answer in self.answers.take())

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        """Store messages."""
        self.stage.publish(count)
        self.published += count
        self.look()

    @rule(count=st.integers(1, 6))
    def pull(self, count: int) -> None:
        """Ask for messages."""
        self.stage.pull(self.inbox, b'{"batch":%d,"no_wait":true}' % count)
        self.look()

    def acknowledge(self, sequence: int) -> None:
        """Acknowledge a message, and ask for an answer."""
        self.stage.ack(self.last[sequence], b"", b"_ACK.%d" % sequence)

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """Acknowledge a message."""
        self.acknowledge(data.draw(st.sampled_from(sorted(self.last))))
        self.look()

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def nak(self, data: st.DataObject) -> None:
        """Ask for a message again."""
        sequence = data.draw(st.sampled_from(sorted(self.last)))
        self.stage.ack(self.last[sequence], b"-NAK")
        self.look()

    @rule(seconds=st.sampled_from([0.03, 0.1, 0.6, 1.2]))
    def passTime(self, seconds: float) -> None:
        """Let time pass."""
        self.stage.advance(seconds)
        self.look()

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Remove a message from the stream."""
        sequence = data.draw(st.integers(1, self.published))
        self.stage.stream.delete(sequence)
        self.removed.add(sequence)
        self.look()

    @rule()
    def crash(self) -> None:
        """Crash, and start again."""
        self.states.crash()
        self.look()
        self.consumer = self.stage.restart(self.consumer)
        self.look()

    @invariant()
    def notTooOften(self) -> None:
        """No message is delivered more often than it may be."""
        assert max(self.deliveries.values(), default=0) <= self.LIMIT

    @invariant()
    def floorIsBelow(self) -> None:
        """The floor is below every pending message, and not above the stream."""
        info = self.consumer.info()
        floor = info["ack_floor"]["stream_seq"]
        assert floor <= self.published
        assert floor < min(self.consumer.core.pending.entries, default=floor + 1)
        assert info["ack_floor"]["consumer_seq"] <= info["delivered"]["consumer_seq"]

    def teardown(self) -> None:
        """In the end everything was delivered that is still there."""
        for _ in range(3 * self.LIMIT * (self.published + 1)):
            self.pull(6)
            self.passTime(0.1)
            for sequence in sorted(set(self.last) - self.acked):
                self.acknowledge(sequence)
            self.passTime(1.2)
            if set(self.deliveries) | self.removed >= set(range(1, self.published + 1)):
                break
        assert set(self.deliveries) | self.removed == set(range(1, self.published + 1))


TestCrashMachine = CrashMachine.TestCase


def test_orderedConsumer(stage: ConsumerStage) -> None:
    """An ordered consumer numbers its deliveries without gaps and keeps no state."""
    mixed(stage)
    consumer = stage.consumer(
        name="n_1",
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=2,
        ack_policy=AckPolicy.NONE,
        inactive_threshold=300 * SECOND,
        num_replicas=1,
        mem_storage=True,
    )
    inbox = stage.inbox()
    stage.pull(inbox, b"9", name="n_1")
    assert [numbers(message)[1:] for message in inbox.take()] == [
        (n, n - 1, 6 - n) for n in range(2, 7)
    ]
    assert consumer.info()["ack_floor"]["stream_seq"] == 6
    assert stage.stream.states.load(stateKey("S", "n_1")).result == {}
