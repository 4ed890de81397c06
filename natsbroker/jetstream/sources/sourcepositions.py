"""
The positions up to which a stream has read its sources.

The header of a message from a source names its position, so nothing more is written while such a
message exists. Before a message may be removed, its position is written beside the messages. A
store makes changes durable in the order of the calls, so no removal survives a crash without its
position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.model.gojson import encode
from natsbroker.jetstream.model.sourceconsumers import sourceWords
from natsbroker.jetstream.model.streamconfig import StreamSource
from natsbroker.jetstream.streams.msgheaders import MessageHeaders
from natsbroker.jetstream.streams.publishanswers import ReadMessage, StreamBatch
from natsbroker.jetstream.streams.storageuse import retentionOf
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.jetstream.streams.streamrecords import SLICE
from natsbroker.steps import PIECE, Steps, pieces

HEADER = b"Nats-Stream-Source"

LATE = 10.0
"""
The seconds between writes of positions that nothing depends on. When the broker starts again, it
reads the messages of this time again.
"""

SOON = 0.2
"""
Seconds after which the start of a new source is written, together with others: a stream may have
thousands.
"""

_log = Logger(namespace="natsbroker.jetstream")


class SourcePosition(NamedTuple):
    """
    @ivar sequence: the last one of the origin that was taken; 0 for none.
    @ivar identity: of the origin then; empty if it does not say.
    @ivar since: the time of the origin, in nanoseconds since 1970, with which a source begins that
        has brought no message; 0 for the start in its configuration.
    """

    sequence: int = 0
    identity: bytes = b""
    since: int = 0

    def encode(self) -> str:
        """The position as text of a fixed length, which replaces an earlier one on a full disk."""
        return f"{self.sequence:020} {self.since:020} {self.identity.decode():<8}"

    @classmethod
    def decode(cls, text: str) -> SourcePosition:
        sequence, since, *identity = text.split()
        return cls(int(sequence), "".join(identity).encode(), int(since))


def positionKey(source: StreamSource) -> str:
    """The key of a source in the state: its identity, and those that it had before."""
    return " ".join(sourceWords(source))


def _positionIn(headers: bytes) -> tuple[str, SourcePosition] | None:
    """The source and the position that a stored message names."""
    if HEADER not in headers:
        return None
    words = MessageHeaders(headers).get(HEADER).split(b" ")
    if len(words) < 5 or not words[1].isdigit():
        return None
    key = b" ".join((words[0], *words[2:4])).decode("utf-8", "replace")
    return key, SourcePosition(int(words[1]), words[5] if len(words) > 5 else b"")


class SourcePositions:
    """The positions of all sources of one stream."""

    def __init__(self, stream: StreamCore, stateKey: bytes) -> None:
        """The positions; C{stateKey} is their key in the stream's state."""
        self._stream = stream
        self._stateKey = stateKey
        self._known: dict[str, SourcePosition] = {}
        # The written texts of positions, except of those that have changed since.
        self._texts: dict[str, bytes] = {}
        self._changed: set[str] = set()
        self._named: tuple[StreamSource, ...] | None = None
        # The sources that had no message when all of them were searched for.
        self._absent: set[str] = set()
        self._searching = DeferredLock()
        # The positions that only a message of the stream names, with its sequence and its subject.
        self._exposed: dict[str, tuple[int, bytes]] = {}
        # The sequence from which on messages must still be read for their positions; C{None} if all
        # are read.
        self._unread: int | None = None
        self._doubts = 0
        self._isWritten = True
        self._isPassed = False
        self._timer: Any = None
        self._reading = DeferredLock()
        self._limits = retentionOf(stream.config)

    # The start, and the sources in configurations.

    async def recover(self, values: Mapping[bytes, bytes]) -> None:
        """
        Recover the positions before anything is removed from the stream.

        @param values: the state.
        """
        value = values.get(self._stateKey)
        if value is None:
            return
        written = json.loads(value)
        inSteps = self._stream.account.inSteps
        await inSteps(self._decoding(written["sources"]))
        self._isWritten = True
        await inSteps(self.forgetting())
        self._unread = int(written["last"]) + 1
        await self.readOn()

    def _decoding(self, positions: Mapping[str, str]) -> Steps[None]:
        for some in pieces([*positions.items()]):
            for key, value in some:
                self._know(key, SourcePosition.decode(value))
            yield

    def applyConfig(self) -> None:
        """Heed other limits: positions of messages that they remove are written first."""
        self._limits = retentionOf(self._stream.config)

    def forgetting(self) -> Steps[None]:
        """
        Forget sources that are no longer named. A source that is named again later continues behind
        its newest message in the stream, if there is one.
        """
        sources = self._stream.config.sources
        if not (self._known or self._exposed) or self._named == sources:
            return
        named: set[str] = set()
        for some in pieces(sources):
            named.update(map(positionKey, some))
            yield
        for key in self._known.keys() - named:
            del self._known[key]
            self._texts.pop(key, None)
            self._changed.discard(key)
            self._isWritten = False
        self._absent &= named
        for key in self._exposed.keys() - named:
            del self._exposed[key]
        self._named = sources

    def _know(self, key: str, position: SourcePosition) -> None:
        self._known[key] = position
        self._changed.add(key)
        self._isWritten = False
        if len(self._changed) > PIECE:
            self._encodeChanged()

    def _encodeChanged(self) -> None:
        for key in self._changed:
            self._texts[key] = encode({key: self._known[key].encode()})[1:-1]
        self._changed.clear()

    async def find(self, source: StreamSource) -> SourcePosition:
        """
        The position of a source. If it is unknown, the source's newest message is searched for.
        """
        await self._stream.publisher.barrier()
        await self.readOn()
        key = positionKey(source)
        if key not in self._known:
            await self._search(key)
            if key not in self._known:
                self._know(key, SourcePosition(since=self._sinceFor(source)))
            self._absent.discard(key)
            self._saveIn(SOON)
        return self._known[key]

    def _sinceFor(self, source: StreamSource) -> int:
        """
        The start of a new source in a stream that has had messages. As in nats-server, nothing
        older than the newest of them is taken. This does not hold if the stream still has all of
        them, and the source names no time.
        """
        if source.opt_start_seq:
            return 0
        last: int = self._stream.log.bounds().lastTime
        if source.opt_start_time is not None:
            return max(last, source.opt_start_time)
        return last if self._stream.first > 1 else 0

    def begin(self, source: StreamSource, identity: bytes) -> None:
        """Begin again with the first message: the origin was created again."""
        self._know(positionKey(source), SourcePosition(0, identity))

    # The positions that are in the stream.

    @property
    def isUnread(self) -> bool:
        """Whether some positions are only in messages that L{readOn} must read before a removal."""
        return self._unread is not None

    async def readOn(self) -> None:
        """Read the positions in messages that were not read yet."""
        if self._unread is None:
            return
        await self._reading.acquire()
        try:
            while self._unread is not None:
                doubts = self._doubts
                # An empty append fails until the store writes again, and knows its content.
                await self._stream.log.append([])
                await self._readFrom(self._unread)
                if doubts == self._doubts:
                    self._unread = None
        finally:
            self._reading.release()

    async def _readFrom(self, sequence: int) -> None:
        while sequence <= self._stream.last:
            page = await self._stream.read((), sequence, SLICE, 1 << 24)
            for record in page.records:
                position = _positionIn(record.headers)
                if position is not None and position[0] in self._known:
                    self._know(*position)
                    self._exposed[position[0]] = record.sequence, record.subject
            sequence = page.next

    async def _search(self, key: str) -> None:
        """Search for the newest message of a source, and of all others that are unknown too."""
        await self._searching.acquire()
        try:
            if key in self._known or key in self._absent:
                return
            wanted = await self._stream.account.inSteps(self._unknown())
            await self._searchFor({*wanted, key})
        finally:
            self._searching.release()

    def _unknown(self) -> Steps[set[str]]:
        unknown: set[str] = set()
        for some in pieces(self._stream.config.sources):
            unknown.update(map(positionKey, some))
            yield
        return unknown.difference(self._known, self._absent)

    async def _searchFor(self, wanted: set[str]) -> None:
        stream = self._stream
        first, stop = max(stream.first, 1), stream.last + 1
        while wanted and stop > first:
            start = sequence = max(first, stop - SLICE)
            newest: dict[str, SourcePosition] = {}
            while sequence < stop:
                page = await stream.read((), sequence, SLICE, 1 << 24)
                for record in page.records:
                    position = _positionIn(record.headers)
                    if position is not None and position[0] in wanted and record.sequence < stop:
                        newest[position[0]] = position[1]
                sequence = page.next
            for name, place in newest.items():
                self._know(name, place)
            wanted.difference_update(newest)
            stop = start
        # A source's messages are stored only by a reader that has asked for its position.
        self._absent |= wanted

    # Appends.

    def areApart(self, before: ReadMessage | None, after: ReadMessage | None) -> bool:
        """
        Whether a message must be appended separately from the one before it, because it might push
        out the newest message of another source, whose position is not written.
        """
        if before is None or not (self._limits.count or self._limits.perSubject):
            return False
        return after is None or after.key != before.key

    def appending(self, batch: StreamBatch) -> None:
        """Write the positions whose messages a batch might push out of the stream."""
        limits = self._limits
        if not self._exposed or not (limits.count or limits.perSubject):
            return
        own = batch.origins[-1].key if batch.origins else ""
        others = [place for key, place in self._exposed.items() if key != own]
        kept = batch.first + len(batch.entries) - limits.count if limits.count else 0
        subjects = {subject for _, subject in others} if limits.perSubject else ()
        isEndangered = any(sequence < kept for sequence, _ in others)
        if isEndangered or (subjects and any(entry[0] in subjects for entry in batch.entries)):
            self.save()

    def appended(self, batch: StreamBatch) -> None:
        """Note that the log was given a batch."""
        if not batch.origins:
            return
        for key, newest in {origin.key: origin for origin in batch.origins}.items():
            if key:
                batch.before[key] = self._known.get(key, SourcePosition())
                self._note(newest)
        if batch.origins[-1].key not in batch.newest:
            self._isPassed = True
        for key, place in batch.newest.items():
            self._exposed[key] = batch.first + place, batch.entries[place][0]

    def passed(self, origin: ReadMessage | None) -> None:
        """Note a message that was taken and not stored. L{settle} writes its position."""
        if origin is not None:
            self._note(origin)
            self._isPassed = True

    def _note(self, origin: ReadMessage) -> None:
        if origin.key:
            self._know(origin.key, SourcePosition(origin.sequence, origin.identity))
            self._saveIn(LATE)

    def failed(self, batch: StreamBatch) -> None:
        """
        Forget the positions of a batch that may not be stored, and of all that were given to the
        log after it. The messages in the log then name the positions.
        """
        if not batch.before:
            return
        self._doubts += 1
        if self._unread is None or batch.first < self._unread:
            self._unread = batch.first
            for key, position in batch.before.items():
                self._know(key, position)

    # Writing.

    def settle(self) -> None:
        """Write the positions that no message names."""
        if self._isPassed:
            self.save()

    def save(self) -> None:
        """Write the positions. Later requests to the store are durable only with them."""
        self._stopTimer()
        if self._isWritten or self._stream.isDeleted:
            return
        self._isWritten, self._isPassed = True, False
        exposed, self._exposed = self._exposed, {}
        last = self._stream.log.nextSequence if self._unread is None else self._unread
        self._encodeChanged()
        value = b'{"last":"%020d","sources":{%b}}' % (last - 1, b",".join(self._texts.values()))
        writing: Deferred[None] = self._stream.states.put(self._stateKey, value)
        writing.addErrback(self._notWritten, exposed)

    def _notWritten(self, failure: Failure, exposed: dict[str, tuple[int, bytes]]) -> None:
        """Keep the positions for the next write. Later requests to the store have failed too."""
        self._isWritten = False
        self._exposed = {**exposed, **self._exposed}
        if not failure.check(StoreError):
            _log.failure("The positions of sources are not written", failure)

    def _saveIn(self, seconds: float) -> None:
        deadlines = self._stream.account.deadlines
        if self._timer is None or self._timer.when > deadlines.now() + seconds:
            self._stopTimer()
            self._timer = deadlines.after(seconds, self.save)

    def close(self) -> None:
        """Write nothing more."""
        self._stopTimer()

    def _stopTimer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
