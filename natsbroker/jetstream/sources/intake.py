"""
The readers of a stream's mirror or sources.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from natsbroker.jetstream.model.gojson import EncodedList
from natsbroker.jetstream.model.sourcechecks import sourceKey
from natsbroker.jetstream.model.streamconfig import StreamConfig, StreamSource
from natsbroker.jetstream.sources.mirroring import MirrorReader
from natsbroker.jetstream.sources.origins import OriginReader
from natsbroker.jetstream.sources.sourcing import SourceReader
from natsbroker.jetstream.streams.streamcore import StreamCore
from natsbroker.steps import PIECE, Steps, pieces

AT_ONCE = 16
"""The sources that are read at once."""

DELAY = 0.001
"""Seconds between the starts of further sources: many at once would block the reactor."""

ENDED = 8
"""The sources whose reading is ended in one step. Each may send a request."""


class StreamIntake:
    """
    The readers of one stream.

    @ivar ended: fires when a closed stream has deleted its consumers.
    """

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._isClosed = False
        self._mirror: MirrorReader | None = None
        self._named: tuple[StreamSource, ...] | None = ()
        self._sources: dict[tuple[str | None, ...], SourceReader] = {}
        self.ended: Deferred[None] = succeed(None)

    def applying(self, config: StreamConfig) -> Steps[None]:
        """
        Read the origins that a configuration names. Those that stay continue undisturbed. A stream
        that loses its mirror becomes a normal stream.
        """
        mirror = self._mirror
        if mirror is not None and mirror.source != config.mirror:
            mirror.end()
            self._mirror = mirror = None
        if mirror is None and config.mirror is not None:
            self._mirror = MirrorReader(self._stream, config.mirror)
            self._mirror.start()
        if self._named != config.sources:
            self._named = None
            yield from self._replacing(config.sources)

    def _replacing(self, sources: tuple[StreamSource, ...]) -> Steps[None]:
        named: dict[tuple[str | None, ...], StreamSource] = {}
        for some in pieces(sources):
            named.update((sourceKey(source), source) for source in some)
            yield
        gone: list[tuple[str | None, ...]] = []
        for readers in pieces([*self._sources.items()]):
            gone += [key for key, reader in readers if named.get(key) != reader.source]
            yield
        for place, key in enumerate(gone):
            if place % ENDED == 0:
                yield
            # A stream that was closed meanwhile has no readers, and starts none.
            if self._isClosed:
                return
            self._sources.pop(key).end()
        added = [key for key in named if key not in self._sources]
        for begun, key in enumerate(added):
            if begun % AT_ONCE == 0:
                yield
            if self._isClosed:
                return
            reader = self._sources[key] = SourceReader(self._stream, named[key])
            reader.start(max(begun - AT_ONCE + 1, 0) * DELAY)
        ordered: dict[tuple[str | None, ...], SourceReader] = {}
        for keys in pieces([*named]):
            yield
            if self._isClosed:
                return
            ordered.update((key, self._sources[key]) for key in keys)
        self._sources, self._named = ordered, sources

    @property
    def isStoring(self) -> bool:
        """Whether messages of the mirror are not durable yet. Sources publish theirs."""
        return self._mirror is not None and self._mirror.isStoring

    def close(self) -> None:
        """Read nothing more."""
        self._isClosed = True
        sources, self._sources = self._sources, {}
        readers: list[OriginReader] = [*sources.values()]
        if self._mirror is not None:
            readers.append(self._mirror)
        for reader in readers:
            reader.halt()
        if readers:
            account = self._stream.account
            ending = account.inSteps(_ending(readers, self._stream.isDeleted))
            self.ended = account.run(ending)

    def mirrorInfo(self, areEncoded: bool = False) -> dict[str, Any] | None:
        """The mirror in infos; C{None} without one."""
        return None if self._mirror is None else self._mirror.info(areEncoded)

    def sourceInfos(self) -> Steps[list[dict[str, Any]]]:
        """The sources in infos, in the order of the configuration."""
        infos: list[dict[str, Any]] = []
        for some in pieces([*self._sources.values()]):
            infos += [source.info() for source in some]
            if len(some) == PIECE:
                yield
        return infos

    def showing(self) -> Steps[EncodedList]:
        """The same, encoded."""
        shown = EncodedList()
        for some in pieces([*self._sources.values()]):
            shown.add([source.info(True) for source in some])
            if len(some) == PIECE:
                yield
        return shown


def _ending(readers: list[OriginReader], isDeleted: bool) -> Steps[None]:
    # Ending very many readers at once would take long, too.
    while readers:
        reader = readers.pop()
        if isDeleted:
            reader.end()
        else:
            reader.stop()
        if len(readers) % ENDED == 0:
            yield
