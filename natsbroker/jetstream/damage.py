"""
Streams and consumers whose configuration cannot be read. Only these are left out, and they keep
their messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.interfaces import IStoreWatcher, IStreamStore
from natsbroker.interfaces.records import StoreError
from natsbroker.jetstream.model.documents import documentOf
from natsbroker.steps import finish

_log = Logger(namespace="natsbroker.jetstream")

T = TypeVar("T")


class Unreadable(StoreError):
    """
    The error of a value in the state that cannot be read.

    @ivar name: the stream or consumer; empty if its name cannot be read either.
    """

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.name = name


def readConfig(value: bytes, kind: type[T]) -> tuple[dict[str, Any], T]:
    """
    Read the stored value of a stream or consumer.

    @return: the whole value, and the configuration in it.
    @raise Unreadable: if that is not possible.
    """
    name = ""
    try:
        kept = json.loads(value)
        name = str(kept["config"].get("name", "") or kept.get("name", ""))
        config = finish(documentOf(kept["config"], kind))
        int(kept["created"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"its configuration cannot be read ({error})"
        raise Unreadable(reason, name) from error
    return kept, config


@implementer(IStoreWatcher)
class LostState:
    """
    Watches a store for values that are lost.

    @ivar spaces: the spaces with lost values; an empty name stands for all.
    """

    def __init__(self) -> None:
        self.spaces: set[str] = set()

    def isIn(self, space: str) -> bool:
        return bool(self.spaces & {space, ""})

    def recordsDamaged(self, log: str, start: int, stop: int, reason: str) -> None:
        """Ignored: messages have their own reports."""

    def stateDamaged(self, space: str, key: bytes, reason: str) -> None:
        self.spaces.add(space)

    def logQuarantined(self, log: str, reason: str) -> None:
        """Ignored: logs have their own reports."""

    def writesStopped(self, reason: str) -> None:
        """Ignored: about writes, not about stored values."""

    def writesResumed(self) -> None:
        """Ignored: about writes, not about stored values."""

    def logLost(self, log: str) -> None:
        """Ignored: about writes, not about stored values."""


@contextmanager
def lostState(store: IStreamStore) -> Iterator[LostState]:
    """Watch a store while its state is loaded."""
    lost = LostState()
    stop = store.watch(lost)
    try:
        yield lost
    finally:
        stop()


class DamagedStreams(dict[str, str]):
    """The damaged streams of one account, with the reasons."""

    def note(self, account: str, stream: str, reason: str) -> None:
        """Remember a damaged stream, and log it once."""
        if stream not in self:
            self[stream] = reason
            _log.error(
                "Stream {stream} of account {account} is damaged, and is not served: {reason}",
                stream=stream,
                account=account,
                reason=reason,
            )
