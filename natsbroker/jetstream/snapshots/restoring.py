"""
Restoring a stream: an archive becomes a log and consumers.

The stream exists as soon as its state is read, and takes messages when the archive ends. If the
archive is damaged, the stream keeps what was restored until then, as with nats-server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred

from natsbroker.connections.s2stream import S2Decoder, S2Error
from natsbroker.interfaces.records import Entry, StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.consumers.consumer import Consumer
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import ConsumerRequest, CopiedState, StreamRequest
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.documents import JsonError, read
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import goQuoted
from natsbroker.jetstream.model.limits import checkLimits
from natsbroker.jetstream.model.streamchecks import StreamChecker
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.model.streamupdates import createdStream
from natsbroker.jetstream.snapshots.archive import (
    LARGEST_ENTRY,
    ArchiveReader,
    EntryHeader,
    InvalidArchive,
)
from natsbroker.jetstream.snapshots.consumerdocuments import reading
from natsbroker.jetstream.streams.publishchecks import isTooLong
from natsbroker.jetstream.streams.recovery import activateStream, openStream
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.wire.text import decoded

#: Bytes of the archive that are read before others are served.
_SLICE = 64 << 10

#: Bytes of the archive that the store may have to write at one time.
_UNWRITTEN = 1 << 20

_STATE = b"state.json"
_CONSUMERS = b"consumers/"
_LONGEST_SUBJECT = 65535


class StreamRestore:
    """
    Restores one stream. The stream exists once C{stream} is set; C{isOver} is set when the archive
    has ended.
    """

    def __init__(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        created: Callable[[Stream], object],
    ) -> None:
        """
        @param config: with all defaults filled in.
        @param created: called when the stream exists.
        """
        self._account = account
        self._config = config
        self._created = created
        self._decoder = S2Decoder()
        self._reader = ArchiveReader()
        self._header: EntryHeader | None = None
        self._consumers: list[tuple[Consumer, bytes | None]] = []
        self._consumersLeft = 0
        self._last = 0
        self._archivedLast = 0
        self._entries: list[Entry] = []
        self._writes: list[Deferred[Any]] = []
        self.stream: Stream | None = None
        self.isOver = False

    async def take(self, data: bytes) -> None:
        """
        Take a part of the compressed archive. Its content is durable on return.

        @raise InvalidArchive: if it is damaged.
        @raise JetStreamError: if the stream cannot be created, or exceeds a limit.
        @raise StoreError: if nothing can be stored.
        """
        self._decoder.feed(data)
        unwritten = 0
        while not self.isOver and not self._decoder.isStarved:
            try:
                plain = self._decoder.read(_SLICE)
            except S2Error as error:
                raise _corrupt(error) from error
            self._reader.feed(plain)
            await self._readEntries()
            unwritten += len(plain)
            if unwritten >= _UNWRITTEN:
                unwritten = 0
                await self._stored()
            await self._account.turns.turn()
        await self._stored()

    async def finish(self) -> Stream:
        """
        End the input.

        @raise InvalidArchive: if the archive is cut off.
        """
        if self.stream is None or not self.isOver:
            raise InvalidArchive(self._cutOff())
        if self._last < self._archivedLast:
            await self.stream.log.skipTo(self._archivedLast + 1)
        await self.activate()
        return self.stream

    async def activate(self) -> None:
        """
        Have the stream take messages. A stream that a client has deleted meanwhile is not started.
        """
        if self.stream is not None:
            await self._written(self.stream)
            if not self.stream.isDeleted:
                await activateStream(self.stream, self._consumers)

    def _cutOff(self) -> str:
        header = self._header
        if header is not None:
            return self._unread(header)
        if self._decoder.isMidway:
            return "s2: corrupt input"
        if self._reader.isEmpty or self._reader.isBetweenEntries:
            return "EOF"
        return str(InvalidArchive())

    def _unread(self, header: EntryHeader) -> str:
        if self.stream is None:
            return "expected state.json contents"
        if header.sequence:
            return f"failed to read message sequence {header.sequence}: {InvalidArchive()}"
        return f"failed to read consumer {_consumerName(header)} state: {InvalidArchive()}"

    async def _readEntries(self) -> None:
        while not self.isOver:
            if self._header is None:
                self._header = self._reader.header()
                if self._header is None:
                    break
                self._check(self._header)
            body = self._reader.body()
            if body is None:
                break
            header, self._header = self._header, None
            await self._entry(header, *body)
        if self.stream is not None:
            self._append(self.stream)

    def _check(self, header: EntryHeader) -> None:
        """Check an entry before memory is taken for it."""
        sequence, size = header.sequence, header.headers + header.payload
        if self.stream is None:
            if header.name != _STATE:
                raise InvalidArchive("expected state.json first")
        elif self._consumersLeft:
            if not header.name.startswith(_CONSUMERS):
                name = goQuoted(header.name)
                raise InvalidArchive(f"expected consumer, found {name}")
        elif not sequence:
            if not header.isEnd:
                raise InvalidArchive("expected message sequence")
        elif size > LARGEST_ENTRY or len(header.name) > _LONGEST_SUBJECT:
            raise InvalidArchive(f"message sequence {sequence} exceeds maximum payload size")
        elif isTooLong(self._config, size):
            raise InvalidArchive(f"message sequence {sequence} exceeds maximum message size")
        elif sequence <= self._last:
            raise InvalidArchive(f"message sequence {sequence} out of order")
        if size > LARGEST_ENTRY:
            raise InvalidArchive()

    async def _entry(self, header: EntryHeader, headers: bytes, payload: bytes) -> None:
        if self.stream is None:
            await self._begin(headers + payload)
        elif self._consumersLeft:
            self._consumersLeft -= 1
            name = decoded(header.name[len(_CONSUMERS) :])
            await self._consumer(self.stream, name, headers + payload)
        elif header.isEnd:
            self.isOver = True
        else:
            self._message(self.stream, header, headers, payload)

    # The stream.

    async def _begin(self, document: bytes) -> None:
        """Create the stream with the first sequence of the archived one."""
        try:
            state = read(document, CopiedState, isStrict=False)
        except JsonError as error:
            raise InvalidArchive(f"error in state.json: {error}") from error
        account, config = self._account, self._config
        if config.name in account.streams:
            raise errors.STREAM_NAME_EXIST_RESTORE_FAILED()
        reserved = account.reserved(config.storage)
        size = max(config.max_bytes, state.bytes)
        checkLimits(config, account.limits, account.serverLimits, reserved, size)
        others = {name: stream.config for name, stream in account.streams.items()}
        checker = StreamChecker(others, account.limits, account.serverLimits)
        try:
            created = createdStream(StreamRequest(config=config), config.name, checker)
            await account.inSteps(created)
        except JetStreamError as error:
            text = f"error adding stream: {error.description} ({error.err_code})"
            raise InvalidArchive(text) from error
        self.stream = await openStream(account, config)
        self._created(self.stream)
        self._consumersLeft = state.consumer_count
        self._archivedLast = state.last_seq
        first = state.first_seq
        self._last = max(first - 1, 0)
        if first > 1:
            await self.stream.log.skipTo(first)

    async def _consumer(self, stream: Stream, name: str, document: bytes) -> None:
        account = self._account
        config, state = await account.inSteps(reading(name, document))
        checks = account.consumerChecker(stream)
        try:
            request = ConsumerRequest(stream.name, config)
            admitted = await account.inSteps(checks.admitted(request, lambda: name))
        except JetStreamError as error:
            text = f"failed to add consumer {goQuoted(name)}: {error.description}"
            raise InvalidArchive(f"{text} ({error.err_code})") from error
        admitted = _withMetadataOf(admitted, config)
        value = None if state is None else state.encode()
        consumer = await stream.addConsumer(name, admitted, account.now(), value)
        self._consumers.append((consumer, value))

    # Messages.

    def _message(self, stream: Stream, header: EntryHeader, headers: bytes, payload: bytes) -> None:
        if header.sequence > self._last + 1:
            self._append(stream)
            self._write(stream.log.skipTo(header.sequence))
        self._last = header.sequence
        if headers and stream.isInFile:
            headers = len(headers).to_bytes(4, "big") + headers
        self._entries.append((header.name, headers, payload, header.timestamp))

    def _append(self, stream: Stream) -> None:
        entries, self._entries = self._entries, []
        if entries:
            self._write(stream.log.append(entries))

    def _write(self, written: Deferred[Any]) -> None:
        self._writes.append(written)

    async def _stored(self) -> None:
        """Wait until all read content is durable, and check that it is not too much."""
        if self.stream is None:
            return
        await self._written(self.stream)
        if self.stream.isDeleted:
            raise InvalidArchive("stream deleted")
        total = self._account.limits.total(self._config.storage)
        if 0 <= total < self._account.usage(self._config.storage):
            raise _exceeded(self.stream)

    async def _written(self, stream: Stream) -> None:
        self._append(stream)
        writes, self._writes = self._writes, []
        failed: StoreError | None = None
        for write in writes:
            try:
                await write
            except StoreError as error:
                failed = failed or error
        if failed is not None and not stream.isDeleted:
            raise failed


def _consumerName(header: EntryHeader) -> str:
    return goQuoted(header.name[len(_CONSUMERS) :])


def _exceeded(stream: Stream) -> JetStreamError:
    if stream.isInFile:
        return errors.STORAGE_RESOURCES_EXCEEDED()
    return errors.MEMORY_RESOURCES_EXCEEDED()


def _withMetadataOf(config: ConsumerConfig, archived: ConsumerConfig) -> ConsumerConfig:
    """The configuration with the API level that the consumer was created with."""
    return replace(config, metadata=archived.metadata) if archived.metadata else config


def _corrupt(error: S2Error) -> InvalidArchive:
    text = "s2: corrupt input"
    return InvalidArchive(f"{text}, crc mismatch" if str(error) == "checksum" else text)
