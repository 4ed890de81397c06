"""
Consumers that are not used.
"""

from __future__ import annotations

import pytest

from tests.jetstream.consumers.support import SECOND, ConsumerStage


@pytest.fixture
def stage() -> ConsumerStage:
    """A stage with an empty stream."""
    return ConsumerStage()


def test_pull(stage: ConsumerStage) -> None:
    """A pull consumer ends some time after its last request."""
    stage.consumer(inactive_threshold=2 * SECOND)
    inbox = stage.inbox()
    stage.advance(1.5)
    stage.pull(inbox, b'{"batch":1,"expires":100000000}')
    stage.advance(1.9)
    assert stage.stream.ended == []
    stage.advance(0.2)
    assert stage.stream.ended == stage.stream.consumers


def test_infoKeepsNothing(stage: ConsumerStage) -> None:
    """Reading its info does not keep a consumer from ending."""
    consumer = stage.consumer(inactive_threshold=2 * SECOND)
    for _ in range(3):
        stage.advance(0.7)
        consumer.info()
    assert stage.stream.ended == [consumer]


def test_waitingRequestKeeps(stage: ConsumerStage) -> None:
    """A waiting pull request keeps its consumer from ending, until the client is gone."""
    consumer = stage.consumer(inactive_threshold=SECOND)
    inbox = stage.inbox()
    stage.pull(inbox)
    stage.advance(5)
    assert stage.stream.ended == []
    inbox.close()
    stage.advance(1.1)
    assert stage.stream.ended == [consumer]


def test_workInProgressKeeps(stage: ConsumerStage) -> None:
    """A pending message keeps its consumer from ending during ack_wait."""
    stage.publish(1)
    consumer = stage.consumer(inactive_threshold=SECOND, ack_wait=5 * SECOND)
    stage.pull(stage.inbox())
    stage.advance(5.9)
    assert stage.stream.ended == []
    stage.advance(0.2)
    assert stage.stream.ended == [consumer]


@pytest.mark.parametrize("durable", ["", "c"])
@pytest.mark.parametrize("answer", [b"+ACK", b"+TERM"])
def test_workDone(stage: ConsumerStage, answer: bytes, durable: str) -> None:
    """When the last pending message is settled, the inactive threshold begins."""
    stage.publish(2)
    consumer = stage.consumer(
        inactive_threshold=SECOND, ack_wait=600 * SECOND, durable_name=durable
    )
    inbox = stage.inbox()
    stage.pull(inbox, b"2")
    first, second = inbox.take()
    stage.advance(5)
    stage.ack(first, answer)
    stage.advance(5)
    assert stage.stream.ended == []
    stage.ack(second, answer)
    stage.advance(0.9)
    assert stage.stream.ended == []
    stage.advance(0.2)
    assert stage.stream.ended == [consumer]


def test_workGone(stage: ConsumerStage) -> None:
    """A pending message that is removed from the stream does not keep its consumer from ending."""
    stage.publish(1)
    consumer = stage.consumer(inactive_threshold=SECOND, ack_wait=600 * SECOND)
    stage.pull(stage.inbox())
    stage.advance(5)
    consumer.removed([1], 2)
    stage.advance(0.1)
    assert stage.stream.ended == [consumer]


def test_push(stage: ConsumerStage) -> None:
    """A push consumer ends some time after its interest is lost."""
    inbox = stage.inbox(subject=b"d")
    consumer = stage.consumer(deliver_subject="d", inactive_threshold=SECOND)
    stage.advance(5)
    assert stage.stream.ended == []
    inbox.close()
    stage.fakeAccount.interest(b"d", False)
    stage.advance(0.9)
    stage.fakeAccount.interest(b"d", True)
    stage.advance(5)
    stage.fakeAccount.interest(b"d", False)
    stage.advance(0.9)
    assert stage.stream.ended == []
    stage.advance(0.2)
    assert stage.stream.ended == [consumer]


def test_pushWithoutInterest(stage: ConsumerStage) -> None:
    """A push consumer that never has interest ends, too."""
    consumer = stage.consumer(deliver_subject="d", inactive_threshold=SECOND)
    stage.advance(1.1)
    assert stage.stream.ended == [consumer]
