"""
The rows of ordinary operations: what one costs the server, and how many are done a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.figures import Bound, Unit, atMost
from benchmarks.row import Figure, Row

__all__ = ["LISTED", "OPERATIONS", "SYNCS", "syncOf"]

SYNCS: Mapping[str, str] = {
    "default": "jetstream",
    "always": "jetstream-synced",
    "2m": "jetstream-relaxed",
}
"""The settings of JetStream by C{sync_interval}, of which C{default} is C{always} in ours and C{2m}
in nats-server."""

LISTED = {"info": 1600, "consumer": 320, "stream": 160}
"""The operations that are compared beside few streams and many, and how often each is done."""

CLIENTS = ("--in-flight", "16")

CORE = (
    ("request", "request and reply", ()),
    ("connect", "connect and close", ("--count", "8000")),
)

STORED = (
    ("publish", "publish", (), ()),
    ("publish-id", "publish with Nats-Msg-Id", (), ()),
    ("put", "key-value put", (), ()),
    ("put-ttl", "key-value put with a time to live", (), ()),
    ("get", "key-value get", (), ()),
    ("update", "key-value update (compare and set)", (), ()),
    ("fetch-1", "work queue, fetch 1 and ack_sync", ("32000",), ("4000",)),
    ("fetch-10", "work queue, fetch 10 and ack", ("4800",), ("800",)),
    ("push", "push consumer, one message outstanding", ("32000",), ("4000",)),
    ("watch", "watch of a bucket with 100 keys", (), ()),
    ("put-watched", "key-value put with a watch of the key", (), ()),
    ("info", "stream info", (), ()),
    ("consumer", "consumer create and delete", (), ()),
    ("stream", "stream create", ("320",), ("160",)),
    ("object", "object put, 256 KiB", ("160",), ("80",)),
)
"""Names of the generator's operations, titles, and how often each is done at most, where what it
takes is stored first or what it makes stays there; in a quick run, too."""

LEAST = frozenset({"put", "update", "fetch-1"})
"""Operations that are to cost less than in nats-server where both sync."""


def costs(bound: Bound) -> tuple[Figure, ...]:
    """
    @return: the figures of a row of operations.
    """
    cost = Figure("cost", Unit.MICROSECONDS, "processor time", bound)
    return (cost, Figure("rate", Unit.PER_SECOND, "rate"))


def core() -> Iterator[Row]:
    """
    @return: the rows without JetStream, each over TLS too.
    """
    for name, title, count in CORE:
        load = ("--operation", name, *CLIENTS, "--size", "64", *count)
        figures = costs(atMost(1.0))
        yield Row(f"operation-{name}", title, "operate", load, figures)
        yield Row(
            f"tls-operation-{name}", f"TLS: {title}", "operate", (*load, "--tls"), figures, "tls"
        )
    yield Row(
        "operation-sparse",
        "1,000 clients that publish once a second",
        "sparse",
        ("--connections", "1000", "--size", "64"),
        costs(atMost(1.0))[:1],
    )


def stored(sync: str) -> Iterator[Row]:
    """
    @param sync: a key of L{SYNCS}.
    @return: the rows of JetStream.
    """
    suffix, setting = "" if sync == "default" else f"-{sync}", SYNCS[sync]
    for name, title, count, quick in STORED:
        load = ("--operation", name, *CLIENTS)
        yield Row(
            f"operation-{name}{suffix}",
            f"{title}, sync_interval {sync}",
            "operate",
            (*load, *(["--count", *count] if count else [])),
            costs(atMost(0.8 if sync == "always" and name in LEAST else 1.0)),
            setting,
            fresh=True,
            quick=(*load, *(["--count", *quick] if quick else [])),
        )
    yield Row(
        f"operation-lists{suffix}",
        f"beside many other streams, sync_interval {sync}",
        "lists",
        (*CLIENTS, "--others", "10000"),
        tuple(
            figure
            for name in LISTED
            for figure in (
                Figure(name, Unit.MICROSECONDS, name),
                Figure(f"{name}_growth", Unit.TIMES, f"{name}, beside 10", limit=atMost(2)),
            )
        ),
        setting,
        fresh=True,
        quick=(*CLIENTS, "--others", "1000"),
    )


def syncOf(row: Row) -> str:
    """
    @return: the key of L{SYNCS} of a row of this table; C{""} without JetStream.
    """
    return next((sync for sync, setting in SYNCS.items() if row.setting == setting), "")


OPERATIONS = (*core(), *(row for sync in SYNCS for row in stored(sync)))
