"""
State that is stored twice. A stream could not be found without its configuration, those of its
consumers, and the positions of its sources.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker.interfaces import IStateStore

_COPY = b"copy/"
_COPIED = (b"stream/", b"consumer/", b"sources/")


@implementer(IStateStore)
class CopiedStates:
    """
    A space of state that survives the damage of one value. Clients would lose all messages of a
    stream without its configuration.
    """

    def __init__(self, states: IStateStore) -> None:
        self._states = states

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        loading: Deferred[dict[bytes, bytes]] = self._states.load(prefix)
        if not prefix:
            return loading.addCallback(self._merged)
        return loading.addCallback(
            lambda values: self._states.load(_COPY + prefix).addCallback(
                lambda copies: self._merged({**copies, **values})
            )
        )

    def _merged(self, values: dict[bytes, bytes]) -> dict[bytes, bytes]:
        current = {}
        for key, value in values.items():
            if key.startswith(_COPY):
                current[key[len(_COPY) :]] = value
        current.update((key, value) for key, value in values.items() if not key.startswith(_COPY))
        return {key: current[key] for key in sorted(current)}

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        if key.startswith(_COPIED):
            return self.change({key: value})
        return self._states.put(key, value)

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        copies = {_COPY + key: value for key, value in changes.items() if key.startswith(_COPIED)}
        return self._states.change({**changes, **copies})
