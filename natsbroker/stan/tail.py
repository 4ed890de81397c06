"""
The last messages of a channel, in memory: what subscribers are usually sent.

Promises: a message is encoded once, however many subscribers it goes to; memory is bounded however
long the channel is. A message that is not here may still be in the store.
Must never know: subscribers.
"""

from __future__ import annotations

from typing import Any

from natsbroker._istore import Record
from natsbroker.stan.protocol import MsgProto
from natsbroker.wire.headers import HeaderError, Headers

__all__ = ["StoredMessage", "Tail", "replyBlock"]

#: How much of a channel is kept, in messages and in bytes of data.
MOST_MESSAGES = 2048
MOST_BYTES = 1 << 20

#: The header that keeps the reply subject of a published message.
_REPLY = "Stan-Reply"


def replyBlock(reply: str) -> bytes:
    """
    The headers of a record whose message has a reply subject.

    @raise ValueError: if it cannot stand in a header.
    """
    if reply != reply.strip(" \t"):
        raise ValueError("a reply subject with blanks around it")
    return Headers([(_REPLY, reply)]).block() if reply else b""


def _replyFrom(block: bytes) -> str:
    """
    The reply subject in a record's headers, which may have been written by somebody else.
    """
    try:
        reply = Headers.fromBlock(block).get(_REPLY) or ""
    except HeaderError:
        return ""
    return reply.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class StoredMessage:
    """
    One message of a channel, with its sequence.

    @ivar size: of the data, in bytes.
    """

    __slots__ = ("_channel", "_data", "_encoded", "_reply", "sequence", "size", "timestamp")

    def __init__(
        self, channel: str, sequence: int, timestamp: int, reply: str, data: bytes
    ) -> None:
        self.sequence = sequence
        self.timestamp = timestamp
        self.size = len(data)
        self._channel = channel
        self._reply = reply
        self._data = data
        self._encoded: bytes | None = None

    @classmethod
    def fromRecord(cls, channel: str, record: Record) -> StoredMessage:
        """
        A message that was read from the store.
        """
        reply = _replyFrom(record.headers) if record.headers else ""
        return cls(channel, record.sequence, record.timestamp, reply, record.payload)

    def encoded(self) -> bytes:
        """
        As it is delivered for the first time.
        """
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = self._proto().SerializeToString()
        return encoded

    def encodedAgain(self, count: int) -> bytes:
        """
        As it is delivered again.

        @param count: how often it was delivered again, this time included.
        """
        proto = self._proto()
        proto.redelivered = True
        proto.redeliveryCount = count & 0xFFFFFFFF or 1
        encoded: bytes = proto.SerializeToString()
        return encoded

    def _proto(self) -> Any:
        return MsgProto(
            sequence=self.sequence,
            subject=self._channel,
            reply=self._reply,
            data=self._data,
            timestamp=self.timestamp,
        )


class Tail:
    """
    The last messages of one channel.
    """

    def __init__(self, mostMessages: int = MOST_MESSAGES, mostBytes: int = MOST_BYTES) -> None:
        self._messages: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._mostMessages = mostMessages
        self._mostBytes = mostBytes
        self.get = self._messages.get

    def add(self, message: StoredMessage) -> None:
        """
        Take a message with a higher sequence than all before.
        """
        self._messages[message.sequence] = message
        self._bytes += message.size

    def trim(self) -> None:
        """
        Let go of what is too much. Called when a batch was delivered, so that whoever kept up finds
        all of it here.
        """
        messages = self._messages
        while messages and (len(messages) > self._mostMessages or self._bytes > self._mostBytes):
            message = messages.pop(next(iter(messages)))
            self._bytes -= message.size

    def __len__(self) -> int:
        return len(self._messages)
