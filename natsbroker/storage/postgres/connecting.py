"""
Connections to the database, and its errors. Texts for clients name no hosts, users or tables; the
whole error is attached as the cause. Connections make commits durable, whatever the server's
default is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from natsbroker.interfaces.records import StoreError, StoreFailed, StoreFull
from natsbroker.storage.postgres.primaries import (
    Primaries,
    PrimaryConnection,
    Superseded,
    timelineOf,
)
from natsbroker.storage.postgres.schema import Connection

T = TypeVar("T")

_DEFAULTS: dict[str, object] = {
    "target_session_attrs": "read-write",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15000,
}
"""The defaults of connections: a server that is gone is noticed in seconds."""

_PLACES = ("host", "hostaddr", "port")
"""The settings that have a list, with a part for each server."""

OLDEST_SERVER = 120000
"""PostgreSQL 12, as the server writes it."""


@dataclass(frozen=True, slots=True)
class Database:
    """
    @ivar source: a URI or a list of settings, as libpq understands it.
    @ivar lease: seconds that a lease lasts.
    @ivar primaries: the servers that have all writes.
    """

    SCHEMA: ClassVar[str] = "natsbroker"
    LEASE: ClassVar[float] = 5.0

    source: str = field(repr=False)
    schema: str = SCHEMA
    lease: float = LEASE
    readers: int = 2
    primaries: Primaries = field(default_factory=Primaries, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            conninfo_to_dict(self.source)
        except psycopg.ProgrammingError:
            # libpq's message may hold a password.
            raise ValueError("source is not a connection string") from None
        if not 0 < len(self.schema.encode()) < 64 or "\0" in self.schema:
            raise ValueError(f"{self.schema!r} cannot be the name of a schema")
        if not 0.5 <= self.lease <= 3600:
            raise ValueError(f"a lease of {self.lease:g} seconds is not between 0.5 and 3600")
        if self.readers < 1:
            raise ValueError("at least one connection must read")

    def connect(self, who: str) -> PrimaryConnection:
        return self.primaries.connect(self._servers(who))

    def compare(self, who: str) -> None:
        """
        Find the server that is the primary, so that connections to others are not used any more.
        """
        self.primaries.compare(self._servers(who)).close()

    def _servers(self, who: str) -> list[Callable[[], PrimaryConnection]]:
        settings: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(self.source)}
        settings["application_name"] = who
        if settings["target_session_attrs"] != "primary":
            settings["target_session_attrs"] = "read-write"
        lists = {name: str(settings[name]).split(",") for name in _PLACES if settings.get(name)}
        count = max(map(len, lists.values()), default=1)
        return [
            partial(
                self._open,
                # A single port is that of all hosts.
                {
                    **settings,
                    **{name: servers[place % len(servers)] for name, servers in lists.items()},
                },
            )
            for place in range(count)
        ]

    def _open(self, settings: dict[str, Any]) -> PrimaryConnection:
        connection = PrimaryConnection.connect(**settings, autocommit=True)
        try:
            self._setUp(connection)
            connection.timeline = timelineOf(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _setUp(self, connection: Connection) -> None:
        if connection.info.server_version < OLDEST_SERVER:
            raise StoreFailed("the database is older than PostgreSQL 12")
        connection.execute(SQL("SET search_path TO {}").format(Identifier(self.schema)))
        # A broker that stands still in a transaction must not keep others from taking over.
        connection.execute(
            SQL("SET idle_in_transaction_session_timeout TO {}").format(round(self.lease * 1000))
        )
        [synchronous] = connection.execute("SHOW synchronous_commit").fetchone() or ("off",)
        if synchronous not in ("on", "remote_apply"):
            connection.execute("SET synchronous_commit TO on")


def isLost(connection: Connection) -> bool:
    return bool(connection.closed or connection.broken)


def asStoreError(failure: Exception) -> StoreError:
    if isinstance(failure, StoreError):
        return failure
    if isinstance(failure, errors.DiskFull):
        error: StoreError = StoreFull("the database has no space left")
    elif isinstance(failure, psycopg.Error) and failure.sqlstate:
        error = StoreFailed(f"the database failed: {type(failure).__name__} ({failure.sqlstate})")
    elif isinstance(failure, Superseded):
        error = StoreFailed("the database that answers is an old primary")
    elif isinstance(failure, psycopg.OperationalError):
        error = StoreFailed("the database cannot be reached")
    else:
        error = StoreFailed(f"the store failed: {type(failure).__name__}")
    error.__cause__ = failure
    return error


class Readers:
    def __init__(self, database: Database, who: str) -> None:
        self._database = database
        self._who = who
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function with a connection, and again with a new one if that is lost."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None and not self._database.primaries.isCurrent(connection):
            connection.close()
            connection = None
        try:
            if connection is not None:
                try:
                    return function(connection, *arguments)
                except psycopg.OperationalError:
                    if not isLost(connection):
                        raise
                    self._database.primaries.doubt()
            connection = self._database.connect(self._who)
            return function(connection, *arguments)
        except psycopg.Error as failure:
            raise asStoreError(failure) from failure
        finally:
            if connection is not None:
                self._giveBack(connection)

    def _giveBack(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and not isLost(connection):
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all connections. Those in use are closed when their call is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
