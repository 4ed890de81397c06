"""
Decoding a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.spark.codecs.mappings import codecOf, readMappings
from natsbroker.spark.errors import ApiError
from natsbroker.spark.jobs.archive.archiver import CopyResult, StoredRange
from natsbroker.spark.jobs.decode.decoder import DecodePlan, decodeRange
from natsbroker.spark.logs.wholeranges import SequenceRange
from natsbroker.spark.tables.delta import DeltaLakeTable
from natsbroker.spark.tables.parquet import SCHEMA, FileWriter
from natsbroker.spark.tables.snapshots import Log, Range

MAPPINGS = readMappings(['a=json:"x TINYINT"'], {})


class Given:
    """Messages of a test."""

    def __init__(self, *payloads: bytes, fails: bool = False) -> None:
        rows = [
            {"seq": n, "subject": "a", "data": x, "time": n, "headers": [], "time_ns": n * 1000}
            for n, x in enumerate(payloads, 1)
        ]
        self._batch = pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(list(SCHEMA))))
        self._fails = fails

    def state(self) -> StoredRange:
        """The state of the tables."""
        return StoredRange(Log("stream", "LOG", "", "one"), 1, self._batch.num_rows + 1)

    def batches(self, bounds: SequenceRange, onLost: Callable[[Range], object]) -> Iterator[Any]:
        """All of them."""
        yield self._batch
        if self._fails:
            raise ApiError("gone")

    def now(self) -> Given:
        """The same."""
        return self


def decoded(root: Path, origin: Any) -> CopyResult:
    """The rows and dead letters of messages."""
    plan = DecodePlan(root, MAPPINGS, (pa.struct([("x", pa.int8())]),))
    for target in plan.targets():
        DeltaLakeTable(root / target).make()
    bounds = SequenceRange("LOG", "one", 1, origin.state().stop)
    return decodeRange(origin, plan, plan.targets(), bounds)


def test_readFails(tmp_path: Path) -> None:
    """If the messages cannot be read to their end, no table has any of them."""
    origin = Given(*[b'{"x": 1}', b"?"] * 70_000, fails=True)
    with pytest.raises(ApiError, match="gone"):
        decoded(tmp_path, origin)
    assert list(tmp_path.glob("*/data/*")) == []


def test_arrowRefuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A row that is decoded but does not fit into the columns is a dead letter, without affecting
    others.
    """
    codec = codecOf(MAPPINGS[0])
    contents = {b"1": {"x": 1}, b"2": {"x": 1000}, b"3": {"x": "text"}, b"4": {"x": 4}}
    monkeypatch.setattr(type(codec), "decode", lambda self, data: contents[data])
    done = decoded(tmp_path, Given(b"1", b"2", b"3", b"4"))
    rows = pq.read_table(tmp_path / "a" / done.files["a"][0].path).to_pylist()
    assert [(row["seq"], row["x"]) for row in rows] == [(1, 1), (4, 4)]
    dead = pq.read_table(tmp_path / "a__dlq" / done.files["a__dlq"][0].path).to_pylist()
    assert [row["seq"] for row in dead] == [2, 3]
    assert dead[0]["reason"].startswith("its columns cannot hold it: ")


def test_decoderFails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A payload that makes the decoder raise an exception becomes a dead letter with that reason.
    """
    codec = codecOf(MAPPINGS[0])

    def decode(self: object, data: bytes) -> dict[str, int]:
        if data == b"2":
            raise RecursionError("too deep")
        return {"x": int(data)}

    monkeypatch.setattr(type(codec), "decode", decode)
    done = decoded(tmp_path, Given(b"1", b"2", b"3"))
    assert (done.files["a"][0].rows, done.files["a__dlq"][0].rows) == (2, 1)
    assert done.first == (2, "its decoder failed: RecursionError('too deep')")


def test_widePayloads(tmp_path: Path) -> None:
    """
    Payloads that are much larger as columns are written a few at a time, or become dead letters.
    """
    wide = ", ".join(f"x{number}: INT" for number in range(99))
    [mapping] = readMappings([f'a=json:"s ARRAY<STRUCT<{wide}>>"'], {})
    many = b'{"s": [' + b"{}," * 5_999 + b"{}]}"
    most = b'{"s": [' + b"null," * 90_000 + b"null]}"
    plan = DecodePlan(tmp_path, (mapping,), (pa.struct(list(codecOf(mapping).columns)),))
    for target in plan.targets():
        DeltaLakeTable(tmp_path / target).make()
    sizes: list[int] = []
    add = FileWriter.add

    def watched(self: FileWriter, batch: Any) -> None:
        sizes.append(batch.num_rows)
        add(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileWriter, "add", watched)
        origin: Any = Given(many, many, most, many)
        bounds = SequenceRange("LOG", "one", 1, 5)
        done = decodeRange(origin, plan, plan.targets(), bounds)
    assert sizes == [2, 1, 1]
    rows = pq.read_table(tmp_path / "a" / done.files["a"][0].path, columns=["seq"])
    assert rows.column("seq").to_pylist() == [1, 2, 4]
    assert done.first == (3, "its arrays take 9000100 values in columns: 8388608 at most")


def test_reasons(tmp_path: Path) -> None:
    """Reasons are texts that are not too long."""
    key = "\\ud800" * 999
    done = decoded(tmp_path, Given(b'{"' + key.encode() + b'": 1}'))
    [dead] = pq.read_table(tmp_path / "a__dlq" / done.files["a__dlq"][0].path).to_pylist()
    assert len(dead["reason"]) < 501
    assert done.first == (1, dead["reason"])


@given(st.lists(st.binary(max_size=9) | st.just(b'{"x": 5}'), min_size=1, max_size=20))
def test_anyPayloads(tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes]) -> None:
    """With any payloads, each message is in one table, once, with its bytes."""
    root = tmp_path_factory.mktemp("any")
    done = decoded(root, Given(*payloads))
    rows: list[dict[str, Any]] = []
    for name in ("a", "a__dlq"):
        for file in done.files[name]:
            rows += pq.read_table(root / name / file.path).to_pylist()
    assert sorted(row["seq"] for row in rows) == list(range(1, len(payloads) + 1))
    for row in rows:
        if "data" in row:
            assert row["data"] == payloads[row["seq"] - 1]
        else:
            assert payloads[row["seq"] - 1].lstrip().startswith(b"{")
