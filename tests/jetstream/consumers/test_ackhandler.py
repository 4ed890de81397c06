"""
The effects of acknowledgements.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model.consumerconfig import AckPolicy
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from natsbroker.wire.values import AckRun, Message
from tests.jetstream.consumers.support import SECOND, ConsumerStage, Inbox, numbers


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def delivered(stage: ConsumerStage, count: int, **config: object) -> tuple[Inbox, list[Message]]:
    """
    A consumer that has delivered some messages.
    """
    stage.publish(count)
    stage.consumer(**config)
    inbox = stage.inbox()
    stage.pull(inbox, b"%d" % count)
    messages = inbox.take()
    assert len(messages) == count
    return inbox, messages


def positions(stage: ConsumerStage) -> tuple[int, int, int]:
    """The floor as consumer and stream sequence, and the number of pending acknowledgements."""
    info = stage.stream.consumers[0].info()
    floor = info["ack_floor"]
    return floor["consumer_seq"], floor["stream_seq"], info["num_ack_pending"]


class TestExplicit:
    """Each message has its own acknowledgement."""

    @pytest.mark.parametrize("payload", [b"", b"+ACK", b"+OK"])
    def test_ack(self, stage: ConsumerStage, payload: bytes) -> None:
        """An acknowledgement settles one message."""
        _, messages = delivered(stage, 3)
        stage.ack(messages[1], payload)
        assert positions(stage) == (0, 0, 2)
        stage.ack(messages[0], payload)
        assert positions(stage) == (2, 2, 1)

    def test_answeredWhenDurable(self, stage: ConsumerStage) -> None:
        """An acknowledgement with a reply subject is answered, also the second one."""
        inbox, messages = delivered(stage, 1)
        before = stage.stateOf()
        stage.ack(messages[0], b"+ACK", inbox.subject)
        assert inbox.texts() == [""]
        assert stage.stateOf() != before
        stage.ack(messages[0], b"+ACK", inbox.subject)
        assert inbox.texts() == [""]

    @pytest.mark.parametrize("payload", [b"", b"+ACK", b"+TERM"])
    def test_notDelivered(self, stage: ConsumerStage, payload: bytes) -> None:
        """An acknowledgement of an undelivered message has no effect and no answer."""
        stage.publish(2)
        stage.consumer()
        inbox = stage.inbox()
        stage.send(b"$JS.ACK.S.C.1.2.2.1.0", payload, inbox.subject)
        stage.send(b"$JS.ACK.S.C.a.b.c.d.e", payload, inbox.subject)
        assert inbox.texts() == []
        stage.pull(inbox, b"2")
        assert inbox.texts() == ["1", "2"]

    @pytest.mark.parametrize("payload", [b" +ACK", b"zork"])
    def test_unknownPayload(self, stage: ConsumerStage, payload: bytes) -> None:
        """An acknowledgement with an unknown payload is answered, and changes nothing."""
        inbox, messages = delivered(stage, 1)
        stage.ack(messages[0], payload, inbox.subject)
        assert inbox.texts() == [""]
        assert positions(stage) == (0, 0, 1)

    def test_roomForMore(self, stage: ConsumerStage) -> None:
        """At max_ack_pending, new messages wait until earlier ones are acknowledged."""
        stage.publish(4)
        stage.consumer(max_ack_pending=2)
        inbox = stage.inbox()
        stage.pull(inbox, b"9")
        first, second = inbox.take()
        stage.ack(second)
        stage.ack(first)
        assert inbox.texts() == ["3", "4"]

    def test_settlesInStream(self) -> None:
        """A consumer of a work queue reports each settled message to its stream once."""
        stage = ConsumerStage(RetentionPolicy.WORKQUEUE)
        _, messages = delivered(stage, 2)
        stage.ack(messages[1])
        stage.ack(messages[1])
        stage.ack(messages[0], b"+TERM")
        assert stage.stream.settledSequences == [2, 1]

    def test_groupedWithState(self) -> None:
        """
        When an acknowledgement must be answered, the removal from the work queue and the consumer's
        state are written as one group.
        """
        stage = ConsumerStage(RetentionPolicy.WORKQUEUE)
        inbox, messages = delivered(stage, 2)
        stage.ack(messages[0])
        before = stage.stateOf()
        stage.ack(messages[1], b"+ACK", inbox.subject)
        assert stage.stream.settledSequences == [1, 2]
        assert [count for count in stage.stream.groups if count] == [1]
        assert stage.stateOf() != before

    @pytest.mark.parametrize("isRun", [False, True])
    def test_behindFloor(self, isRun: bool) -> None:
        """
        A consumer of a work queue reports acknowledgements at or below its floor to the stream.
        """
        stage = ConsumerStage(RetentionPolicy.WORKQUEUE)
        _, messages = delivered(stage, 3)
        for message in messages[:2]:
            stage.ack(message)
        stage.ack(messages[0])
        if isRun:
            run = AckRun([2, 3], [2, 3], [1, 1], [b"", b""])
            stage.stream.consumers[0].deliverMany([(run, 0)])
        else:
            stage.ack(messages[1])
        assert stage.stream.lateSequences == [1, 2]

    def test_lastActive(self, stage: ConsumerStage) -> None:
        """An acknowledgement updates the floor's C{last_active} even if the floor does not move."""
        _, messages = delivered(stage, 2)
        info = stage.stream.consumers[0].info
        assert "last_active" not in info()["ack_floor"]
        stage.ack(messages[1])
        assert info()["ack_floor"]["stream_seq"] == 0
        assert "last_active" in info()["ack_floor"]


