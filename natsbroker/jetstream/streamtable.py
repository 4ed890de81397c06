"""The streams of an account by name, and the changes among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from natsbroker.jetstream.model.streamconfig import StreamConfig

T = TypeVar("T", bound=Any)


class StreamTable(dict[str, T]):
    """
    Streams by name. Changed by item assignment, C{del} and C{pop} only.

    @ivar channels: the names of those that are channels of NATS Streaming.
    @ivar changed: the names of streams whose subjects may differ from those in an index.
    """

    def __init__(self) -> None:
        super().__init__()
        self.channels: set[str] = set()
        self.changed: set[str] = set()

    def __setitem__(self, name: str, stream: T) -> None:
        super().__setitem__(name, stream)
        self.changed.add(name)
        if stream.isChannel:
            self.channels.add(name)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.changed.add(name)
        self.channels.discard(name)

    def pop(self, name: str, *default: Any) -> Any:
        stream = self.get(name)
        if name in self or not default:
            del self[name]
            return stream
        return default[0]


class StreamConfigs(Mapping[str, StreamConfig]):
    """The current configurations of streams. A stream that is being changed has its new one."""

    def __init__(self, streams: Mapping[str, Any], changing: Mapping[str, StreamConfig]) -> None:
        self._streams = streams
        self._changing = changing

    def __getitem__(self, name: str) -> StreamConfig:
        changing = self._changing.get(name)
        if changing is not None:
            return changing
        config: StreamConfig = self._streams[name].config
        return config

    def __iter__(self) -> Iterator[str]:
        yield from self._streams
        yield from (name for name in self._changing if name not in self._streams)

    def __len__(self) -> int:
        return len(self._streams) + sum(name not in self._streams for name in self._changing)
