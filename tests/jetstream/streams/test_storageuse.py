"""Tests for L{natsbroker.jetstream.streams.storageuse}."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.accountcore import FRESH
from natsbroker.jetstream.model.limits import AccountAllowance, ConfiguredLimits, JetStreamLimits
from natsbroker.jetstream.model.streamconfig import StorageType
from natsbroker.jetstream.streams.storageuse import StorageUse
from natsbroker.wire.values import Kind
from tests.jetstream.support import Stage

SERVER, ACCOUNT = 10023, 10002


class LimitedStage(Stage):
    """
    An account with limits of its own and of the server.
    """

    def __init__(self, server: int = -1, account: int = -1) -> None:
        super().__init__()
        self.jetstream = JetStreamAccount(
            "A",
            self.account.busFor(Kind.INTERNAL),
            replace(self.server, limits=ConfiguredLimits(max_storage=server)),
            AccountAllowance(JetStreamLimits(max_storage=account)),
        )

    def outcome(self, subject: bytes, size: int = 969) -> int:
        """
        Publish a message with 31 bytes of overhead; return its sequence, or the negative number of
        its error.
        """
        answer = self.publish(subject, b"x" * size)
        if b'"error"' in answer:
            return -self.errorOf(answer)[0]
        return int(answer.rpartition(b":")[2].rstrip(b"}"))


@pytest.mark.parametrize(
    ("server", "account", "outcomes"),
    [
        (-1, -1, [1, 2, 3, 4]),
        (2500, -1, [1, 2, 3, -SERVER]),
        (-1, 2500, [1, 2, -ACCOUNT, -ACCOUNT]),
        (-1, 2000, [1, 2, -ACCOUNT, -ACCOUNT]),
        (1500, 2500, [1, 2, -SERVER, -SERVER]),
        (-1, 0, [-ACCOUNT] * 4),
    ],
)
def test_bounds(server: int, account: int, outcomes: list[int]) -> None:
    """The account's limit is never exceeded; the server's limit may be exceeded by one message."""
    stage = LimitedStage(server, account)
    stage.stream(subjects=("s",))
    assert [stage.outcome(b"s") for _ in range(4)] == outcomes


def test_together() -> None:
    """The streams of an account share its limit, separately for files and memory."""
    stage = LimitedStage(account=2500)
    stage.stream(name="A", subjects=("a",))
    stage.stream(name="B", subjects=("b",))
    stage.stream(name="M", subjects=("m",), storage=StorageType.MEMORY)
    assert [stage.outcome(subject) for subject in (b"a", b"b", b"a", b"b", b"m")] == [
        1,
        1,
        -ACCOUNT,
        -ACCOUNT,
        1,
    ]


def test_oneTurn() -> None:
    """Messages of one turn count for the limits before they are stored."""
    stage = LimitedStage(account=2500)
    stream = stage.stream(subjects=("s",))
    for _ in range(5):
        stage.send(b"s", b"x" * 969)
    stage.settle()
    assert stream.messages == 2


def test_freed() -> None:
    """A removal makes room."""
    stage = LimitedStage(account=2000)
    stream = stage.stream(subjects=("s",))
    assert [stage.outcome(b"s") for _ in range(3)] == [1, 2, -ACCOUNT]
    stage.wait(stream.purge())
    assert stage.outcome(b"s") == 3


def test_changed() -> None:
    """Changed limits apply at once, also to existing streams."""
    stage = LimitedStage()
    stage.stream(subjects=("s",))
    assert stage.outcome(b"s") == 1
    stage.jetstream.allow(AccountAllowance(JetStreamLimits(max_storage=1000)))
    assert stage.outcome(b"s") == -ACCOUNT
    stage.jetstream.allow(AccountAllowance())
    assert stage.outcome(b"s") == 2


def test_near(monkeypatch: Any) -> None:
    """
    Far from the limits, messages are not checked one by one, and usage is summed only now and then.
    """
    stage = LimitedStage(account=100 << 20)
    stream = stage.stream(subjects=("s",))
    use = StorageUse(stream)
    assert not use.isNear()
    use.applyConfig()
    assert not use.isNear()
    monkeypatch.setattr(stage.jetstream, "usage", lambda storage: 90 << 20)
    stage.clock.advance(FRESH / 1e9)
    assert not use.isNear()
    stage.clock.advance(0.05)
    assert use.isNear()


def test_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Streams of an account share one sum of usage, which is used for seconds far from the limits.
    """
    stage = LimitedStage(server=1 << 40)
    uses = [StorageUse(stage.stream(name=name, subjects=(name,))) for name in ("a", "b")]
    looks: list[StorageType] = []

    def usage(storage: StorageType) -> int:
        looks.append(storage)
        return 0

    monkeypatch.setattr(stage.jetstream, "usage", usage)
    for use in uses:
        use.applyConfig()
    for _ in range(5):
        assert not any(use.isNear() for use in uses)
        stage.clock.advance(1.9)
    assert len(looks) == 1
    stage.clock.advance(1.0)
    assert not uses[0].isNear() and len(looks) == 2


def test_serverLimitsChange() -> None:
    """Changed limits of the server apply at once."""
    stage = LimitedStage()
    stage.stream(subjects=("s",))
    assert stage.outcome(b"s") == 1
    stage.jetstream.configure(ConfiguredLimits(max_storage=500))
    assert stage.outcome(b"s") == -SERVER
    stage.jetstream.configure(ConfiguredLimits())
    assert stage.outcome(b"s") == 2


def batched(stage: LimitedStage, number: int, commit: str = "") -> bytes:
    """Send a message of an atomic batch, with 1057 bytes or more."""
    lines = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": str(number)}
    if commit:
        lines["Nats_Batch_Commit"] = commit
    return stage.publish(b"s.a", b"x" * 950, **lines)


@pytest.mark.parametrize(("server", "account", "error"), [(2500, -1, SERVER), (-1, 2500, ACCOUNT)])
def test_atomicBatches(server: int, account: int, error: int) -> None:
    """An atomic batch that exceeds a limit is not stored, and a full stream begins none."""
    stage = LimitedStage(server, account)
    stream = stage.stream(allow_atomic=True)
    assert [batched(stage, number) for number in (1, 2)] == [b"", b""]
    assert stage.errorOf(batched(stage, 3, "1"))[0] == error
    assert stream.messages == 0
    assert batched(stage, 1) == b""
    assert b'"count":2' in batched(stage, 2, "1")
    stage.publish(b"s.a", b"x" * 900)
    assert stage.errorOf(batched(stage, 1))[0] == error


def test_fastBatches() -> None:
    """The messages of a fast batch are refused when there is no room for them."""
    stage = LimitedStage(account=2500)
    stream = stage.stream(allow_batched=True)
    inbox = stage.inbox(b"_INBOX.>")
    for number, operation in ((1, 0), (2, 1), (3, 1)):
        stage.send(b"s.a", b"x" * 969, b"_INBOX.b.9.fail.%d.%d.$FI" % (number, operation))
        stage.settle()
    assert stage.errorOf(inbox.payloads[-1])[0] == ACCOUNT
    assert stream.messages == 2
