"""A worker's store. Other workers learn of its streams before these exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from twisted.internet.defer import Deferred, ensureDeferred
from zope.interface import implementer

from natsbroker.interfaces import IStateStore, IStoreWatcher, IStreamLog, IStreamStore
from natsbroker.interfaces.records import StoreError

_STREAM = b"stream/"

_SPACE = "jetstream/"

Rows = Mapping[bytes, bytes | None]

Place = Callable[[str, Rows], Awaitable[None]]
"""Sets an account's rows in the table, by their keys in the account's state."""


@implementer(IStateStore)
class PlacedStates:
    """
    The state of one account's streams.

    The row of a configuration in the table is made before the configuration, and deleted after it.
    So there is a row for each existing stream.
    """

    def __init__(self, inner: IStateStore, account: str, place: Place) -> None:
        self._inner = inner
        self._account = account
        self._place = place
        self.load = inner.load

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Rows) -> Deferred[None]:
        made = {key: value for key, value in changes.items() if key.startswith(_STREAM)}
        if not made:
            return self._inner.change(changes)
        gone = {key: made.pop(key) for key, value in list(made.items()) if value is None}
        return ensureDeferred(self._change(changes, made, gone))

    async def _change(self, changes: Rows, made: Rows, gone: Rows) -> None:
        if made:
            await self._place(self._account, made)
        try:
            await self._inner.change(changes)
        except StoreError:
            stored = await self._inner.load(_STREAM)
            await self._place(self._account, {key: stored.get(key) for key in made})
            raise
        if gone:
            await self._place(self._account, gone)


@implementer(IStreamStore)
class PlacedStore:
    """A store whose accounts' states are L{PlacedStates}."""

    def __init__(self, inner: IStreamStore, place: Place) -> None:
        self._inner = inner
        self._place = place

    def logs(self) -> Deferred[list[str]]:
        return self._inner.logs()

    def open(self, name: str, create: bool = True) -> Deferred[IStreamLog]:
        return self._inner.open(name, create)

    def drop(self, name: str) -> Deferred[None]:
        return self._inner.drop(name)

    def states(self, space: str) -> IStateStore:
        states = self._inner.states(space)
        if not space.startswith(_SPACE):
            return states
        return PlacedStates(states, space.removeprefix(_SPACE), self._place)

    def watch(self, watcher: IStoreWatcher) -> Callable[[], None]:
        return self._inner.watch(watcher)

    def close(self) -> Deferred[None]:
        return self._inner.close()
