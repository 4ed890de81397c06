"""
Sending a snapshot: a stream as an archive, in chunks whose number without an answer is bounded.

Messages are read, encoded and compressed a slice at a time while the chunks go out, so a snapshot
takes the same memory for any stream, and other clients are served in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker.connections.s2stream import S2Encoder
from natsbroker.interfaces import ISubscriber
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.model.bodies import SnapshotRequest
from natsbroker.jetstream.snapshots.archive import END, MAGIC, encodeEntry
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.values import Message

#: Seconds to wait for the interest of the receiver.
PATIENCE = 2.0

#: Seconds without an answer after which the receiver counts as gone.
ACK_WAIT = 5.0

#: Records and bytes that are read at once.
_RECORDS, _BYTES = 256, 128 << 10

#: The most passes of a snapshot. Each one sends the messages stored during the one before.
_PASSES = 4

#: Bytes that are compressed together.
_BLOCK = 128 << 10


class SnapshotStopped(Exception):
    """
    The error of a snapshot that ends before it is complete.

    @ivar status: for the receiver.
    @ivar reason: the text in the advisory.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class StreamArchive:
    """A stream as an S2 stream of an archive."""

    def __init__(self, stream: Stream, documents: Sequence[tuple[bytes, bytes]], last: int) -> None:
        """
        The archive up to a last sequence. C{documents} are names and contents that come first.
        """
        now = stream.account.now()
        self._stream = stream
        self._encoder = S2Encoder("s2_fast")
        self._last = last
        self._sequence = max(stream.first, 1)
        self._isReplacing = stream.config.max_msgs_per_subject > 0
        self._passes = _PASSES
        self._isOver = False
        self._pieces = [MAGIC]
        self._pieces += [encodeEntry(name, now, 0, b"", content) for name, content in documents]

    async def read(self) -> bytes:
        """The next bytes of the archive; L{StoreError} if the stream cannot be read."""
        size = sum(map(len, self._pieces))
        while size < _BLOCK and self._sequence <= self._last:
            page = await self._stream.read((), self._sequence, _RECORDS, _BYTES)
            for record in page.records:
                if record.sequence <= self._last or self._isReplacing:
                    sequence, timestamp, subject, headers, payload = record
                    entry = encodeEntry(subject, timestamp, sequence, headers, payload)
                    self._pieces.append(entry)
                    size += len(entry)
            self._sequence = page.next
            if self._sequence > self._last and self._isReplacing and self._passes:
                # Subjects whose messages were replaced since then have them behind the end.
                self._passes -= 1
                self._last = self._stream.last
        if self._sequence > self._last:
            self._isOver = True
            self._pieces.append(END)
        pieces, self._pieces = self._pieces, []
        return self._encoder.encode(b"".join(pieces))

    @property
    def isOver(self) -> bool:
        return self._isOver


@implementer(ISubscriber)
class SnapshotSender:
    def __init__(
        self, stream: Stream, request: SnapshotRequest, archive: StreamArchive, token: str
    ) -> None:
        """The sender; C{token} makes the subject of the answers unique."""
        self._stream = stream
        self._account: Any = stream.account
        self._subject = request.deliver_subject.encode()
        self._chunk = request.chunk()
        self._slots = max(request.window() // self._chunk, 1)
        self._archive = archive
        self._acks = f"$JS.SNAPSHOT.ACK.{stream.name}.{token}".encode()
        self._hasInterest = False
        self._isWatching = False
        self._isGone = False
        self._waiting: Deferred[None] | None = None
        self._index = 0
        self._sent = 0.0

    async def send(self) -> str:
        """
        Send the archive and the message that ends it. Return the reason why it is incomplete, or an
        empty text.
        """
        account = self._account
        unwatch = account.watchInterest(self._subject, b"", self._interestChanged)
        acks = account.bus.serve(self._acks + b".>", self)
        status = reason = ""
        try:
            if not self._hasInterest:
                await self._wait(PATIENCE)
            self._isWatching = self._hasInterest
            await self._sendChunks()
        except SnapshotStopped as ended:
            status, reason = ended.status, ended.reason
        except StoreError as error:
            status, reason = f"500 {error}", str(error)
        finally:
            unwatch()
            acks.cancel()
        if not status and self._index:
            status = "204"
        account.send(self._subject, b"", f"NATS/1.0 {status}\r\n\r\n".encode() if status else b"")
        return reason

    # Answers and interest.

    def deliver(self, message: Message, tag: Any) -> None:
        self._slots += 1
        self._wake()

    def subscriptionEnded(self, tag: Any) -> None:
        """Not called: the subscription has no maximum."""

    def _interestChanged(self, hasInterest: bool) -> None:
        self._hasInterest = hasInterest
        if self._isWatching and not hasInterest:
            self._isGone = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    async def _wait(self, seconds: float) -> None:
        """Wait for an answer or a change of interest, until the time is over."""
        waiting = self._waiting = Deferred[None]()
        timer = self._account.deadlines.after(seconds, self._wake)
        try:
            await waiting
        finally:
            timer.cancel()

    # Chunks.

    async def _sendChunks(self) -> None:
        self._sent = self._account.deadlines.now()
        buffer = bytearray()
        while True:
            await self._slot()
            while len(buffer) < self._chunk and not self._archive.isOver:
                await self._account.turns.turn()
                buffer += await self._archive.read()
            if len(buffer) < self._chunk:
                break
            self._index += 1
            self._slots -= 1
            reply = b"%b.%d.%d" % (self._acks, self._chunk, self._index)
            self._account.send(self._subject, bytes(buffer[: self._chunk]), reply=reply)
            del buffer[: self._chunk]
            self._sent = self._account.deadlines.now()
        if buffer:
            self._account.send(self._subject, bytes(buffer))

    async def _slot(self) -> None:
        """Wait until another chunk may go out."""
        while not self._isGone and not self._slots:
            left = self._sent + ACK_WAIT - self._account.deadlines.now()
            if left <= 0:
                raise SnapshotStopped("408 No Flow Response", "no flow response")
            await self._wait(left)
        if self._isGone:
            raise SnapshotStopped("408 No Interest", "no interest")
        if self._stream.isDeleted:
            raise SnapshotStopped("500 stream deleted", "stream deleted")
