"""
The room that the limits of a stream's account and of the server leave for messages, and the
messages that are being appended.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from natsbroker.interfaces.records import Retention
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.limits import StorageBounds
from natsbroker.jetstream.model.streamconfig import DiscardPolicy, StreamConfig
from natsbroker.jetstream.streams.publishanswers import (
    ReadMessage,
    StreamBatch,
    refuseAll,
    storeFailed,
)
from natsbroker.jetstream.streams.streamcore import StreamCore


def retentionOf(config: StreamConfig) -> Retention:
    """The limits by which a stream's log removes messages by itself when more are appended."""
    isNew = config.discard is DiscardPolicy.NEW
    return Retention(
        count=0 if isNew else max(config.max_msgs, 0),
        perSubject=0 if config.discard_new_per_subject else max(config.max_msgs_per_subject, 0),
    )


class StorageUse:
    """
    Checks the messages of one stream.

    @ivar isBounded: whether there are limits.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._others: StorageBounds | None = None
        self.isBounded = False

    def applyConfig(self) -> None:
        """Use the limits that the account has now."""
        self.forget()
        self.isBounded = self._stream.account.isBounded(self._stream.config.storage)

    def forget(self) -> None:
        """Look at the other streams again for the next message."""
        self._others = None

    def isNear(self) -> bool:
        """Whether little room is left, so that every message must be checked."""
        return self.isBounded and self._stream.account.isNear(self._stream.config.storage)

    def check(self, size: int, own: int) -> None:
        """
        Check a message.

        @param size: its bytes.
        @param own: the bytes of the stream, with those being appended.
        @raise errors.JetStreamError: if there is no room for it.
        """
        if self._others is None:
            stream = self._stream
            self._others = stream.account.bounds(stream.config.storage, stream.size)
        others = self._others
        if 0 <= others.server < others.serverUsed + own:
            raise errors.INSUFFICIENT_RESOURCES()
        if 0 <= others.account < others.accountUsed + own + size:
            raise errors.ACCOUNT_RESOURCES_EXCEEDED()


class StreamAppends:
    """
    The messages that the publisher of one stream has given to the log and that are not durable yet.

    @ivar count: how many appends and skips are not durable.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self.count = 0
        self._messages = 0
        self._size = 0

    def append(self, batch: StreamBatch) -> Deferred[Any]:
        """Append messages; L{settled} follows."""
        sources = self._stream.sources
        self.count += 1
        self._messages += len(batch.entries)
        self._size += batch.size
        sources.appending(batch)
        appending: Deferred[Any] = self._stream.log.append(batch.entries)
        sources.appended(batch)
        if batch.origins:
            appending.addErrback(self._failed, batch)
        return appending

    def settled(self, batch: StreamBatch) -> None:
        """The messages of a batch are durable, or could not be stored."""
        self.count -= 1
        self._messages -= len(batch.entries)
        self._size -= batch.size

    def _failed(self, failure: Failure, batch: StreamBatch) -> Failure:
        self._stream.sources.failed(batch)
        return failure

    def skipTo(self, sequence: int) -> Deferred[Any]:
        """Give the next message a higher sequence."""
        self.count += 1
        skipping: Deferred[Any] = self._stream.log.skipTo(sequence)
        return skipping.addBoth(self._skipped)

    def skipFor(self, origin: ReadMessage, sequence: int) -> None:
        """Give a message of a mirror the sequence that it has in its origin."""
        if not origin.isWithdrawn:
            skipping = self.skipTo(sequence)
            skipping.addErrback(lambda failure: refuseAll([origin], storeFailed(failure)))

    def _skipped(self, result: Any) -> Any:
        self.count -= 1
        return result

    def usage(self, batch: StreamBatch | None) -> tuple[int, int]:
        """
        Messages and bytes of the stream, with those being appended.

        @param batch: messages that will be appended next.
        """
        messages, size = self._stream.messages + self._messages, self._stream.size + self._size
        if batch is None:
            return messages, size
        return messages + len(batch.entries), size + batch.size
