"""
Published messages.

Checks and error texts are those of nats-streaming-server, in its order. The messages for a channel
in one chunk of input are appended as one batch, and consecutive messages of a client to a channel
are decoded and checked together. When a batch is durable, subscribers receive it first; then its
publishers receive their answers, in the order of their messages.
"""

from __future__ import annotations

from itertools import accumulate

from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.interfaces.records import Entry, Record, StoreError
from natsbroker.streaming import errors
from natsbroker.streaming.context import StreamingContext
from natsbroker.streaming.errors import Refused
from natsbroker.streaming.messages import pubAcks, publishedIn, replyBlock, storedMessages
from natsbroker.streaming.model import Channel
from natsbroker.streaming.protocol import Malformed, PubMsg
from natsbroker.streaming.requests.access import Requester, requesterOf
from natsbroker.subjects.channels import isChannel
from natsbroker.wire.values import Run

_log = Logger(namespace="natsbroker.streaming")

#: Bytes that may wait to become durable; what is published beyond is refused at once.
MOST_WAITING = 64 << 20


class _Batch:
    """
    C{answers} are reply subjects, each with the guids of consecutive messages that are answered
    there.
    """

    __slots__ = ("answers", "channel", "entries", "size", "subject", "timestamp")

    def __init__(self, channel: Channel, timestamp: int) -> None:
        self.channel = channel
        self.subject = channel.subject
        self.timestamp = timestamp
        self.entries: list[Entry] = []
        self.answers: list[tuple[bytes, list[bytes]]] = []
        self.size = 0

    def add(
        self, headers: bytes, data: list[bytes], size: int, answer: bytes, guids: list[bytes]
    ) -> None:
        subject, timestamp = self.subject, self.timestamp
        self.size += size
        self.entries += [(subject, headers, payload, timestamp) for payload in data]
        if self.answers and self.answers[-1][0] == answer:
            self.answers[-1][1].extend(guids)
        else:
            self.answers.append((answer, guids))


