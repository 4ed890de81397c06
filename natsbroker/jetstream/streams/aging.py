"""
The removal of messages that are older than C{max_age}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredLock, inlineCallbacks

from natsbroker.interfaces.records import Record
from natsbroker.jetstream.streams.expiry import NEVER, SECOND, parseTtl
from natsbroker.jetstream.streams.markers import MessageEnds
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.runtime.deadlines import Deadline

if TYPE_CHECKING:
    from collections.abc import Generator

RETRY = 2.0
"""Seconds until messages whose markers could not be stored are ended again."""

_PIECE = 1024


def isExempt(headers: bytes) -> bool:
    """Whether a message stays however old it is."""
    if b"Nats-TTL:" not in headers:
        return False
    return parseTtl(MessageHeaders(headers).get(b"Nats-TTL")) == NEVER


class MessageAging:
    """
    Removes the old messages of one stream, and waits for the next one to be too old.

    Only streams that permit a time to live for each message have exempt messages, so only these are
    read. In others, everything below a sequence is removed.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._ends = MessageEnds(stream)
        self._timer: Deadline | None = None
        self._running = DeferredLock()
        self._judged = 0

    @property
    def isBusy(self) -> bool:
        """Whether the time of the next removal is known, or is being searched for."""
        return self._timer is not None or bool(self._running.locked)

    def stop(self) -> None:
        """Remove nothing until L{enforce} is called."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def enforce(self) -> Deferred[Any]:
        """Remove what is too old."""
        return self._running.run(self._enforce)

    @inlineCallbacks
    def _enforce(self) -> Generator[Deferred[Any], Any, None]:
        self.stop()
        stream, age = self._stream, self._stream.config.max_age
        keep = yield stream.log.sequenceAt(stream.account.now() - age + 1)
        if not stream.config.allow_msg_ttl:
            if keep > stream.first:
                yield stream.discardBefore(keep)
        elif not (yield from self._judge(keep)):
            self._wait(RETRY)
            return
        last = stream.last
        oldest = yield from self._oldest()
        if oldest is None and stream.last > last:
            self._wait(0.0)
        elif oldest is not None:
            self._wait(max(oldest.timestamp + age - stream.account.now(), 0) / SECOND)

    def _judge(self, keep: int) -> Generator[Deferred[Any], Any, bool]:
        """
        End those of the messages below a sequence that are not exempt.

        @return: whether that was possible.
        """
        stream = self._stream
        self._judged = max(self._judged, stream.first, 1)
        while self._judged < keep:
            page = yield stream.read((), self._judged, _PIECE, 1 << 24)
            old = [record for record in page.records if record.sequence < keep]
            failed = yield self._ends.end(
                [record for record in old if not isExempt(record.headers)]
            )
            if failed:
                self._judged = failed[0].sequence
                return False
            self._judged = min(page.next, keep)
        return True

    def _oldest(self) -> Generator[Deferred[Any], Any, Record | None]:
        """The first message that will be too old."""
        stream = self._stream
        if not stream.config.allow_msg_ttl:
            first: Record | None = yield stream.firstRecord()
            return first
        records = yield stream.log.read(max(self._judged, stream.first, 1), 1)
        return records[0] if records else None

    def _wait(self, seconds: float) -> None:
        if not self._stream.isDeleted and self._timer is None:
            self._timer = self._stream.account.deadlines.after(seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        upkeep = self._stream.upkeep
        self._stream.account.run(upkeep.orLater(upkeep.enforce))
