"""
Reads of the database by the reading threads.

Each read sees one moment of the database, after the request: as a single statement, or in a
L{snapshot}. Reads take no upper bound from the reactor's memory. A limit may have removed a record
for a newer one that the reactor does not know yet, and such a read would see neither. Each record
is verified. One that does not match its checksum is left out, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from psycopg import IsolationLevel

from natsbroker.interfaces.records import Record
from natsbroker.storage.exports import Page
from natsbroker.storage.postgres.schema import (
    LARGEST,
    LONGEST_KEY,
    Connection,
    checksum,
    subjectKey,
)
from natsbroker.storage.records import HEAD_SIZE, Damaged, decode
from natsbroker.subjects.searching import NEAR, PatternSearch

LOOKED_AT = 8192
"""The number of records, or subjects, that one call looks at in search of subjects."""

MOST_AT_ONCE = 4096
"""The records that one statement gives."""

INDEXED_WHOLE = 800
"""The length of subjects' beginnings by which those of a pattern are found."""

SUBJECTS_AT_ONCE = 1000
"""The subjects that one statement gives."""

_SUBJECT_OFFSET = HEAD_SIZE + 1
"""Where the subject stands in a record, as SQL counts."""


class Span(NamedTuple):
    """
    @ivar first: a sequence. The reactor's thread may pass the first one that it knows, because
        sequences below the first never come back.
    """

    identity: int
    first: int
    last: int = LARGEST


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        yield


def _lastIn(connection: Connection, identity: int) -> int:
    row = connection.execute("SELECT last FROM log WHERE id = %s", (identity,)).fetchone()
    return 0 if row is None else int(row[0])


def wholeRecord(identity: int, sequence: int, data: bytes) -> Record | None:
    """A record that is stored under a sequence; C{None} if it is damaged."""
    try:
        record = decode(data, 0, len(data), identity)
    except Damaged:
        return None
    # Otherwise it stands in the place of another.
    return record if record.sequence == sequence else None


def _decode(page: Page, identity: int, sequence: int, data: bytes) -> int:
    record = wholeRecord(identity, sequence, data)
    if record is None:
        page.damaged.append(sequence)
        return 0
    page.records.append(record)
    return len(data) - HEAD_SIZE


def fetchRecords(connection: Connection, span: Span, limit: int, maxBytes: int) -> Page:
    page = Page([], 0, [])
    sequence = span.first
    while len(page.records) < limit and maxBytes > 0 and sequence <= span.last:
        number = min(limit - len(page.records), MOST_AT_ONCE)
        rows = connection.execute(
            "SELECT sequence, data FROM (SELECT sequence, data, sum(octet_length(data) - %s)"
            " OVER (ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
            " FROM (SELECT sequence, data FROM record WHERE log = %s AND sequence >= %s"
            " AND sequence <= %s ORDER BY sequence LIMIT %s) AS page) AS summed"
            " WHERE coalesce(before, 0) < %s ORDER BY sequence",
            (HEAD_SIZE, span.identity, sequence, span.last, number, maxBytes),
            binary=True,
        ).fetchall()
        for stored, data in rows:
            maxBytes -= _decode(page, span.identity, stored, data)
        # A later page may see a later moment: what replaces a record is always behind it.
        sequence = rows[-1][0] + 1 if rows else span.last + 1
    return page._replace(next=sequence)


def fetchLast(connection: Connection, span: Span, subject: bytes) -> Page:
    page = Page([], 0, [])
    log, key, first = span.identity, subjectKey(subject), span.first
    row = connection.execute(
        "(SELECT sequence, data FROM record WHERE log = %(log)s AND subject = %(key)s"
        " AND sequence >= %(first)s ORDER BY sequence DESC LIMIT 1)"
        " UNION ALL (SELECT sequence, NULL FROM damaged WHERE log = %(log)s AND subject = %(key)s"
        " AND sequence >= %(first)s ORDER BY sequence DESC LIMIT 1)"
        " ORDER BY sequence DESC LIMIT 1",
        {"log": log, "key": key, "first": first},
        binary=True,
    ).fetchone()
    if row is not None and row[1] is None:
        page.damaged.append(row[0])
    elif row is not None:
        _decode(page, log, *row)
    return page


