"""
Storing what clients publish.

Promises: the checks of nats-streaming-server in its order, and its texts; all that one chunk of
input brings for a channel goes into the store as one batch; subscribers are sent a message before
its publisher is told that it is stored, and both only when it is durable; every message is
answered, in the order in which a publisher sent them to a channel.
Must never know: how subscribers are served.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker._istore import Entry, StoreError
from natsbroker.interfaces import IMessageBus
from natsbroker.stan import texts
from natsbroker.stan.access import requesterOf
from natsbroker.stan.channels import Channel, Channels
from natsbroker.stan.clients import Clients
from natsbroker.stan.delivery import Delivery
from natsbroker.stan.figures import Traffic
from natsbroker.stan.idleness import Idleness
from natsbroker.stan.names import isChannel
from natsbroker.stan.protocol import Malformed, PubAck, PubMsg
from natsbroker.stan.replies import Replies
from natsbroker.stan.tail import StoredMessage, replyBlock
from natsbroker.stan.texts import Refused
from natsbroker.wire.values import Message

__all__ = ["Publishing"]

_log = Logger(namespace="natsbroker.stan")

#: Bytes that may wait to become durable; what is published beyond is refused at once.
MOST_WAITING = 64 << 20


class _Batch:
    """
    What was published to one channel and is still to be stored.

    @ivar entries: for the log.
    @ivar answers: reply subject, guid and the reply subject of the message itself, for each.
    @ivar size: bytes of data.
    @ivar subject: of the records.
    @ivar timestamp: of the records.
    """

    __slots__ = ("answers", "channel", "entries", "size", "subject", "timestamp")

    def __init__(self, channel: Channel, timestamp: int) -> None:
        self.channel = channel
        self.subject = channel.subject
        self.timestamp = timestamp
        self.entries: list[Entry] = []
        self.answers: list[tuple[bytes, str, str]] = []
        self.size = 0


class Publishing:
    """
    Takes published messages.

    @ivar waiting: bytes that are not durable yet.
    """

    def __init__(
        self,
        bus: IMessageBus,
        subject: bytes,
        clients: Clients,
        channels: Channels,
        delivery: Delivery,
        idleness: Idleness,
        traffic: Traffic,
        now: Callable[[], int],
    ) -> None:
        """
        @param subject: where clients publish, for what they may.
        @param now: the wall clock, in nanoseconds.
        """
        self._bus = bus
        self._subject = subject
        self._clients = clients
        self._channels = channels
        self._delivery = delivery
        self._idleness = idleness
        self._traffic = traffic
        self._now = now
        self._replies = Replies(bus)
        self.waiting = 0
        self._origin: object = _NOTHING
        self._requester = requesterOf(_NOTHING)
        self._client: tuple[str, bytes] | None = None
        self._open: dict[str, _Batch] = {}
        self._batches: dict[Channel, _Batch] = {}

    def take(self, message: Message) -> None:
        """
        Take one message; it is stored with others when L{flush} is called.
        """
        payload = message.payload
        try:
            request = PubMsg.FromString(payload)
        except Malformed:
            self._replies.publishError(message.reply, "", texts.INVALID_PUBLISH_REQUEST)
            return
        traffic = self._traffic
        traffic.inMessages += 1
        traffic.inBytes += len(payload)
        if message.origin is not self._origin:
            self._origin = message.origin
            self._requester = requesterOf(message.origin)
            self._client = None
            self._open = {}
        name, guid = request.subject, request.guid
        try:
            if self._requester.isLink:
                self._checkSubject(message.subject, name)
            batch = self._open.get(name)
            if batch is None:
                batch = self._batchFor(name)
            if not guid:
                raise Refused(texts.INVALID_PUBLISH_REQUEST)
            client = request.clientID, request.connID
            if client != self._client:
                self._checkClient(*client)
                self._client = client
            self._put(batch, request.data, request.reply, message.reply, guid)
        except Refused as refused:
            self._replies.publishError(message.reply, guid, str(refused))

    def _batchFor(self, name: str) -> _Batch:
        """
        What is to be stored for a channel, if whoever publishes now may publish to it.
        """
        subject = name.encode()
        if not isChannel(subject):
            raise Refused(texts.INVALID_PUBLISH_REQUEST)
        if not self._requester.may(self._subject, subject):
            raise Refused(texts.NOT_AUTHORIZED)
        channel = self._channels.demand(name)
        batch = self._batches.get(channel)
        if batch is None:
            timestamp = channel.timestamp(self._now())
            batch = self._batches[channel] = _Batch(channel, timestamp)
        self._open[name] = batch
        return batch

    def _checkSubject(self, subject: bytes, name: str) -> None:
        """
        See that a message that a peer let in is for the channel that the peer let it in for.
        """
        if subject != b"%b.%b" % (self._subject, name.encode()):
            raise Refused(texts.NOT_AUTHORIZED)

    def _checkClient(self, clientID: str, connID: bytes) -> None:
        client = self._clients.find(clientID, connID)
        if client is None or not self._requester.actsFor(client.owner):
            raise Refused(texts.INVALID_PUBLISH_REQUEST)

    def _put(self, batch: _Batch, data: bytes, reply: str, answer: bytes, guid: str) -> None:
        if self.waiting > MOST_WAITING:
            raise Refused(texts.TOO_MUCH_WAITS)
        headers = b""
        if reply:
            try:
                headers = replyBlock(reply)
            except ValueError:
                raise Refused(texts.INVALID_PUBLISH_REQUEST) from None
        batch.entries.append((batch.subject, headers, data, batch.timestamp))
        batch.answers.append((answer, guid, reply))
        size = len(data)
        batch.size += size
        self.waiting += size

    def flush(self) -> None:
        """
        Have everything stored that was taken.
        """
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
        """
        Messages are durable: send them to subscribers, then tell their publishers.
        """
        self.waiting -= batch.size
        channel = batch.channel
        if channel.limits.max_inactivity:
            self._idleness.used(channel)
        if channel.isWatched:
            self._remember(channel, sequences, batch)
            self._delivery.pumpChannel(channel)
            channel.tail.trim()
        ack, post = PubAck(), self._bus.post
        for answer, guid, _ in batch.answers:
            if answer:
                ack.guid = guid
                post(answer, ack.SerializeToString())

    def _remember(self, channel: Channel, sequences: range, batch: _Batch) -> None:
        tail, name = channel.tail, channel.name
        for sequence, entry, answer in zip(sequences, batch.entries, batch.answers, strict=True):
            tail.add(StoredMessage(name, sequence, entry[3], answer[2], entry[2]))

    def _refused(self, failure: Failure, batch: _Batch) -> None:
        """
        Messages are not stored: tell their publishers why.
        """
        self.waiting -= batch.size
        text = str(failure.value)
        if not isinstance(failure.value, StoreError):
            _log.failure("Storing messages failed", failure)
            text = texts.INTERNAL
        _log.error(
            'Cannot store {count} messages in channel "{name}": {why}',
            count=len(batch.entries),
            name=batch.channel.name,
            why=text,
        )
        for answer, guid, _ in batch.answers:
            self._replies.publishError(answer, guid, text)

    def _escaped(self, failure: Failure) -> None:
        _log.failure("What follows storing messages failed", failure)


#: An origin that no message has.
_NOTHING = object()
