"""
The job C{archive}.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from natsbroker.spark import cli
from natsbroker.spark.java import findJava
from natsbroker.spark.jobs.archive.archiver import FilePlan
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.tables.table import FORMATS, tableAt
from tests.interop.conftest import StartServer
from tests.interop.servers import CHECKOUT, OURS_FAST, REAL, Server
from tests.spark.archivekilling import SEEN, start
from tests.spark.support import CONFIG, BrokerStation, Station
from tests.spark.tablecontract import small


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("archive", "--master", "inline", *arguments), out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def test_inSpark(spark: Any, station: Station, broker: BrokerStation, tmp_path: Path) -> None:
    """The job runs as a function in Spark's workers, and Spark reads its files."""
    name = broker.channel(b"%d" % n for n in range(1, 1001))
    stream = station.stream()
    stream.fill([b"x"] * 100)
    for form, given, count in (
        ("delta", {"servers": broker.url, "channel": name}, 1000),
        ("", {"servers": station.url, "stream": stream.name}, 100),
    ):
        root = tmp_path / str(count)
        summary = archive(spark, given, str(root), plan=FilePlan(count // 3, 2), form=form)
        assert (summary["rows"], summary["files"], summary["stop"]) == (count, 4, count + 1)
        paths = [str(root / file.path) for file in tableAt(root).require().files]
        frame = spark.read.parquet(*paths)
        live = spark.read.format("natsbroker").options(includeHeaders="true", **given).load()
        rows = [source.select(live.columns).orderBy("seq").collect() for source in (frame, live)]
        assert len(rows[0]) == count
        assert rows[0] == rows[1]


def test_sparkSubmit(broker: BrokerStation, tmp_path: Path) -> None:
    """C{spark-submit} runs it."""
    name = broker.channel([b"x"] * 10)
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    command += [str(CHECKOUT / "natsbroker" / "spark" / "__main__.py"), "archive"]
    command += ["--servers", broker.url, "--channel", name]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, "--to", str(tmp_path / "a")],
        env={**os.environ, **python, "JAVA_HOME": str(findJava(os.environ).home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == 10


@pytest.mark.parametrize("form", ["delta", "iceberg"])
class TestFormats:
    """Tables of other formats."""

    def test_otherReaders(self, form: str, station: Station, tmp_path: Path) -> None:
        """Any other reader of the table finds exactly the stored messages."""
        stream = station.stream()
        stream.add("a", b"1", {"K": "v"})
        stream.fill([b"%d" % n for n in range(2, 41)])
        stream.delete(5, 6)
        given = ("--servers", station.url, "--stream", stream.name, "--to", str(tmp_path))
        code, summary, errors = ran(*given, "--format", form, "--rows-per-file", "15")
        assert (code, errors, summary["rows"], summary["files"]) == (0, "", 38, 3)
        assert (summary["start"], summary["stop"], summary["lost"]) == (1, 41, [])
        stream.fill([b"%d" % n for n in range(41, 51)])
        assert ran(*given)[1]["rows"] == 10
        rows = sorted(SEEN[form](tmp_path), key=lambda row: int(row["seq"]))
        expected = [n for n in range(1, 51) if n not in (5, 6)]
        assert [(row["seq"], row["data"]) for row in rows] == [(n, b"%d" % n) for n in expected]
        code, summary, errors = ran(*given, "--format", ({"delta", "iceberg"} - {form}).pop())
        assert (code, f"is an archive of the format {form}" in errors) == (2, True)

    def test_lostMessage(self, form: str, startServer: StartServer, tmp_path: Path) -> None:
        """A message that retention took is lost in the table as well."""
        config = "streaming { store_limits { max_msgs: 5 } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"x"] * 3, "c")
        source = ("--servers", broker.url, "--channel", "c", "--to", str(tmp_path))
        assert ran(*source, "--format", form)[0] == 0
        broker.fill("c", [b"x"] * 10)
        code, summary, _ = ran(*source)
        assert (code, summary["result"], summary["lost"]) == (1, "found", [[4, 9]])
        assert tableAt(tmp_path).require().lost == ((4, 9),)
        assert sorted(row["seq"] for row in SEEN[form](tmp_path)) == [1, 2, 3, *range(9, 14)]

    def test_madeAgain(self, form: str, station: Station, tmp_path: Path) -> None:
        """A log that was made again is refused, and the table stays as it was."""
        stream = station.stream()
        stream.fill([b"x"] * 3)
        given = ("--servers", station.url, "--stream", stream.name, "--to", str(tmp_path))
        assert ran(*given, "--format", form)[0] == 0
        before = tableAt(tmp_path).require()
        stream.api("DELETE")
        stream.make()
        stream.fill([b"y"] * 9)
        code, summary, _ = ran(*given)
        assert (code, "was deleted and made again" in summary["error"]) == (3, True)
        assert tableAt(tmp_path).require() == before

    def test_noRoom(self, form: str, broker: BrokerStation, tmp_path: Path) -> None:
        """
        Without room on the disk, the job fails with that reason, and the current version stays.
        """
        name = broker.channel([b"%d" % n for n in range(1, 101)])
        source = ("--servers", broker.url, "--channel", name, "--to", str(tmp_path))
        assert ran(*source, "--format", form)[0] == 0
        broker.fill(name, [b"%d" % n for n in range(101, 201)])
        for limit in (0, 1000, 2000, 4000):
            before = sorted(row["seq"] for row in SEEN[form](tmp_path))
            with small(limit):
                code, summary, _ = ran(*source)
            if code:
                assert code == 3
                assert "File too large" in summary["error"] or "full" in summary["error"], summary
                assert sorted(row["seq"] for row in SEEN[form](tmp_path)) == before
        assert before == list(range(1, 101))
        assert ran(*source)[0] == 0
        assert sorted(row["seq"] for row in SEEN[form](tmp_path)) == list(range(1, 201))


@pytest.mark.parametrize("form", FORMATS)
def test_days(form: str, station: Station, tmp_path: Path) -> None:
    """Files of one day each, from the beginning on or not at all."""
    stream = station.stream()
    stream.fill([b"%d" % n for n in range(1, 21)])
    given = ("--servers", station.url, "--stream", stream.name, "--format", form)
    dated, plain = str(tmp_path / "dated"), str(tmp_path / "plain")
    assert ran(*given, "--to", dated, "--partition-by", "date")[0] == 0
    stream.fill([b"21"])
    assert ran(*given, "--to", dated)[1]["rows"] == 1
    assert sorted(row["seq"] for row in SEEN[form](Path(dated))) == list(range(1, 22))
    for file in tableAt(dated).require().files:
        time = pq.read_table(Path(dated) / file.path, partitioning=None)["time"][0].as_py()
        assert file.path.startswith(f"data/date={time.astimezone(timezone.utc).date()}/")
    assert ran(*given, "--to", plain)[0] == 0
    code, summary, _ = ran(*given, "--to", plain, "--partition-by", "date")
    assert (code, "is not partitioned by date" in summary["error"]) == (2, True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two million bytes."""
    place = tmp_path / "disk"
    place.mkdir()
    # The tests' PATH has little in it.
    mount, umount = (shutil.which(program, path=os.defpath) for program in ("mount", "umount"))
    command = [str(mount), "-t", "tmpfs", "-o", "size=2m", "none", str(place)]
    if mount is None or umount is None or subprocess.run(command, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield place
    # Lazily: who has read the table may still have a file open.
    subprocess.run([umount, "-l", str(place)], check=True)


@pytest.mark.parametrize("form", FORMATS)
def test_fullDisk(form: str, broker: BrokerStation, disk: Path) -> None:
    """
    A job on a full disk, at any step, reports an error. The table stays intact, and the job
    continues when there is room.
    """
    root = disk / "lake"
    name = broker.channel([b"%d" % n for n in range(1, 101)])
    source = ("--servers", broker.url, "--channel", name, "--to", str(root))
    assert ran(*source, "--format", form)[0] == 0
    stop = 101
    refused = 0
    for room in (0, 8192, 16_384, 40_960, 122_880):
        broker.fill(name, [b"%d" % n for n in range(stop, stop + 100)])
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(b"x" * max(free - room, 0))
        code, summary, _ = ran(*source)
        if code:
            refused += 1
            assert code == 3
            assert "No space left" in summary["error"] or "full" in summary["error"], summary
        stop += 100
        (disk / "ballast").unlink()
        seqs = sorted(row["seq"] for row in SEEN[form](root))
        assert seqs == list(range(1, tableAt(root).require().stop))
        assert len(seqs) >= stop - 1 - 100 * (code != 0)
        assert ran(*source)[0] == 0
        assert sorted(row["seq"] for row in SEEN[form](root)) == list(range(1, stop))
    assert refused > 0


class TestCommand:
    """The command line."""

    def test_oneRound(self, broker: BrokerStation, tmp_path: Path) -> None:
        """All stored messages are archived, and a line says so."""
        name = broker.channel([b"x"] * 10)
        source = ("--servers", broker.url, "--channel", name, "--to", str(tmp_path))
        code, summary, errors = ran(*source, "--once", "--rows-per-file", "4", "--hold-for", "100s")
        assert (code, errors) == (0, "")
        assert summary.pop("seconds") >= 0
        assert summary == {
            "job": "archive",
            "result": "done",
            "rows": 10,
            "files": 3,
            "version": 1,
            "start": 1,
            "stop": 11,
            "lost": [],
        }
        [hold] = broker.channels.call("INFO", name)["holds"]
        assert (hold["floor"], 90 <= hold["seconds"] <= 100) == (11, True)

    def test_lossInExitStatus(self, startServer: StartServer, tmp_path: Path) -> None:
        """A new loss gives exit code 1, once."""
        config = "streaming { store_limits { max_msgs: 5 } }"
        broker = BrokerStation(startServer(OURS_FAST, config))
        broker.channel([b"x"] * 3, "c")
        source = ("--servers", broker.url, "--channel", "c", "--to", str(tmp_path))
        assert ran(*source)[0] == 0
        broker.fill("c", [b"x"] * 10)
        code, summary, _ = ran(*source)
        assert (code, summary["result"], summary["lost"]) == (1, "found", [[4, 9]])
        assert ran(*source)[0] == 0

    def test_goesOn(self, startServer: StartServer, tmp_path: Path) -> None:
        """
        With C{--every}, the job continues when the server restarts, and ends in order on a signal.
        """
        config = "streaming { store: lmdb, dir: $DIR/s }"
        server = startServer(OURS_FAST, config)
        broker = BrokerStation(server)
        broker.channel([b"x"] * 3, "LOG")
        root = tmp_path / "a"
        process = start(server.url, "channel", root, "--every", "50ms", "--hold")
        try:
            assert process.stderr is not None and process.stdout is not None
            while tableAt(root).latest() is None or tableAt(root).require().stop < 4:
                assert process.poll() is None
            away = Server(OURS_FAST, server.directory, config, port=server.port)
            server.stop()
            summary: list[str] = []
            while not summary or "trying again" not in summary[-1]:
                summary.append(process.stderr.readline())
                assert summary[-1], summary
            server = away.start()
            BrokerStation(server).fill("LOG", [b"y"] * 3)
            while tableAt(root).require().stop < 7:
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
            server.stop()
        assert process.returncode == 0
        assert (json.loads(out)["rows"], json.loads(out)["stop"]) == (6, 7)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ((), "the following arguments are required: --servers, --to"),
            (("--servers", "h", "--to", "d"), "name at least one stream or channel"),
            (("--servers", "h", "--to", "d", "--stream", "S", "--every", "x"), "--every"),
            (
                ("--servers", "h", "--to", "d", "--stream", "S", "--every", "1s", "--once"),
                "exclude each other",
            ),
            (("--servers", "h", "--to", "d", "--stream", "S", "--format", "orc"), "--format"),
            (("--servers", "h", "--to", "d", "--stream", "S", "--rows-per-file", "0"), "--rows"),
        ],
    )
    def test_usageErrors(self, arguments: tuple[str, ...], text: str) -> None:
        """A wrong command line ends with 2 and says why."""
        code, _, errors = ran(*arguments)
        assert code == 2
        assert text in errors

    def test_failed(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A job that fails ends with 3 and gives the reason, in the line as well."""
        source = ("--servers", broker.url, "--channel", "none", "--to", str(tmp_path))
        code, summary, errors = ran(*source)
        assert (code, summary["result"]) == (3, "failed")
        assert summary["error"] == "channel none: there is no channel none"
        assert errors == f"natsbroker spark archive: {summary['error']}\n"

    def test_unknownOption(self, tmp_path: Path) -> None:
        """An option that the data source does not have is wrong, in the line as well."""
        source = ("--servers", "h", "--stream", "S", "--to", str(tmp_path))
        code, summary, errors = ran(*source, "--option", "usr=x")
        assert (code, summary["result"]) == (2, "wrong")
        assert "did you mean 'user'" in summary["error"]
        assert errors == f"natsbroker spark archive: {summary['error']}\n"

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The options are explained on request."""
        assert cli.main(("archive", "--help"), io.StringIO(), io.StringIO()) == 0
        assert "--rows-per-file" in capsys.readouterr().out


class TestWaiting:
    """Servers and object stores that are away."""

    def test_serverIsDown(self, tmp_path: Path) -> None:
        """A single round waits for a server that is not there yet."""
        server = Server(REAL, tmp_path, CONFIG).start()
        station = Station(server)
        stream = station.stream(storage="file")
        stream.fill([b"x"] * 3)
        station.connection.close()
        server.stop()
        given = ("--servers", server.url, "--stream", stream.name, "--to", str(tmp_path / "a"))
        code, summary, _ = ran(*given, "--option", "reconnectTimeout=0.01")
        assert (code, "Connection refused" in summary["error"]) == (3, True)
        again = threading.Timer(0.5, server.start)
        again.start()
        try:
            code, summary, errors = ran(*given)
        finally:
            again.join()
            server.stop()
        assert (code, summary["rows"], "trying again" in errors) == (0, 3, True)

    def test_wrongCredentials(self, startServer: StartServer, tmp_path: Path) -> None:
        """Wrong credentials are not tried again."""
        server = startServer(REAL, CONFIG + "authorization { user: u, password: p }\n")
        given = ("--servers", server.url, "--stream", "S", "--to", str(tmp_path / "a"))
        code, summary, errors = ran(*given, "--option", "user=u", "--option", "password=x")
        assert (code, "Authorization" in summary["error"]) == (3, True)
        assert "trying again" not in errors

    @pytest.mark.slow
    def test_silentStore(self, station: Station) -> None:
        """SIGTERM ends the job while its object store does not answer."""
        stream = station.stream()
        stream.fill([b"x"] * 3)
        with socket.create_server(("127.0.0.1", 0)) as store:
            port = store.getsockname()[1]
            variables = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "k",
                "AWS_SECRET_ACCESS_KEY": "s",
                "AWS_REGION": "us-east-1",
            }
            command = [sys.executable, "-m", "natsbroker.spark", "archive", "--master", "inline"]
            command += ["--servers", station.url, "--stream", stream.name, "--every", "1s"]
            process = subprocess.Popen(
                [*command, "--to", "s3://bucket/archive"],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=CHECKOUT,
            )
            try:
                connection, _ = store.accept()
                process.send_signal(signal.SIGTERM)
                _, errors = process.communicate(timeout=60)
                connection.close()
            finally:
                process.kill()
                process.communicate()
        assert process.returncode == 3
        assert "ended in the middle of a version" in errors
