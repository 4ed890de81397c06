"""
The checks of messages in batches.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.batches.staging import BatchChecks, StoredBefore
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.schedules.checks import ScheduleChecks
from natsbroker.jetstream.streams.counters import CounterTotals
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import PublishChecks
from tests.jetstream.support import Stage


def _checks(stage: Stage) -> BatchChecks:
    stream = stage.stream()
    duplicates, subjects = stream.publisher.duplicates, stream.publisher.subjects
    duplicates.add(b"old", 3, stage.now())
    checks = PublishChecks(stream, duplicates, subjects)
    return BatchChecks(
        stream, checks, ScheduleChecks(stream), duplicates, CounterTotals(), lambda: (0, 0)
    )


def _message(**headers: str) -> Arrived:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    block = "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()
    return Arrived(b"s.a", b"", block, b"")


def test_duplicates() -> None:
    """In an atomic batch a duplicate is an error, in another one its sequence is known."""
    checks = _checks(Stage())
    messages = [_message(Nats_Msg_Id="old")]
    with pytest.raises(JetStreamError, match="duplicate"):
        checks.begin(True).checkAll(messages, lambda subject: subject, 1)
    with pytest.raises(StoredBefore) as caught:
        checks.begin(False).checkAll(messages, lambda subject: subject, 1)
    assert caught.value.sequence == 3


def test_lastId() -> None:
    """Only atomic batches refuse the last id that a publisher expects."""
    checks = _checks(Stage())
    messages = [_message(Nats_Expected_Last_Msg_Id="x")]
    with pytest.raises(JetStreamError, match="unsupported header"):
        checks.begin(True).checkAll(messages, lambda subject: subject, 1)
    assert len(checks.begin(False).checkAll(messages, lambda subject: subject, 1)) == 1
