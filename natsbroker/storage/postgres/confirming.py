"""
Statements and commits that the server may leave unanswered.

With C{synchronous_standby_names}, the server answers C{COMMIT} when a standby has confirmed it.
Until then the transaction keeps its locks and is not shown. If the backend is ended or its wait
cancelled, the server shows data that no standby has. So the backend is left alone. As after a lost
connection, the outcome is unknown until standbys confirm again.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.pq import ExecStatus

from natsbroker.interfaces.records import StoreFailed
from natsbroker.storage.postgres.schema import Connection

if TYPE_CHECKING:
    from psycopg import pq
    from psycopg.errors import Diagnostic

PATIENCE = 1.2
"""Seconds without an answer after which the server is asked why."""

AGAIN = 0.5
"""
The seconds until the server is asked again, if it waits for no standby. It has as long to answer.
"""

NO_STANDBY = "no standby of the database confirms what is committed"

NO_ANSWER = "the database does not answer"


def watched(
    statement: Generator[Any, Any, Any], whenLate: Callable[[], object]
) -> Generator[Any, Any, Any]:
    """
    Wait for the answer to a statement, as psycopg does. A server that has stopped responding keeps
    its connections open, so that only the missing answer shows it.

    @param whenLate: called every few seconds without an answer. An exception from it ends the
        statement.
    """
    due = time.monotonic() + PATIENCE
    try:
        wanted = next(statement)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= due:
                whenLate()
                due = time.monotonic() + AGAIN
            wanted = statement.send(ready)
    except StopIteration as end:
        return end.value


def confirmed(connection: Connection, isAwaitingStandby: Callable[[int], bool]) -> None:
    """
    Commit, once standbys have confirmed it where they have to.

    @raise StoreFailed: if the outcome is unknown; the connection is closed.
    """
    warnings: list[str] = []

    def noted(message: Diagnostic) -> None:
        # After a cancelled wait the answer is that of any commit, but for a warning.
        if message.severity_nonlocalized == "WARNING":
            warnings.append(message.message_primary or "")

    connection.add_notice_handler(noted)
    try:
        seconds = PATIENCE
        _send(connection, b"COMMIT")
        while (result := _answer(connection, seconds)) is None:
            if isAwaitingStandby(connection.info.backend_pid):
                raise StoreFailed(NO_STANDBY)
            seconds = AGAIN
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
        if result.command_status != b"COMMIT":
            raise StoreFailed("the database did not commit")
        if warnings:
            raise StoreFailed(NO_STANDBY)
    except StoreFailed:
        connection.close()
        raise
    finally:
        connection.remove_notice_handler(noted)


def awaitsStandby(connection: Connection, process: int) -> bool:
    """
    Whether a backend waits for a standby. L{StoreFailed} if this question is not answered either.
    """
    statement = "SELECT 1 FROM pg_stat_activity WHERE pid = %d AND wait_event = 'SyncRep'"
    _send(connection, (statement % process).encode())
    result = _answer(connection, AGAIN)
    if result is None:
        connection.close()
        raise StoreFailed(NO_ANSWER)
    if result.status == ExecStatus.FATAL_ERROR:
        raise errors.error_from_result(result)
    return bool(result.ntuples)


def _send(connection: Connection, statement: bytes) -> None:
    connection.pgconn.send_query(statement)
    while connection.pgconn.flush():
        _isReady(connection.pgconn, select.POLLOUT, AGAIN)


def _answer(connection: Connection, seconds: float) -> pq.abc.PGresult | None:
    """The answer to a statement; C{None} if there is none for some seconds."""
    pgconn = connection.pgconn
    while pgconn.is_busy():
        if not _isReady(pgconn, select.POLLIN, seconds):
            return None
        pgconn.consume_input()
    answer = None
    while (result := pgconn.get_result()) is not None:
        answer = result
    return answer


def _isReady(pgconn: pq.abc.PGconn, event: int, seconds: float) -> bool:
    # A broker with a thousand clients has descriptors that select() does not take.
    poll = select.poll()
    poll.register(pgconn.socket, event)
    return bool(poll.poll(seconds * 1000))
