"""
Encoding and decoding of protocol messages in bulk, in Python. It runs where the compiled steps are
not installed, or decline a message. A test compares both with the protobuf library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from natsbroker import hot
from natsbroker.interfaces.records import Record
from natsbroker.streaming.protocol import MsgProto, PubAck
from natsbroker.wire.headers import HeaderError, Headers
from natsbroker.wire.text import encoded

#: The header that keeps the reply subject of a published message.
_REPLY = "Stan-Reply"


class Published(NamedTuple):
    clientID: str
    channel: str
    connID: bytes
    guids: list[bytes]
    data: list[bytes]
    size: int


class StoredMessage(NamedTuple):
    """
    @ivar timestamp: of the publication, in nanoseconds since 1970.
    @ivar encoded: the message as it is delivered for the first time.
    """

    sequence: int
    timestamp: int
    size: int
    encoded: bytes

    def encodedAgain(self, count: int) -> bytes:
        """
        Add the last two fields to an encoded message: protobuf accepts fields behind a message as
        part of it.
        """
        again = MsgProto(redelivered=True, redeliveryCount=count & 0xFFFFFFFF or 1)
        added: bytes = again.SerializeToString()
        return self.encoded + added


def publishedIn(payloads: list[bytes], start: int) -> Published | None:
    """
    Consecutive C{PubMsg}s of one client and channel; C{None} if the first is to be read alone.
    """
    if hot.readPublishes is None:
        return None
    columns = hot.readPublishes(payloads, start)
    return None if columns is None else Published._make(columns)


def acknowledgedIn(payloads: list[bytes], start: int, channel: bytes) -> list[int]:
    """Sequences of consecutive C{Ack}s of one channel; none if the first is to be read alone."""
    if hot.readAcks is None:
        return []
    sequences: list[int] = hot.readAcks(payloads, start, channel)
    return sequences


def pubAcks(guids: list[bytes]) -> list[bytes]:
    if hot.writePubAcks is not None:
        acks: list[bytes] = hot.writePubAcks(guids)
        return acks
    ack, encoded = PubAck(), []
    for guid in guids:
        ack.guid = guid.decode()
        encoded.append(ack.SerializeToString())
    return encoded


def replyBlock(reply: str) -> bytes:
    """A header block with a reply subject. C{ValueError} if it cannot be in a header."""
    if reply != reply.strip(" \t"):
        raise ValueError("a reply subject with blanks around it")
    return Headers([(_REPLY, reply)]).block() if reply else b""


def _replyFrom(block: bytes) -> str:
    """The reply subject in a record's headers. Another program may have written these."""
    try:
        reply = Headers.fromBlock(block).get(_REPLY) or ""
    except HeaderError:
        return ""
    return encoded(reply).decode()


def storedMessages(channel: bytes, records: list[Record]) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    while len(messages) < len(records):
        if hot.writeMessages is not None:
            messages += hot.writeMessages(StoredMessage, records, len(messages), channel)
        if len(messages) < len(records):
            messages.append(_stored(channel, records[len(messages)]))
    return messages


def _stored(channel: bytes, record: Record) -> StoredMessage:
    encoded = MsgProto(
        sequence=record.sequence,
        subject=channel.decode(),
        reply=_replyFrom(record.headers) if record.headers else "",
        data=record.payload,
        timestamp=record.timestamp,
    ).SerializeToString()
    return StoredMessage(record.sequence, record.timestamp, len(record.payload), encoded)


#: The most messages, and bytes of data, that are kept of a channel.
MOST_MESSAGES = 2048
MOST_BYTES = 1 << 20


class Tail:
    def __init__(self, mostMessages: int = MOST_MESSAGES, mostBytes: int = MOST_BYTES) -> None:
        self._messages: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._mostMessages = mostMessages
        self._mostBytes = mostBytes
        self.get = self._messages.get

    def add(self, messages: Iterable[StoredMessage]) -> None:
        for message in messages:
            self._messages[message.sequence] = message
            self._bytes += message.size

    def following(self, sequence: int, most: int) -> list[StoredMessage]:
        messages = []
        for number in range(sequence, sequence + most):
            message = self.get(number)
            if message is None:
                break
            messages.append(message)
        return messages

    def trim(self) -> None:
        """
        Trim the buffer. Called after the delivery of a batch, so that subscribers that keep up find
        all of it here.
        """
        messages = self._messages
        while messages and (len(messages) > self._mostMessages or self._bytes > self._mostBytes):
            message = messages.pop(next(iter(messages)))
            self._bytes -= message.size

    def __len__(self) -> int:
        return len(self._messages)