def findTime(connection: Connection, span: Span, timestamp: int) -> int:
    """
    The first record that is not older than a time; the sequence after the last if there is none.
    """
    low, high = span.first, span.last + 1
    answer = high
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(
            "SELECT sequence, time FROM record WHERE log = %s AND sequence >= %s"
            " AND sequence < %s ORDER BY sequence LIMIT 1",
            (span.identity, middle, high),
        ).fetchone()
        if row is None:
            high = middle
        elif row[1] >= timestamp:
            answer, high = row[0], middle
        else:
            low = row[0] + 1
    return answer


def fetchMatching(
    connection: Connection,
    span: Span,
    wanted: Callable[[bytes], bool],
    limit: int,
    maxBytes: int,
) -> Page:
    with snapshot(connection):
        return _fetchMatching(connection, span, wanted, limit, maxBytes)


def _fetchMatching(
    connection: Connection,
    span: Span,
    wanted: Callable[[bytes], bool],
    limit: int,
    maxBytes: int,
) -> Page:
    rows = connection.execute(
        "SELECT sequence, subject, octet_length(data) FROM record WHERE log = %s"
        " AND sequence >= %s ORDER BY sequence LIMIT %s",
        (span.identity, span.first, LOOKED_AT),
        binary=True,
    ).fetchall()
    verdicts: dict[bytes, bool] = {}
    chosen: list[int] = []
    isAll = len(rows) < LOOKED_AT
    last = _lastIn(connection, span.identity) if isAll else rows[-1][0]
    following = max(last + 1, span.first)
    for sequence, key, length in rows:
        verdict = verdicts.get(key)
        if verdict is None:
            # Of a long subject there is only the beginning here.
            verdict = verdicts[key] = len(key) == LONGEST_KEY or wanted(key)
        if verdict:
            chosen.append(sequence)
            maxBytes -= length - HEAD_SIZE
            if len(chosen) >= limit or maxBytes <= 0:
                following = sequence + 1
                break
    page = Page([], following, [])
    if chosen:
        for sequence, data in connection.execute(
            "SELECT sequence, data FROM record WHERE log = %s AND sequence = ANY(%s::bigint[])"
            " ORDER BY sequence",
            (span.identity, chosen),
            binary=True,
        ):
            _decode(page, span.identity, sequence, data)
    records = [record for record in page.records if wanted(record.subject)]
    return page._replace(records=records)


def distinctSubjects(
    connection: Connection, identity: int, start: bytes, limit: int
) -> list[bytes]:
    """The subjects of a log as they are indexed, in the order of their bytes."""
    rows = connection.execute(
        "WITH RECURSIVE found (subject) AS ("
        " (SELECT subject FROM record WHERE log = %(log)s AND subject >= %(start)s"
        " ORDER BY subject LIMIT 1)"
        " UNION ALL SELECT (SELECT subject FROM record WHERE log = %(log)s"
        " AND record.subject > found.subject ORDER BY subject LIMIT 1)"
        " FROM found WHERE found.subject IS NOT NULL)"
        " SELECT subject FROM found WHERE subject IS NOT NULL LIMIT %(limit)s",
        {"log": identity, "start": start, "limit": limit},
        binary=True,
    )
    return [row[0] for row in rows]


def _tallies(
    connection: Connection, span: Span, keys: Sequence[bytes]
) -> dict[bytes, tuple[int, int, int]]:
    rows = connection.execute(
        "SELECT subject, count(*), min(sequence), max(sequence) FROM record WHERE log = %s"
        " AND subject = ANY(%s::bytea[]) AND sequence >= %s GROUP BY subject",
        (span.identity, list(keys), span.first),
        binary=True,
    )
    return {key: (count, first, last) for key, count, first, last in rows}


