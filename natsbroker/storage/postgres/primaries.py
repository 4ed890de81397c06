"""
The choice, of several servers, of the one that has all writes of the store.

A standby that is promoted begins a new timeline, with a higher number. A former primary that comes
back stays on its old one: it takes connections, answers reads, and accepts writes that will be
lost. So every connection is asked for its timeline. None below the highest timeline ever seen is
used.

Of several servers in the connection string libpq takes the first that answers. Here all are asked
at once, so that an old primary is not taken for the only one.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from twisted.logger import Logger

from natsbroker.storage.postgres.confirming import watched

LATE = 0.5
"""Seconds to wait for further servers when one has answered."""

FRESH = 10.0
"""Seconds in which servers need not be compared again in order to connect."""

_log = Logger(namespace="natsbroker.storage.postgres")


class Timeline(NamedTuple):
    system: int = 0
    number: int = 0


class Superseded(psycopg.OperationalError):
    """The server is on a timeline that another one has left behind."""


def timelineOf(connection: psycopg.Connection[Any]) -> Timeline:
    """The timeline of a server; nothing if it does not report one, as with some services."""
    try:
        row = connection.execute(
            "SELECT system_identifier, substring(pg_walfile_name(pg_current_wal_lsn()) FOR 8)"
            " FROM pg_control_system()"
        ).fetchone()
    except psycopg.OperationalError:
        raise
    except psycopg.Error:
        row = None
    return Timeline() if row is None else Timeline(row[0], int(row[1], 16))


class PrimaryConnection(psycopg.Connection[Any]):
    """
    @ivar timeline: the server's timeline at connecting. It stays the same, because a server takes
        no writes before its promotion.
    @ivar whenLate: called repeatedly while a statement has no answer. An exception from it ends the
        statement.
    """

    timeline = Timeline()
    whenLate: Callable[[], object] | None = None

    def wait(self, gen: Any, *settings: Any, **named: Any) -> Any:
        if self.whenLate is not None:
            gen = watched(gen, self.whenLate)
        return super().wait(gen, *settings, **named)


Open = Callable[[], PrimaryConnection]


class Primaries:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = Timeline()
        self._best = 0
        self._compared = float("-inf")
        self._left: set[Timeline] = set()

    def isCurrent(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether no connection with a later timeline was made since."""
        timeline, known = getattr(connection, "timeline", Timeline()), self._known
        if not timeline.number or not known.number:
            return True
        return bool(timeline.system == known.system and timeline.number >= known.number)

    def doubt(self) -> None:
        """Note a lost connection: servers are compared before the next one is made."""
        self._compared = float("-inf")

    def connect(self, servers: Sequence[Open]) -> PrimaryConnection:
        """
        Connect to the server with the latest timeline.

        @raise psycopg.OperationalError: if none answers, or only earlier ones do.
        """
        if len(servers) > 1 and time.monotonic() - self._compared > FRESH:
            return self.compare(servers)
        try:
            return self._admit(self._best, servers[self._best]())
        except psycopg.OperationalError:
            if len(servers) == 1:
                raise
            return self.compare(servers)

    def compare(self, servers: Sequence[Open]) -> PrimaryConnection:
        """Ask all servers, and connect to the one with the latest timeline."""
        if len(servers) == 1:
            return self._admit(0, servers[0]())
        connections = _connectAll(servers)
        place, best = max(connections.items(), key=lambda item: (item[1].timeline.number, -item[0]))
        for other in connections.values():
            if other is not best:
                self._leave(other, best)
        return self._admit(place, best)

    def _leave(self, other: PrimaryConnection, best: PrimaryConnection) -> None:
        isEarlier = other.timeline < best.timeline
        if isEarlier and other.timeline not in self._left:
            self._left.add(other.timeline)
            where, port, number = other.info.host, other.info.port, other.timeline.number
            _log.error(
                "{where} port {port} is an old primary, on timeline {number}: end it",
                where=where,
                port=port,
                number=number,
            )
        other.close()

    def _admit(self, place: int, connection: PrimaryConnection) -> PrimaryConnection:
        number = connection.timeline.number
        with self._lock:
            earlier, isCurrent = self._known, self.isCurrent(connection)
            if isCurrent:
                self._known = max(earlier, connection.timeline)
                self._best, self._compared = place, time.monotonic()
        if not isCurrent:
            connection.close()
            raise Superseded(
                f"the server is on timeline {number} of system {connection.timeline.system},"
                f" and the store was on timeline {earlier.number} of system {earlier.system}"
            )
        if 0 < earlier.number < number:
            _log.warn("The database has a new primary, on timeline {number}", number=number)
        return connection


def _connectAll(servers: Sequence[Open]) -> dict[int, PrimaryConnection]:
    """Connect to all servers at once, and close late connections. Return at least one, by place."""
    answers: queue.Queue[tuple[int, PrimaryConnection | Exception]] = queue.Queue()
    lock = threading.Lock()
    isOver = False

    def connect(place: int, server: Open) -> None:
        answer: PrimaryConnection | Exception
        try:
            answer = server()
        except Exception as failure:
            answer = failure
        with lock:
            if not isOver:
                answers.put((place, answer))
            elif isinstance(answer, PrimaryConnection):
                answer.close()

    for place, server in enumerate(servers):
        threading.Thread(target=connect, args=(place, server), daemon=True).start()
    connections: dict[int, PrimaryConnection] = {}
    error: Exception = psycopg.OperationalError("no server answers")
    for _ in servers:
        try:
            place, answer = answers.get(timeout=LATE if connections else None)
        except queue.Empty:
            break
        if isinstance(answer, PrimaryConnection):
            connections[place] = answer
        else:
            error = answer
    with lock:
        isOver = True
        while not answers.empty():
            _, answer = answers.get()
            if isinstance(answer, PrimaryConnection):
                answer.close()
    if not connections:
        raise error
    return connections
