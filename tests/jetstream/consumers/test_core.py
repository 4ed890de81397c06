"""
The common state of a consumer's parts.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from natsbroker.jetstream.consumers.core import (
    UNLIMITED_WAIT,
    ConsumerCore,
    filtersOf,
    randomToken,
)
from natsbroker.jetstream.consumers.state import ConsumerState
from natsbroker.jetstream.model.consumerconfig import AckPolicy, DeliverPolicy
from natsbroker.jetstream.model.streamconfig import RetentionPolicy
from tests.counting import callsOf
from tests.jetstream.consumers.support import SECOND, ConsumerStage


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def test_filters(stage: ConsumerStage) -> None:
    """The filters of a consumer are one, several, or none."""
    assert filtersOf(stage.config()) == ()
    assert filtersOf(stage.config(filter_subject="s.a")) == (b"s.a",)
    assert filtersOf(stage.config(filter_subjects=("s.a", "s.b"))) == (b"s.a", b"s.b")


def test_randomToken() -> None:
    """Tokens are letters and digits, and differ."""
    random = Random(1)
    tokens = {randomToken(random, 22) for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 22 and token.isalnum() for token in tokens)


def test_configuration(stage: ConsumerStage) -> None:
    """
    Limits become numbers for delivery, with 0 for unlimited. Without acknowledgements there are no
    limits of them.
    """
    core = ConsumerCore(stage.stream, "C", stage.config(max_ack_pending=-1), Random(1))
    assert (core.maxDeliver, core.maxPending, core.isReserving) == (0, 0, False)
    core.applyConfig(stage.config(max_deliver=3, ack_wait=2 * SECOND))
    assert (core.maxDeliver, core.maxPending, core.isReserving) == (3, 1000, True)
    assert core.waitAfter(7) == 2.0
    core.applyConfig(stage.config(backoff=(SECOND, 3 * SECOND)))
    assert [core.waitAfter(number) for number in range(4)] == [1.0, 3.0, 3.0, 3.0]
    core.applyConfig(stage.config(ack_policy=AckPolicy.FLOW_CONTROL, ack_wait=0))
    assert core.waitAfter(0) == UNLIMITED_WAIT
    core.applyConfig(stage.config(ack_policy=AckPolicy.NONE, max_deliver=3, max_ack_pending=5))
    assert (core.maxPending, core.isReserving, core.settlesAtDelivery) == (0, False, False)


def test_manyBackoffs(stage: ConsumerStage) -> None:
    """A new list of thousands of backoffs reschedules pending messages with little work."""
    first, second = (tuple(range(start, start + 5000)) for start in (1, 2))
    core = ConsumerCore(stage.stream, "C", stage.config(backoff=first), Random(1))
    core.pending.deliver(1, 100.0)
    assert callsOf(partial(core.applyConfig, stage.config(backoff=second))) < 500
    assert core.pending.nextDue() == pytest.approx(100 + 1e-9, abs=1e-12)


def test_settled() -> None:
    """Only streams with interest or work queue retention learn of acknowledgements."""
    for retention in RetentionPolicy:
        stage = ConsumerStage(retention)
        core = ConsumerCore(stage.stream, "C", stage.config(), Random(1))
        core.settled([1])
        core.settledLate([2])
        isRetaining = retention is not RetentionPolicy.LIMITS
        assert stage.stream.settledSequences == [1] * isRetaining
        assert stage.stream.lateSequences == [2] * isRetaining


def test_singleMessagePerSubject() -> None:
    """
    With last_per_subject on a stream that keeps one message per subject, no last messages are
    looked up.
    """
    stage = ConsumerStage(max_msgs_per_subject=1)
    stage.publish(2)
    config = stage.config(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    core = ConsumerCore(stage.stream, "C", config, Random(1))
    ensureDeferred(core.position())
    assert (core.cursor.position, core.cursor.resume) == (1, 0)


def test_lastOfSubjectReplaced() -> None:
    """
    A message that is published while the last ones are looked up is delivered once, after them.
    """
    stage = ConsumerStage()
    stage.publish(2)
    lastPerSubject = stage.stream.lastPerSubject

    def meanwhile(filters: tuple[bytes, ...]) -> Deferred[list[int]]:
        stage.publish(2)
        return lastPerSubject(filters)

    stage.stream.lastPerSubject = meanwhile  # type: ignore[method-assign]
    config = stage.config(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="s.*")
    core = ConsumerCore(stage.stream, "C", config, Random(1))
    ensureDeferred(core.position())
    core.cursor.count()
    sequences: list[int] = []
    while (record := core.cursor.peek()) is not None:
        sequences.append(record.sequence)
        core.cursor.take(record.sequence)
    assert sequences == [3, 4]


def test_stateAheadOfStream(stage: ConsumerStage) -> None:
    """A stored state that is ahead of its stream is brought back into the stream's range."""
    stage.publish(4)
    core = ConsumerCore(stage.stream, "C", stage.config(), Random(1))
    state = ConsumerState(3, 9, 8, 20, 0, 0, [4, 7], [9, 3], [0, 0])
    taken: list[bool] = []
    ensureDeferred(core.restore(state.encode())).addCallback(taken.append)
    pending = core.pending
    assert taken == [True]
    assert pending.floor <= pending.delivered == 3
    assert pending.floorStream <= pending.deliveredStream == 4
    assert len(pending) == 0