class TestAll:
    """An acknowledgement settles the messages before it, too."""

    @pytest.mark.parametrize("policy", [AckPolicy.ALL, AckPolicy.FLOW_CONTROL])
    def test_through(self, policy: AckPolicy) -> None:
        """All messages up to the acknowledged one are settled."""
        stage = ConsumerStage(RetentionPolicy.INTEREST)
        inbox, messages = delivered(stage, 5, ack_policy=policy)
        stage.ack(messages[2], b"", inbox.subject)
        assert positions(stage) == (3, 3, 2)
        assert stage.stream.settledSequences == [1, 2, 3]
        stage.ack(messages[0], b"", inbox.subject)
        assert positions(stage) == (3, 3, 2)
        assert inbox.texts() == ["", ""]

    def test_forgedSequence(self, stage: ConsumerStage) -> None:
        """A consumer sequence that was never delivered does not become the floor."""
        delivered(stage, 2, ack_policy=AckPolicy.ALL)
        stage.send(b"$JS.ACK.S.C.1.1.999.1.0")
        assert positions(stage) == (2, 1, 1)


class TestNone:
    """The acknowledgement policy C{none}."""

    def test_nothingPending(self, stage: ConsumerStage) -> None:
        """Delivered messages count as settled, and acknowledgements have no receiver."""
        _, messages = delivered(stage, 2, ack_policy=AckPolicy.NONE)
        assert positions(stage) == (2, 2, 0)
        assert not stage.clients.hasInterest(messages[0].reply)

    def test_settlesAtDelivery(self) -> None:
        """Messages of an interest stream count as settled as soon as they are delivered."""
        stage = ConsumerStage(RetentionPolicy.INTEREST)
        delivered(stage, 3, ack_policy=AckPolicy.NONE)
        assert stage.stream.settledSequences == [1, 2, 3]


class TestNak:
    """Negative acknowledgements."""

    @pytest.mark.parametrize("payload", [b"-NAK", b"-NAK zork"])
    def test_atOnce(self, stage: ConsumerStage, payload: bytes) -> None:
        """The message is delivered again at once, before new ones."""
        inbox, messages = delivered(stage, 2)
        stage.ack(messages[0], payload, inbox.subject)
        assert inbox.texts() == [""]
        stage.publish(1)
        stage.pull(inbox, b"2")
        again, new = inbox.take()
        assert numbers(again) == (2, 1, 3, 1)
        assert numbers(new) == (1, 3, 4, 0)
        assert stage.advisories == ["nak"]

    @pytest.mark.parametrize("payload", [b"-NAK 500ms", b'-NAK {"delay": 500000000}'])
    def test_delayed(self, stage: ConsumerStage, payload: bytes) -> None:
        """A negative acknowledgement with a delay causes a redelivery after the delay."""
        inbox, messages = delivered(stage, 1)
        stage.ack(messages[0], payload)
        stage.pull(inbox)
        stage.advance(0.49)
        assert inbox.texts() == []
        stage.advance(0.02)
        assert inbox.texts() == ["1"]

    def test_longerThanWait(self, stage: ConsumerStage) -> None:
        """The delay of a negative acknowledgement may be longer than ack_wait."""
        inbox, messages = delivered(stage, 1, ack_wait=SECOND)
        stage.ack(messages[0], b"-NAK 5s")
        stage.pull(inbox)
        stage.advance(4.9)
        assert inbox.texts() == []
        stage.advance(0.2)
        assert inbox.texts() == ["1"]

    def test_settled(self, stage: ConsumerStage) -> None:
        """A message that is settled is not delivered again."""
        inbox, messages = delivered(stage, 2)
        stage.ack(messages[1])
        stage.ack(messages[1], b"-NAK")
        stage.pull(inbox)
        assert inbox.texts() == []
        assert stage.advisories == []

    def test_inTheirOrder(self, stage: ConsumerStage) -> None:
        """Several messages are delivered again in the order of the requests for it."""
        inbox, messages = delivered(stage, 3)
        for place in (2, 0):
            stage.ack(messages[place], b"-NAK")
        stage.pull(inbox, b"5")
        assert inbox.texts() == ["3", "1"]

    def test_ackWhileQueued(self, stage: ConsumerStage) -> None:
        """An acknowledgement takes a message out of the redelivery queue."""
        inbox, messages = delivered(stage, 2)
        stage.ack(messages[0], b"-NAK")
        stage.ack(messages[0])
        stage.pull(inbox)
        assert inbox.texts() == []


