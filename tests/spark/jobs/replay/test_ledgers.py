"""
Notes of how far tasks are, on nats-server.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.jobs.replay.ledgers import BUCKET, LedgerEntry, ReplayLedger
from natsbroker.spark.nats.publishing import Pipeline
from tests.spark.support import Station


def ledgerAt(station: Station, job: str, partition: int = 0) -> tuple[ReplayLedger, Pipeline]:
    """A ledger with an existing bucket, and its publisher."""
    pipeline = Pipeline(station.connection, 10)
    ledger = ReplayLedger(station.streams, job, partition, pipeline)
    ledger.make(1)
    return ledger, pipeline


ENTRY = LedgerEntry("plan", "2030", 7, 9, "_INBOX.x")


def test_lastEntry(station: Station) -> None:
    """Each task reads its own written entry, and only the last entry is kept."""
    ledger, pipeline = ledgerAt(station, "kept")
    assert ledger.read() is None
    for row in (1, 2, 7):
        ledger.write(LedgerEntry("plan", "2030", row, 9, "_INBOX.x"))
        assert ledger.isWriting
        pipeline.finish()
        assert not ledger.isWriting
    again, _ = ledgerAt(station, "kept")
    assert again.read() == ENTRY
    assert ledgerAt(station, "kept", 1)[0].read() is None
    question = {"last_by_subj": f"$KV.{BUCKET}.kept.0"}
    answer: dict[str, Any] = station.streams.call(f"STREAM.MSG.GET.KV_{BUCKET}", question, "KV")
    assert json.loads(base64.b64decode(answer["message"]["data"])) == {
        "plan": "plan",
        "created": "2030",
        "row": 7,
        "at": 9,
        "inbox": "_INBOX.x",
        "v": 1,
    }


def test_oneAtATime(station: Station) -> None:
    """An entry is not written while another one is on its way."""
    ledger, pipeline = ledgerAt(station, "one")
    ledger.read()
    ledger.write(ENTRY)
    with pytest.raises(RuntimeError, match="an entry is on its way"):
        ledger.write(ENTRY)
    pipeline.finish()


def test_concurrentChange(station: Station) -> None:
    """An entry that another task has changed meanwhile is not changed."""
    (mine, pipeline), (theirs, other) = ledgerAt(station, "two"), ledgerAt(station, "two")
    assert mine.read() is None
    assert theirs.read() is None
    theirs.write(ENTRY)
    other.finish()
    mine.write(LedgerEntry("plan", "2030", 1, 1))
    with pytest.raises(DataSourceError, match=r"replay two\.0 is being done by another process"):
        pipeline.finish()
    with pytest.raises(ApiError, match="full"):
        mine._refused(ApiError("stream S: full", 10077))
    assert theirs.read() == ENTRY


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"{", "is malformed"),
        (b"[]", "is malformed"),
        (b'{"v": 1, "plan": ""}', "is malformed"),
        (b'{"v":1,"plan":"","created":"","row":"1","at":1}', "is malformed"),
        (b'{"v":2,"plan":"","created":"","row":1,"at":1}', "is of another version"),
    ],
)
def test_invalidLine(data: bytes, text: str, station: Station) -> None:
    """A malformed entry is an error that names the entry."""
    ledger, _ = ledgerAt(station, "odd")
    station.connection.request(f"$KV.{BUCKET}.odd.0", data)
    with pytest.raises(DataSourceError, match=f"{BUCKET}: the entry odd.0 {text}"):
        ledger.read()


def test_deleted(station: Station) -> None:
    """A deleted ledger is none, and can be written again."""
    ledger, pipeline = ledgerAt(station, "gone")
    ledger.read()
    ledger.write(ENTRY)
    pipeline.finish()
    station.connection.request(f"$KV.{BUCKET}.gone.0", b"")
    assert ledger.read() is None
    ledger.write(ENTRY)
    pipeline.finish()
    assert ledger.read() == ENTRY


def test_noBucket(station: Station) -> None:
    """Without a bucket there is no entry. Creating the bucket again is accepted."""
    config = station.streams.call(f"STREAM.DELETE.KV_{BUCKET}", {}, BUCKET) if _has(station) else {}
    assert config.get("success", True)
    ledger = ReplayLedger(station.streams, "none", 0, Pipeline(station.connection, 10))
    assert ledger.read() is None
    ledger.make(1)
    ledger.make(1)
    assert _has(station)


def _has(station: Station) -> bool:
    try:
        station.streams.state(f"KV_{BUCKET}")
    except ApiError:
        return False
    return True