def _wholeSubject(connection: Connection, identity: int, key: bytes) -> bytes:
    if len(key) < LONGEST_KEY:
        return key
    row = connection.execute(
        "SELECT substring(data FROM %s FOR get_byte(data, 4) + 256 * get_byte(data, 5))"
        " FROM record WHERE log = %s AND subject = %s LIMIT 1",
        (_SUBJECT_OFFSET, identity, key),
        binary=True,
    ).fetchone()
    return b"" if row is None else bytes(row[0])


class SubjectPage(NamedTuple):
    tallies: list[tuple[bytes, tuple[int, int, int]]]
    following: bytes


def fetchTallies(
    connection: Connection,
    span: Span,
    search: PatternSearch,
    prefix: bytes,
    after: bytes,
    limit: int,
) -> SubjectPage:
    """
    Tallies of matching subjects. After much work the search stops early, so that others have a
    turn.

    @param prefix: the prefix of them all, up to the length that is indexed as a whole.
    @param limit: the most to return; 0 for all.
    """
    with snapshot(connection):
        listed: list[tuple[bytes, tuple[int, int, int]]] = []
        start = max(subjectKey(after) + b"\0", prefix) if after else prefix
        step, looked = NEAR, 0
        while True:
            keys = distinctSubjects(connection, span.identity, start, step + 1)
            isEnd = len(keys) <= step or not keys[-1].startswith(prefix)
            ahead = keys.pop() if len(keys) > step else b""
            chosen = {}
            for key in keys:
                if key.startswith(prefix):
                    subject = _wholeSubject(connection, span.identity, key)
                    if subject > after and search.select((subject,)):
                        chosen[key] = subject
            tallies = _tallies(connection, span, list(chosen)) if chosen else {}
            listed += [(chosen[key], tallies[key]) for key in chosen if key in tallies]
            if limit and len(listed) >= limit:
                return SubjectPage(listed[:limit], b"")
            looked += len(keys)
            if looked >= LOOKED_AT and not isEnd:
                last = _wholeSubject(connection, span.identity, keys[-1]) or keys[-1]
                return SubjectPage(listed, last)
            place = ahead
            # Of longer subjects, only the beginning is known.
            if not isEnd and len(keys[-1]) < LONGEST_KEY:
                place = search.following(keys[-1])[:INDEXED_WHOLE]
            if isEnd or not place:
                return SubjectPage(listed, b"")
            step = NEAR if place > ahead else min(2 * step, SUBJECTS_AT_ONCE)
            start = max(place, ahead)


def fetchState(connection: Connection, space: int, prefix: bytes) -> list[tuple[bytes, bytes, int]]:
    """The values of state in the order of their keys, with checksums."""
    border = prefix.rstrip(b"\xff")
    condition, arguments = "", [space, prefix]
    if border:
        condition = " AND key < %s"
        arguments.append(border[:-1] + bytes((border[-1] + 1,)))
    rows: list[tuple[bytes, bytes, int]] = connection.execute(
        f"SELECT key, value, checksum FROM state WHERE space = %s AND key >= %s{condition}"
        " ORDER BY key",
        arguments,
        binary=True,
    ).fetchall()
    return rows


def fetchSpaces(connection: Connection, prefix: str, keys: bytes) -> dict[str, dict[bytes, bytes]]:
    """The state of several spaces, even of those that others hold. Damaged values are left out."""
    start = prefix.encode()
    values: dict[str, dict[bytes, bytes]] = {}
    for identity, name, key, value, expected in connection.execute(
        "SELECT space.id, space.name, key, value, checksum FROM space JOIN state"
        " ON state.space = space.id WHERE substring(space.name FOR %s) = %s"
        " AND substring(key FOR %s) = %s ORDER BY space.name, key",
        (len(start), start, len(keys), keys),
        binary=True,
    ):
        if checksum(identity, key, value) == expected:
            values.setdefault(name.decode(), {})[key] = value
    return values


def readHolds(connection: Connection, identity: int) -> dict[str, int]:
    rows: list[Any] = connection.execute(
        "SELECT name, floor FROM hold WHERE log = %s", (identity,), binary=True
    ).fetchall()
    return {name.decode(): floor for name, floor in rows}
