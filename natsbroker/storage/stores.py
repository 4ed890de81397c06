"""Finding and opening stores. Modules that only one store needs are imported when it is opened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from natsbroker.interfaces import IBrokerHost, IOptionsCheck, IStoreOpener, IStreamStore
from natsbroker.runtime.pluginoptions import PluginOptionError, refuseOthers
from natsbroker.runtime.plugins import Plugins
from natsbroker.storage.lmdb.encryption.keyring import Encryption
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.storage.memory import MemoryStore
from natsbroker.wire.durations import secondsFrom

if TYPE_CHECKING:
    from natsbroker.storage.postgres.connecting import Database


def monotonicOf(reactor: Any) -> Callable[[], float]:
    """A monotonic clock in seconds: the reactor's own, unless that is the wall clock."""
    if reactor.seconds is time.time:
        return time.monotonic
    seconds: Callable[[], float] = reactor.seconds
    return seconds


def wallClockOf(reactor: Any) -> Callable[[], int]:
    """The wall clock in nanoseconds. It follows the reactor's clock if that is not the real one."""
    if reactor.seconds is time.time:
        return time.time_ns
    return lambda: round(reactor.seconds() * 1_000_000_000)


def _size(section: Mapping[str, Any]) -> int:
    size = section.get("max_size", 0)
    if type(size) is not int or size < 0:
        raise PluginOptionError("max_size", f"max_size must be a number of bytes, not {size!r}")
    return size


@implementer(IStoreOpener, IOptionsCheck)
class MemoryOpener:
    """Option: C{max_size}, in bytes."""

    name = "memory"

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        # nats-streaming-server ignores the folder too.
        refuseOthers(section, "max_size", "dir")
        _size(section)

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        self.checkOptions(section, None)
        store: IStreamStore = MemoryStore(host.reactor, _size(section), wallClockOf(host.reactor))
        return succeed(store)


@implementer(IStoreOpener, IOptionsCheck)
class LMDBOpener:
    """
    Options: C{dir}, the folder; C{max_size}, in bytes; C{sync_interval}, C{always} or seconds or a
    duration. C{encryption}, an L{Encryption}, is not an option in a file, because keys have their
    own place there.
    """

    name = "lmdb"

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        refuseOthers(section, "max_size", "dir", "sync_interval", "encryption")
        directory = section.get("dir")
        if not isinstance(directory, str) or not directory:
            raise PluginOptionError("dir", "a store on disk needs dir")
        _size(section)
        _syncInterval(section)
        if not isinstance(section.get("encryption"), Encryption | None):
            raise PluginOptionError("encryption", "set encryption_key of jetstream instead")

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        self.checkOptions(section, None)
        directory = str(section["dir"])
        clock = wallClockOf(host.reactor)
        readers = getattr(host, "readers", host.reactor)
        interval = _syncInterval(section)
        encryption = section.get("encryption")
        opening = openLMDB(
            host.reactor, directory, _size(section), clock, readers, interval, encryption
        )
        return opening  # type: ignore[return-value]


@implementer(IStoreOpener, IOptionsCheck)
class PostgresOpener:
    """
    Options, the first five with nats-streaming-server's names: C{driver}, which must be C{postgres}
    if it is given; C{source}, the connection string; C{max_open_conns}, how many connections, at
    least 3; C{no_caching} and C{bulk_insert_limit}, which have no effect; C{schema}, the schema to
    use; C{lease}, seconds or a duration.
    """

    name = "postgres"
    aliases = ("postgresql",)

    def checkOptions(self, section: Mapping[str, Any], settings: Any) -> None:
        _databaseOf(section)

    def openStore(self, host: IBrokerHost, section: Mapping[str, Any]) -> Deferred[IStreamStore]:
        database = _databaseOf(section)
        from natsbroker.storage.postgres.store import openPostgres

        reactor = host.reactor
        opening = openPostgres(reactor, database, wallClockOf(reactor), monotonicOf(reactor))
        return opening  # type: ignore[return-value]


def _databaseOf(section: Mapping[str, Any]) -> Database:
    accepted = ("driver", "no_caching", "bulk_insert_limit", "dir")
    refuseOthers(section, "source", "max_open_conns", "schema", "lease", *accepted)
    driver = section.get("driver", "postgres")
    if driver not in ("postgres", "postgresql"):
        raise PluginOptionError("driver", f'driver "{driver}" is not supported, only "postgres" is')
    source = section.get("source")
    if not isinstance(source, str) or not source:
        raise PluginOptionError("source", "a store in a database needs source")
    try:
        from natsbroker.storage.postgres.connecting import Database
    except ImportError as missing:
        why = f"psycopg is needed: pip install natsbroker[postgres] ({missing})"
        raise ValueError(why) from missing
    schema = section.get("schema", Database.SCHEMA)
    if not isinstance(schema, str):
        raise PluginOptionError("schema", f"schema must be a name, not {schema!r}")
    lease = _seconds("lease", section.get("lease", Database.LEASE))
    return Database(source, schema, lease, _readers(section.get("max_open_conns", 0)))


def _seconds(name: str, value: object) -> float:
    if isinstance(value, str):
        try:
            return secondsFrom(value)
        except ValueError as error:
            raise PluginOptionError(name, str(error)) from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PluginOptionError(name, f"{name} must be a duration, not {value!r}")
    return value


def _syncInterval(section: Mapping[str, Any]) -> float:
    value = section.get("sync_interval", "always")
    isAlways = isinstance(value, str) and value.lower() == "always"
    return 0.0 if isAlways else max(0.0, _seconds("sync_interval", value))


def _readers(connections: object) -> int:
    """The number of connections that read. Of the others, one writes and one renews leases."""
    if connections == 0:
        return 2
    if isinstance(connections, bool) or not isinstance(connections, int) or connections < 3:
        text = f"max_open_conns must be at least 3, or 0, not {connections!r}"
        raise PluginOptionError("max_open_conns", text)
    return min(connections - 2, 16)


READY_MADE: tuple[IStoreOpener, ...] = (MemoryOpener(), LMDBOpener(), PostgresOpener())


def storeOpener(name: str, plugins: Plugins, key: str = "") -> IStoreOpener:
    """C{key} names the store in the error, a L{natsbroker.runtime.plugins.PluginError}."""
    for opener in READY_MADE:
        if name in getattr(opener, "aliases", ()):
            return opener
    known = replace(plugins, builtIn={**plugins.builtIn, IStoreOpener: lambda: READY_MADE})
    named: IStoreOpener = known.named(IStoreOpener, name, key=key)
    return named
