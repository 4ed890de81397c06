"""
The end of reads, queries, writes and archives that cannot continue: wrong credentials, logs that
are missing or deleted, servers that restart, and full disks. Each reports the reason and leaves no
incomplete file, with nats-server and with our broker.
"""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from natsbroker.spark import cli
from natsbroker.spark.datasource.source import BatchReader
from natsbroker.spark.datasource.streaming import StreamReader
from natsbroker.spark.datasource.writing import BatchWriter, StreamWriter
from natsbroker.spark.errors import ApiError, ConnectionFailed, DataLoss, DataSourceError
from natsbroker.spark.jobs.archive.archiver import Archiver, FilePlan
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tables.table import tableAt
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server
from tests.spark.kinds import ChannelKind, Kind, StreamKind, waitFor
from tests.spark.limits import ReadAllAvailable
from tests.spark.support import CONFIG, STREAMING, BrokerStation, Station
from tests.storage import shim
from tests.storage.shim import FOR_EVER, Act, Call, Orders

DATA = StructType([StructField("data", BinaryType())])
ROWS = pa.RecordBatch.from_pydict({"data": [b"x" * 1000] * 20})


class Place:
    """A server with one kind of log."""

    def __init__(self, server: Server, isOurs: bool) -> None:
        self.server = server
        self.kind: Kind
        if isOurs:
            self.kind = ChannelKind(BrokerStation(server))
        else:
            self.kind = StreamKind(Station(server), storage="file")

    def options(self, name: str, **more: str) -> dict[str, str]:
        """@return: options for reading in small pieces."""
        return self.kind.options(name, fetchBytes="1024", batchRows="2", **more)


@pytest.fixture(params=["stream", "channel"])
def place(request: pytest.FixtureRequest, startServer: StartServer) -> Place:
    """
    A server of its own.
    """
    isOurs = request.param == "channel"
    return Place(
        startServer(OURS_FAST if isOurs else REAL, STREAMING if isOurs else CONFIG), isOurs
    )


def batch(options: dict[str, str]) -> Iterator[Any]:
    """The rows of a batch, piece by piece."""
    reader = BatchReader(("seq", "data"), readOptions(options))
    for task in reader.partitions():
        yield from reader.read(task)


def query(options: dict[str, str]) -> Iterator[Any]:
    """The rows that a streaming query reads of the stored messages."""
    reader = StreamReader(
        ("seq", "data"), readOptions({**options, "startingOffsets": "earliest"}, "readStream")
    )
    try:
        start = reader.initialOffset()
        for task in reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())):
            yield from reader.read(task)
    finally:
        reader.stop()


READS = pytest.mark.parametrize("read", [batch, query])


class TasklessWriter(StreamWriter):
    """
    A writer of micro-batches that gets the id of the query from the test, not from a task of Spark.
    """

    def _place(self) -> tuple[str, int, int]:
        return str(uuid.uuid4()), 0, 0


def written(options: dict[str, str], batches: Iterator[Any], kind: Any = BatchWriter) -> Any:
    """
    The result of a task that has stored some rows.
    """
    subject = {"subject": f"{options['stream']}.x"} if "stream" in options else {}
    given = {name: options[name] for name in options if name not in ("fetchBytes", "batchRows")}
    return kind(DATA, readOptions({**given, **subject}, "write")).write(batches)


def archived(options: dict[str, str], root: Path) -> tuple[int, dict[str, Any], str]:
    """Run the job C{archive}; return its exit code, its last line and its errors."""
    out, err = io.StringIO(), io.StringIO()
    arguments = ["archive", "--master", "inline", "--to", str(root)]
    for name, value in options.items():
        isOwn = name in ("servers", "stream", "channel")
        arguments += [f"--{name}", value] if isOwn else ["--option", f"{name}={value}"]
    code = cli.main(arguments, out, err)
    said: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return code, said, err.getvalue()


def wholeRows(root: Path) -> int:
    """
    The number of messages in an archive, after a check that each version accounts for its ranges,
    and that each file is named by one.
    """
    snapshot = tableAt(root).require()
    seqs: list[int] = []
    for file in snapshot.files:
        seqs += pq.read_table(root / file.path, columns=["seq"]).column("seq").to_pylist()
    assert seqs == list(range(snapshot.start, snapshot.stop))
    assert {f"data/{path.name}" for path in (root / "data").iterdir()} == {
        part.path for part in snapshot.files
    }
    return len(seqs)


