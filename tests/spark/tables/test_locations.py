"""
Where tables are.
"""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pyarrow as pa
import pytest

from natsbroker.spark.tables.locations import (
    Location,
    ObjectPath,
    directoryOf,
    filesBelow,
    locationOf,
    parquetFile,
    sizeOf,
)
from natsbroker.spark.tables.parquet import FileWriter
from natsbroker.spark.tables.snapshots import TableError

ROWS = pa.table({"seq": [1, 2, 3]})


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A new directory, and a prefix in an object store."""
    if request.param == "directory":
        return tmp_path
    return locationOf(f"{request.getfixturevalue('bucket')}/lake/")


@pytest.mark.parametrize("root", ["hdfs://h/x", "file://host/x", "http://h/x"])
def test_unknown(root: str) -> None:
    """An unknown kind of store is refused with the known ones."""
    with pytest.raises(TableError, match="a directory, or s3://, "):
        locationOf(root)


def test_directories() -> None:
    """A directory may be given as a path or a URL."""
    assert locationOf("file:///lake/x") == locationOf("/lake/x") == Path("/lake/x")
    assert directoryOf("x") == Path.cwd() / "x"


def test_objects() -> None:
    """A URL in an object store is kept in messages and tasks, without a slash at its end."""
    place = locationOf("s3://lake/x/")
    assert place == locationOf("s3://lake/x") == ObjectPath("s3://lake/x")
    assert str(place / "data" / "a") == "s3://lake/x/data/a"
    assert pickle.loads(pickle.dumps(place / "data")) == place / "data"
    assert locationOf(place) is place
    with pytest.raises(TableError, match="s3://lake/x: only directories"):
        directoryOf(place)


def test_files(place: Location) -> None:
    """A file exists with its size after it was closed, and is missing after it was deleted."""
    path = place / "data" / "a.parquet"
    assert (list(filesBelow(place, "data")), sizeOf(path)) == ([], 0)
    assert not path.exists()
    writer = FileWriter(place, 1)
    writer.add(ROWS.to_batches()[0])
    [made] = writer.finish()
    path = place / made.path
    assert made.bytes == sizeOf(path) > 0
    assert [name for name, _, _ in filesBelow(place, "data")] == [made.path]
    assert (place / "data").exists()
    file = parquetFile(path)
    assert (file.read(), file.num_row_groups) == (ROWS, 1)
    path.unlink()
    path.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        parquetFile(path)


def test_texts(place: Location) -> None:
    """A text is written whole, also a long one, and listed with its time and size."""
    with pytest.raises(FileNotFoundError):
        (place / "a.json").read_text("utf-8")
    assert list(filesBelow(place, "metadata")) == []
    long = "é" * 3_000_000
    if isinstance(place, Path):
        (place / "metadata" / "b").mkdir(parents=True)
    for name, text in (("a.json", "{}"), ("metadata/b/c.json", long)):
        (place / name).write_text(text, "utf-8")
        assert (place / name).read_text("utf-8") == text
    [(path, written, size)] = filesBelow(place, "metadata")
    assert (path, size) == ("metadata/b/c.json", 6_000_000)
    assert abs(time.time() - written) < 60


def test_abandoned(place: Location) -> None:
    """A file that is abandoned and deleted leaves nothing behind."""
    writer = FileWriter(place, 1)
    writer.add(pa.RecordBatch.from_pydict({"seq": range(200_000)}))
    writer.abandon()
    assert list(filesBelow(place, "data")) == []
