"""
The readers of a stream's mirror or sources.
"""

from __future__ import annotations

from typing import Any

from natsbroker.jetstream.model.streamconfig import StreamConfig, StreamSource
from natsbroker.jetstream.sources.mirroring import MirrorReader
from natsbroker.jetstream.sources.sourcing import SourceReader
from natsbroker.jetstream.streams.streamcore import StreamCore

AT_ONCE = 16
"""The sources that are read at once."""

DELAY = 0.001
"""Seconds between the starts of further sources: many at once would block the reactor."""


class StreamIntake:
    """The readers of one stream."""

    def __init__(self, stream: StreamCore) -> None:
        self._stream = stream
        self._mirror: MirrorReader | None = None
        self._sources: dict[StreamSource, SourceReader] = {}

    def applyConfig(self, config: StreamConfig) -> None:
        """
        Read the origins that a configuration names. Those that it still names are read on
        undisturbed; a stream that loses its mirror is one like any other.
        """
        mirror = self._mirror
        if mirror is not None and mirror.source != config.mirror:
            mirror.end()
            self._mirror = mirror = None
        if mirror is None and config.mirror is not None:
            self._mirror = MirrorReader(self._stream, config.mirror)
            self._mirror.start()
        previous, self._sources = self._sources, {}
        begun = 0
        for source in config.sources:
            reader = previous.pop(source, None)
            if reader is None:
                reader = SourceReader(self._stream, source)
                reader.start(max(begun - AT_ONCE + 1, 0) * DELAY)
                begun += 1
            self._sources[source] = reader
        for reader in previous.values():
            reader.end()

    @property
    def isStoring(self) -> bool:
        """Whether messages of the mirror are not durable yet. Those of sources are published."""
        return self._mirror is not None and self._mirror.isStoring

    def close(self) -> None:
        """Read nothing more."""
        readers = [*self._sources.values(), *([] if self._mirror is None else [self._mirror])]
        for reader in readers:
            if self._stream.isDeleted:
                reader.end()
            else:
                reader.stop()

    def mirrorInfo(self) -> dict[str, Any] | None:
        """The mirror in infos; C{None} without one."""
        return None if self._mirror is None else self._mirror.info()

    def sourceInfos(self) -> list[dict[str, Any]]:
        """The sources in infos, in the order of the configuration."""
        return [source.info() for source in self._sources.values()]
