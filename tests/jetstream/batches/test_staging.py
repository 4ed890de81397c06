"""
The checks of messages in batches.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.batches.staging import StagedChecks
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.streams.publishanswers import Arrived
from natsbroker.jetstream.streams.publishchecks import PublishChecks, StoredBefore
from tests.jetstream.support import Stage


def _checks(stage: Stage) -> PublishChecks:
    stream = stage.stream()
    duplicates, subjects = stream.publisher.duplicates, stream.publisher.subjects
    duplicates.add(b"old", 3, stage.now())
    return PublishChecks(stream, duplicates, subjects, lambda: (0, 0))


def _message(**headers: str) -> Arrived:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    block = "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()
    return Arrived(b"s.a", b"", block, b"")


def test_duplicates() -> None:
    """
    A duplicate in an atomic batch is an error; in a fast batch the check returns the sequence of
    the original.
    """
    checks = _checks(Stage())
    messages = [_message(Nats_Msg_Id="old")]
    with pytest.raises(JetStreamError, match="duplicate"):
        StagedChecks(checks, isAtomic=True).checkAll(messages, lambda subject: subject, 1)
    with pytest.raises(StoredBefore) as caught:
        StagedChecks(checks, isAtomic=False).checkAll(messages, lambda subject: subject, 1)
    assert caught.value.sequence == 3


def test_lastId() -> None:
    """Nats-Expected-Last-Msg-Id is refused in atomic batches, and accepted in fast ones."""
    checks = _checks(Stage())
    messages = [_message(Nats_Expected_Last_Msg_Id="x")]
    with pytest.raises(JetStreamError, match="unsupported header"):
        StagedChecks(checks, isAtomic=True).checkAll(messages, lambda subject: subject, 1)
    checked = StagedChecks(checks, isAtomic=False).checkAll(messages, lambda subject: subject, 1)
    assert len(checked) == 1