class PublishHandler:
    """Handles publishes; C{waiting} are bytes that are not durable yet."""

    def __init__(self, context: StreamingContext) -> None:
        self._bus = context.bus
        self._subject = context.subjects.publish
        self._clients = context.clients
        self._channels = context.channels
        self._delivery = context.delivery
        self._inactivity = context.inactivity
        self._traffic = context.traffic
        self._now = context.now
        self._replies = context.replies
        self.waiting = 0
        self._origin: object = _NOTHING
        self._requester = requesterOf(_NOTHING)
        self._client: tuple[str, bytes] | None = None
        self._open: dict[str, _Batch] = {}
        self._batches: dict[Channel, _Batch] = {}

    def take(self, run: Run, requester: Requester) -> None:
        if run.origin is not self._origin:
            self._origin = run.origin
            self._requester = requester
            self._client = None
            self._open = {}
        payloads = run.payloads
        place = 0
        while place < len(payloads):
            place += self._takeMany(run, payloads, place) or self._takeOne(run, payloads[place])

    def _takeMany(self, run: Run, payloads: list[bytes], place: int) -> int:
        """
        The number of messages that are taken together; 0 if the first one must be taken by itself.
        """
        publishes = publishedIn(payloads, place)
        if publishes is None:
            return 0
        count = len(publishes.guids)
        self._traffic.inMessages += count
        self._traffic.inBytes += sum(map(len, payloads[place : place + count]))
        try:
            batch = self._admit(run, publishes.channel, publishes.clientID, publishes.connID)
        except Refused as refused:
            self._refuse(run.reply, publishes.guids, str(refused))
        else:
            data, guids = publishes.data, publishes.guids
            if self.waiting + publishes.size > MOST_WAITING:
                fitting = self._fitting(data)
                self._refuse(run.reply, guids[fitting:], errors.TOO_MUCH_WAITS)
                data, guids = data[:fitting], guids[:fitting]
            self._put(batch, b"", data, run.reply, guids)
        return count

    def _fitting(self, data: list[bytes]) -> int:
        """
        The number of messages, from the first on, that can be taken before too many bytes wait.
        """
        sizes = accumulate(map(len, data), initial=self.waiting)
        return next((place for place, size_ in enumerate(sizes) if size_ > MOST_WAITING), len(data))

    def _refuse(self, answer: bytes, guids: list[bytes], text: str) -> None:
        for guid in guids:
            self._replies.publishError(answer, guid.decode(), text)

    def _put(
        self, batch: _Batch, headers: bytes, data: list[bytes], answer: bytes, guids: list[bytes]
    ) -> None:
        if data:
            size = sum(map(len, data))
            self.waiting += size
            batch.add(headers, data, size, answer, guids)

    def _takeOne(self, run: Run, payload: bytes) -> int:
        try:
            request = PubMsg.FromString(payload)
        except Malformed:
            self._replies.publishError(run.reply, "", errors.INVALID_PUBLISH_REQUEST)
            return 1
        self._traffic.inMessages += 1
        self._traffic.inBytes += len(payload)
        name, guid = request.subject, request.guid
        try:
            batch = self._admit(run, name, request.clientID, request.connID, bool(guid))
            if self.waiting > MOST_WAITING:
                raise Refused(errors.TOO_MUCH_WAITS)
            headers = _headersFor(request.reply) if request.reply else b""
        except Refused as refused:
            self._replies.publishError(run.reply, guid, str(refused))
        else:
            self._put(batch, headers, [request.data], run.reply, [guid.encode()])
        return 1

    def _admit(
        self, run: Run, name: str, clientID: str, connID: bytes, hasGuid: bool = True
    ) -> _Batch:
        """Raise L{Refused} if messages may not be published to a channel."""
        if self._requester.isLink:
            self._checkSubject(run.subject, name)
        batch = self._open.get(name)
        if batch is None:
            batch = self._batchFor(name)
        if not hasGuid:
            raise Refused(errors.INVALID_PUBLISH_REQUEST)
        client = clientID, connID
        if client != self._client:
            self._checkClient(*client)
            self._client = client
        return batch

    def _batchFor(self, name: str) -> _Batch:
        subject = name.encode()
        if not isChannel(subject):
            raise Refused(errors.INVALID_PUBLISH_REQUEST)
        if not self._requester.may(self._subject, subject):
            raise Refused(errors.NOT_AUTHORIZED)
        channel = self._channels.demand(name)
        batch = self._batches.get(channel)
        if batch is None:
            timestamp = channel.timestamp(self._now())
            batch = self._batches[channel] = _Batch(channel, timestamp)
        self._open[name] = batch
        return batch

    def _checkSubject(self, subject: bytes, name: str) -> None:
        """Check that a message is for the channel for which a peer admitted it."""
        if subject != b"%b.%b" % (self._subject, name.encode()):
            raise Refused(errors.NOT_AUTHORIZED)

    def _checkClient(self, clientID: str, connID: bytes) -> None:
        client = self._clients.find(clientID, connID)
        if client is None or not self._requester.actsFor(client.owner):
            raise Refused(errors.INVALID_PUBLISH_REQUEST)

    def flush(self) -> None:
        self._origin = _NOTHING
        self._client = None
        self._open = {}
        if not self._batches:
            return
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            if batch.entries:
                storing = batch.channel.append(batch.entries)
                storing.addCallbacks(
                    self._stored, self._refused, callbackArgs=(batch,), errbackArgs=(batch,)
                )
                storing.addErrback(self._escaped)

    def _stored(self, sequences: range, batch: _Batch) -> None:
        self.waiting -= batch.size
        channel = batch.channel
        if channel.limits.max_inactivity:
            self._inactivity.used(channel)
        if channel.isWatched:
            _remember(channel, sequences, batch)
            self._delivery.pumpChannel(channel)
            channel.tail.trim()
        for answer, guids in batch.answers:
            if answer:
                self._bus.publishBatch(answer, pubAcks(guids))

    def _refused(self, failure: Failure, batch: _Batch) -> None:
        self.waiting -= batch.size
        text = str(failure.value)
        if not isinstance(failure.value, StoreError):
            _log.failure("Storing messages failed", failure)
            text = errors.INTERNAL
        _log.error(
            'Cannot store {count} messages in channel "{name}": {why}',
            count=len(batch.entries),
            name=batch.channel.name,
            why=text,
        )
        for answer, guids in batch.answers:
            self._refuse(answer, guids, text)

    def _escaped(self, failure: Failure) -> None:
        _log.failure("A step after storing messages failed", failure)


def _remember(channel: Channel, sequences: range, batch: _Batch) -> None:
    records = [
        Record(sequence, timestamp, subject, headers, data)
        for sequence, (subject, headers, data, timestamp) in zip(
            sequences, batch.entries, strict=True
        )
    ]
    channel.tail.add(storedMessages(channel.subject, records))


def _headersFor(reply: str) -> bytes:
    """The headers that keep a reply subject; L{Refused} if a message cannot have it."""
    try:
        return replyBlock(reply)
    except ValueError:
        raise Refused(errors.INVALID_PUBLISH_REQUEST) from None


#: An origin that no message has.
_NOTHING = object()