class TestOthers:
    """Progress, next and termination."""

    def test_progress(self, stage: ConsumerStage) -> None:
        """A message in progress has its wait restarted."""
        inbox, messages = delivered(stage, 1, ack_wait=SECOND)
        stage.pull(inbox)
        stage.advance(0.9)
        stage.ack(messages[0], b"+WPI", inbox.subject)
        assert inbox.texts() == [""]
        stage.advance(0.9)
        assert inbox.texts() == []
        stage.advance(0.2)
        assert inbox.texts() == ["1"]

    def test_progressOfQueued(self, stage: ConsumerStage) -> None:
        """Progress on a message that is queued for redelivery does not stop the redelivery."""
        inbox, messages = delivered(stage, 1)
        stage.ack(messages[0], b"-NAK")
        stage.ack(messages[0], b"+WPI")
        stage.pull(inbox)
        assert inbox.texts() == ["1"]

    def test_next(self, stage: ConsumerStage) -> None:
        """C{+NXT} acknowledges the message, and pulls further ones to the reply subject."""
        stage.publish(3)
        stage.consumer()
        inbox, other = stage.inbox(), stage.inbox()
        stage.pull(inbox)
        (message,) = inbox.take()
        stage.ack(message, b'+NXT {"batch":2}', other.subject)
        assert other.texts() == ["2", "3"]
        assert positions(stage) == (1, 1, 2)

    def test_terminate(self, stage: ConsumerStage) -> None:
        """A message that is terminated is settled, with an advisory."""
        inbox, messages = delivered(stage, 1)
        stage.ack(messages[0], b"+TERM  because ", inbox.subject)
        assert inbox.texts() == [""]
        assert positions(stage) == (1, 1, 0)
        assert stage.fakeAccount.advisories == [
            (
                "terminated",
                {
                    "stream": "S",
                    "consumer": "C",
                    "consumer_seq": 1,
                    "stream_seq": 1,
                    "deliveries": 1,
                    "reason": "because",
                },
            )
        ]


class TestSampling:
    """Metrics of acknowledgements."""

    @pytest.mark.parametrize("frequency", ["100", "100%"])
    def test_all(self, stage: ConsumerStage, frequency: str) -> None:
        """Each acknowledgement is measured."""
        _, messages = delivered(stage, 2, sample_freq=frequency)
        stage.advance(1.5)
        stage.ack(messages[1])
        stage.ack(messages[1])
        assert stage.fakeAccount.advisories == [
            (
                "consumer_ack",
                {
                    "stream": "S",
                    "consumer": "C",
                    "consumer_seq": 2,
                    "stream_seq": 2,
                    "ack_time": 1_500_000_000,
                    "deliveries": 1,
                },
            )
        ]

    def test_some(self, stage: ConsumerStage) -> None:
        """With a smaller frequency a part of them is."""
        _, messages = delivered(stage, 200, sample_freq="30%")
        for message in messages:
            stage.ack(message)
        assert 30 < len(stage.advisories) < 100

    def test_noneByDefault(self, stage: ConsumerStage) -> None:
        """Without a frequency no message is sampled."""
        _, messages = delivered(stage, 1)
        stage.ack(messages[0])
        assert stage.advisories == []


RUNS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6),
        st.sampled_from(["", "nak", "publish", "expire"]),
    ),
    max_size=4,
)


def settledBy(
    isTogether: bool, runs: list[tuple[list[tuple[int, bool]], str]], config: dict[str, Any]
) -> list[object]:
    """The effects of acknowledgements that arrive in runs or one by one."""
    stage = ConsumerStage(retention=RetentionPolicy.INTEREST)
    inbox, messages = delivered(stage, 6, ack_wait=SECOND, **config)
    consumer = stage.stream.consumers[0]
    shown: list[object] = []
    for acks, event in runs:
        if event == "nak":
            stage.ack(messages[0], b"-NAK")
        elif event == "publish":
            stage.publish(2)
            stage.pull(inbox, b"2")
        elif event == "expire":
            stage.advance(2)
            stage.pull(inbox, b"1")
        sequences = [sequence for sequence, _ in acks]
        replies = [inbox.subject if isAnswered else b"" for _, isAnswered in acks]
        if isTogether:
            run = AckRun(sequences, sequences, [1] * len(acks), replies)
            consumer.deliverMany([(run, 0)])
        else:
            subjects = [b"$JS.ACK.S.C.1.%d.%d.1.0" % (sequence, sequence) for sequence in sequences]
            consumer.deliverMany(
                [
                    (Message(subject, b"", reply), 0)
                    for subject, reply in zip(subjects, replies, strict=True)
                ]
            )
        stage.settle()
        got = [(message.subject, message.reply, message.body) for message in inbox.take()]
        shown += [got, consumer.info(), list(stage.stream.settledSequences), stage.stateOf()]
    return [*shown, stage.fakeAccount.advisories]


@given(
    RUNS,
    st.sampled_from(
        [{}, {"ack_policy": AckPolicy.ALL}, {"sample_freq": "100"}, {"max_deliver": 2}]
    ),
)
def test_runs(runs: list[tuple[list[tuple[int, bool]], str]], config: dict[str, Any]) -> None:
    """Acknowledgements in a run have the same effects as one by one."""
    assert settledBy(True, runs, config) == settledBy(False, runs, config)
