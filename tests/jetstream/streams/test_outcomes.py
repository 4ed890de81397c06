"""
Messages that a store kept, though it failed before it said so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.storage.memory import MemoryLog
from tests.jetstream.streams.test_recovery import restarted
from tests.jetstream.streams.test_upkeep import acknowledge, consume, failing, staged, wait

INBOX = b"_INBOX.push"


@contextmanager
def unanswered() -> Iterator[None]:
    """
    A store that keeps one batch of messages but reports a failure, and then fails until the end.
    """
    append, isAway = MemoryLog.append, False

    def once(log: MemoryLog, batch: Any) -> Any:
        nonlocal isAway
        if not isAway:
            isAway = True
            append(log, batch)
        return fail(StoreFailed("the database is away"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryLog, "append", once)
        yield


class TestUnknownOutcome:
    """A stream with a message, whose store fails with the next one."""

    def setup_method(self) -> None:
        self.stage = staged("c", allow_msg_ttl=True, allow_rollup_hdrs=True)
        self.stream = self.stage.jetstream.streams["S"]
        assert "error" not in self.publish(b"first")

    def publish(self, body: bytes, **headers: str) -> dict[str, Any]:
        headers = {"Nats-Msg-Id": body.decode(), **headers}
        answer: dict[str, Any] = json.loads(self.stage.publish(b"s.a", body, **headers))
        return answer

    def test_duplicates(self) -> None:
        """A message that the store kept although it reported a failure is not stored again."""
        with unanswered():
            assert "error" in self.publish(b"second")
            assert "error" in self.publish(b"second")
        assert "error" in self.publish(b"second")
        wait(self.stage)
        assert self.publish(b"second") == {"stream": "S", "seq": 2, "duplicate": True}
        assert self.publish(b"first") == {"stream": "S", "seq": 1, "duplicate": True}
        assert self.publish(b"third") == {"stream": "S", "seq": 3}

    def test_notStored(self) -> None:
        """A message that the store did not keep is stored when it is published again."""
        with failing((MemoryLog, "append")):
            assert "error" in self.publish(b"second")
        wait(self.stage)
        last = {"Nats-Expected-Last-Msg-Id": "first"}
        assert self.publish(b"second", **last) == {"stream": "S", "seq": 2}

    def test_consumers(self) -> None:
        """
        Consumers get a message that the store kept despite a failure, in order before later ones.
        """
        pushed = self.stage.inbox(INBOX)
        consume(self.stage, "p", deliver_subject=INBOX.decode(), ack_policy="none")
        consume(self.stage, "f", filter_subject="s.a")
        assert acknowledge(self.stage) == [b"first"]
        with unanswered():
            assert "error" in self.publish(b"second")
        assert json.loads(self.stage.publish(b"s.a", b"third")) == {"stream": "S", "seq": 3}
        wait(self.stage)
        expected = [b"first", b"second", b"third"]
        assert pushed.payloads == expected
        assert acknowledge(self.stage) == expected[1:]
        assert acknowledge(self.stage, "f") == expected
        consume(self.stage, "later")
        assert acknowledge(self.stage, "later") == expected

    def test_laterOnly(self) -> None:
        """
        Consumers get a message that the store kept despite a failure, also if no other message
        follows.
        """
        assert acknowledge(self.stage) == [b"first"]
        with unanswered():
            assert "error" in self.publish(b"second")
        wait(self.stage)
        assert acknowledge(self.stage) == [b"second"]

    def test_twice(self) -> None:
        """Messages that the store kept despite two failures are delivered once each."""
        pushed = self.stage.inbox(INBOX)
        consume(self.stage, "p", deliver_subject=INBOX.decode(), ack_policy="none")
        for body in (b"second", b"third"):
            with unanswered():
                assert "error" in json.loads(self.stage.publish(b"s.a", body))
        wait(self.stage)
        assert pushed.payloads == [b"first", b"second", b"third"]

    def test_timeToLive(self) -> None:
        """A message with an unknown outcome ends when its time to live is over."""
        with unanswered():
            assert "error" in self.publish(b"second", **{"Nats-TTL": "90"})
        wait(self.stage)
        assert self.stream.messages == 2
        for _ in range(60):
            self.stage.clock.advance(1)
            self.stage.settle()
        assert self.stream.messages == 1

    def test_rollup(self) -> None:
        """A rollup that the store kept despite a failure removes the messages that it replaces."""
        with unanswered():
            assert "error" in self.publish(b"second", **{"Nats-Rollup": "sub"})
        wait(self.stage)
        assert (self.stream.messages, self.stream.first) == (1, 2)

    def test_rollupBeforeStart(self) -> None:
        """A rollup whose removals were interrupted by a kill removes them at the next start."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stream, "rollUp", lambda *arguments: Deferred())
            self.stage.send(b"s.a", b"second", b"_INBOX.1", **{"Nats-Rollup": "sub"})
            self.stage.settle()
            assert self.stream.messages == 2
        restarted(self.stage)
        stream = self.stage.jetstream.streams["S"]
        assert (stream.messages, stream.first) == (1, 2)