class TestRefused:
    """Jobs that cannot begin."""

    @pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=str)
    def test_credentials(self, flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
        """A wrong password is an error of its own, with the server and without the password."""
        users = 'authorization { users: [ { user: anna, password: "apple" } ] }\n'
        server = startServer(flavour, (CONFIG if flavour is REAL else "streaming {}\n") + users)
        option = "stream" if flavour is REAL else "channel"
        given = {"servers": server.url, option: "c", "user": "anna", "password": "pear"}
        told = rf"127\.0\.0\.1:{server.port}: Authorization Violation$"
        with pytest.raises(ConnectionFailed, match=told):
            list(batch(given))
        with pytest.raises(ConnectionFailed, match=told):
            list(query({**given, "reconnectTimeout": "1"}))
        for writer in (BatchWriter, StreamWriter):
            with pytest.raises(ConnectionFailed, match=told):
                written(given, iter([ROWS]), writer)
        code, said, text = archived(given, tmp_path / "archive")
        assert (code, said["result"], said["version"]) == (3, "failed", None)
        assert said["error"].endswith("Authorization Violation")
        assert "pear" not in text + said["error"]

    def test_unknown(self, place: Place, tmp_path: Path) -> None:
        """A missing log is named. A stream cannot be written under another name."""
        given = place.options("nowhere")
        told = r"there is no (stream|channel) nowhere"
        for read in (batch, query):
            with pytest.raises(ApiError, match=told):
                list(read(given))
        if place.kind.option == "stream":
            with pytest.raises(ApiError, match=told):
                written(given, iter([ROWS]))
        code, said, _ = archived(given, tmp_path / "archive")
        assert (code, said["result"], said["version"]) == (3, "failed", None)
        assert "nowhere" in said["error"]


class TestGone:
    """Logs that disappear in the middle."""

    @READS
    def test_stream(
        self, read: Callable[[dict[str, str]], Iterator[Any]], station: Station
    ) -> None:
        """A stream that is deleted, or created again, in the middle of a task is data loss."""
        kind = StreamKind(station)
        for isBack in (False, True):
            name = kind.make([b"x" * 1000] * 20)
            rows = read(kind.options(name, fetchBytes="1024", batchRows="2"))
            next(rows)
            kind.delete(name)
            if isBack:
                kind.again(name, [b"y" * 1000] * 20)
            told = f"stream {name} (is gone|was deleted and made again)"
            with pytest.raises(DataLoss, match=told):
                list(rows)

    @READS
    def test_channel(
        self, read: Callable[[dict[str, str]], Iterator[Any]], startServer: StartServer
    ) -> None:
        """A channel that was deleted for disuse ends a query."""
        text = "streaming { store_limits { max_inactivity: '3s' } }\n"
        kind = ChannelKind(BrokerStation(startServer(OURS_FAST, text)))
        name = kind.make([b"x" * 1000] * 20)
        rows = read(kind.options(name, fetchBytes="1024", batchRows="2"))
        next(rows)
        waitFor(lambda: not _isThere(kind, name))
        with pytest.raises(DataLoss, match=f"channel {name} is gone"):
            list(rows)

    def test_archive(self, station: Station, tmp_path: Path) -> None:
        """
        An archive whose stream is deleted during the run keeps its messages, whole, and gets no
        others.
        """
        kind = StreamKind(station)
        name = kind.make([b"x"] * 30)
        turns = iter([False, True])

        def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
            if next(turns):
                kind.delete(name)
            return [work(task) for task in tasks]

        archiver = Archiver(
            readOptions(kind.options(name)), tableAt(tmp_path), run, FilePlan(10, 2)
        )
        with pytest.raises(DataLoss, match=f"stream {name} is gone"):
            archiver.once()
        assert wholeRows(tmp_path) == 20


def _isThere(kind: Kind, name: str) -> bool:
    try:
        kind.state(name)
    except ApiError:
        return False
    return True


class TestRestart:
    """Servers that start again in the middle."""

    @READS
    def test_serverDies(
        self, read: Callable[[dict[str, str]], Iterator[Any]], place: Place
    ) -> None:
        """
        A task whose server stops reports that. A second read of the range has each message once.
        """
        name = place.kind.make([b"x" * 1000] * 20)
        rows = read(place.options(name))
        next(rows)
        place.server.restart()
        with pytest.raises(ConnectionFailed, match="the server closed the connection"):
            list(rows)
        seqs = [seq for rows in read(place.options(name)) for seq in rows.column("seq").to_pylist()]
        assert seqs == list(range(1, 21))

    @pytest.mark.parametrize("writer", [BatchWriter, TasklessWriter])
    def test_write(self, writer: Any, place: Place) -> None:
        """A writing task whose server dies reports that, and no stored rows."""
        name = place.kind.make([b"x"])

        def rows() -> Iterator[Any]:
            yield ROWS
            place.server.restart()
            for _ in range(50):
                yield ROWS

        with pytest.raises(ConnectionFailed, match="the server closed the connection"):
            written(place.options(name, window="10"), rows(), writer)
        assert written(place.options(name), iter([ROWS])).stored == 20

    def test_archive(self, place: Place, tmp_path: Path) -> None:
        """An archive ends with its current version. The next one continues from there."""
        name = place.kind.make([b"x" * 1000] * 30)
        turns = iter([False, True, False, False])

        def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
            if next(turns):
                place.server.stop()
            return [work(task) for task in tasks]

        options = readOptions(place.options(name))
        archiver = Archiver(options, tableAt(tmp_path), run, FilePlan(10, 1))
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:\d+: Connection refused"):
            archiver.once()
        assert wholeRows(tmp_path) == 10
        place.server.restart()
        Archiver(options, tableAt(tmp_path), run, FilePlan(10, 1)).once()
        assert wholeRows(tmp_path) == 30


@pytest.mark.skipif(bool(shim.whyNot()), reason=shim.whyNot())
class TestFull:
    """Disks that are full."""

    @pytest.mark.parametrize("writer", [BatchWriter, TasklessWriter])
    def test_channel(self, writer: Any, startServer: StartServer, tmp_path: Path) -> None:
        """
        A broker with a full disk refuses messages, and the task reports it. Acknowledged messages
        are still stored when the broker starts again with room.
        """
        disk = tmp_path / "server-0"
        orders = Orders(tmp_path / "orders")
        orders.clear()
        flavour = Flavour("ours-fast", {**shim.environment(disk, orders.path)})
        try:
            server = startServer(flavour, STREAMING)
            kind = ChannelKind(BrokerStation(server))
            name = kind.make()

            def rows() -> Iterator[Any]:
                yield ROWS
                orders.give(shim.Plan(Act.FAIL, Call.WRITE | Call.SIZE, 1, FOR_EVER, errno.ENOSPC))
                for _ in range(50):
                    yield ROWS

            with pytest.raises(
                DataSourceError, match=f"channel {name}: a message was not stored: .+"
            ):
                written(kind.options(name, window="10"), rows(), writer)
            orders.clear()
            server.restart()
            assert written(kind.options(name), iter([ROWS])).stored == 20
            seqs = [seq for columns in batch(kind.options(name)) for seq in columns[0].to_pylist()]
            assert len(seqs) >= 30
            assert seqs == list(range(1, len(seqs) + 1))
        finally:
            orders.close()

    @pytest.mark.parametrize("writer", [BatchWriter, TasklessWriter])
    def test_stream(self, writer: Any, startServer: StartServer) -> None:
        """A nats-server without room ends a write."""
        config = "jetstream { store_dir: $DIR/js, max_file_store: 200KB }\n"
        kind = StreamKind(Station(startServer(REAL, config)), storage="file")
        name = kind.make()
        told = f"stream {name}: a message to {name}.x was not stored: .*(resource|storage|exceeded)"
        with pytest.raises(ApiError, match=told):
            written(kind.options(name, window="10"), (ROWS for _ in range(50)), writer)
        seqs = [seq for columns in batch(kind.options(name)) for seq in columns[0].to_pylist()]
        assert seqs == list(range(1, len(seqs) + 1))

    @pytest.mark.parametrize("space", [20_000, 130_000])
    def test_archive(self, space: int, place: Place, tmp_path: Path) -> None:
        """
        An archive without room ends with its reason and keeps its messages; with room again it goes
        on.
        """
        name = place.kind.make(os.urandom(1000) for _ in range(200))
        disk = tmp_path / "disk"
        disk.mkdir()
        orders = Orders(tmp_path / "orders")
        command = [sys.executable, "-m", "natsbroker", "spark", "archive", "--master", "inline"]
        command += ["--servers", place.kind.url, f"--{place.kind.option}", name, "--to"]
        command += [str(disk / "archive"), "--rows-per-file", "50", "--files-per-version", "1"]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command,
                env={**os.environ, **shim.environment(disk, orders.path)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )

        try:
            orders.give(shim.Plan(space=space))
            done = run()
            assert done.returncode == 3, done.stderr
            said = json.loads(done.stdout.splitlines()[-1])
            assert "No space left on device" in said["error"]
            assert "No space left on device" in done.stderr
            assert wholeRows(disk / "archive") == space // 65_000 * 50
            orders.clear()
            assert run().returncode == 0
            assert wholeRows(disk / "archive") == 200
        finally:
            orders.close()
