"""
Finding and opening stores.

Promises: a store that is named is one of ours or a plugin's, or is named as missing, with those
that there are. A store on disk is in a folder of its own, made if it is not there.
Must never know: what is kept in a store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from natsbroker.hosting.plugins import Plugins
from natsbroker.interfaces import IBrokerHost, IStoreOpener, IStreamStore
from natsbroker.store.lmdb.store import openLMDB
from natsbroker.store.memory import MemoryStore

__all__ = ["LMDBOpener", "MemoryOpener", "monotonicOf", "storeOpener", "wallClockOf"]


def monotonicOf(reactor: Any) -> Callable[[], float]:
    """
    A clock in seconds that nobody sets: the reactor's own, unless that is the wall clock.
    """
    if reactor.seconds is time.time:
        return time.monotonic
    seconds: Callable[[], float] = reactor.seconds
    return seconds


def wallClockOf(reactor: Any) -> Callable[[], int]:
    """
    The wall clock in nanoseconds, by the reactor's clock where that is another one.
    """
    if reactor.seconds is time.time:
        return time.time_ns
    return lambda: round(reactor.seconds() * 1_000_000_000)


def _refuseOthers(section: Mapping[str, Any], *known: str) -> None:
    for name in section:
        if name not in known:
            raise ValueError(f'unknown option "{name}"')


def _size(section: Mapping[str, Any]) -> int:
    size = section.get("max_size", 0)
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"max_size must be a number of bytes, not {size!r}")
    return size


@implementer(IStoreOpener)
class MemoryOpener:
    """
    Stores in memory. Option: C{max_size}, in bytes.
    """

    name = "memory"

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        """
        See L{IStoreOpener}.
        """
        # nats-streaming-server ignores the folder too.
        _refuseOthers(section, "max_size", "dir")
        store: IStreamStore = MemoryStore(host.reactor, _size(section), wallClockOf(host.reactor))
        return succeed(store)


@implementer(IStoreOpener)
class LMDBOpener:
    """
    Stores on disk. Options: C{dir}, the folder; C{max_size}, in bytes.
    """

    name = "lmdb"

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        """
        See L{IStoreOpener}.
        """
        _refuseOthers(section, "max_size", "dir")
        directory = section.get("dir")
        if not isinstance(directory, str) or not directory:
            raise ValueError("a store on disk needs dir")
        opening = openLMDB(host.reactor, directory, _size(section), wallClockOf(host.reactor))
        return opening  # type: ignore[return-value]


def storeOpener(name: str, plugins: Plugins) -> IStoreOpener:
    """
    Find what opens stores of a name.

    @raise natsbroker.hosting.plugins.PluginError: if there is no such store.
    """
    for opener in (MemoryOpener(), LMDBOpener()):
        if opener.name == name:
            return opener
    found: IStoreOpener = plugins.named(IStoreOpener, name)
    return found
