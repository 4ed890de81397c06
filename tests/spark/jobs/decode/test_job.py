"""
The job C{decode}.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.archive.archiver import FilePlan
from natsbroker.spark.jobs.decode.job import decode, decoded
from natsbroker.spark.tables.delta import DeltaLakeTable
from tests.interop.certificates import writeCertificates
from tests.interop.servers import CHECKOUT
from tests.spark.logged import extended
from tests.spark.registries import certified, registryServer
from tests.spark.support import BrokerStation, Station

SCHEMA = '>=json:"id BIGINT NOT NULL"'


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("decode", "--master", "inline", *arguments), out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def payload(number: int) -> bytes:
    """A message, of which every tenth is bad."""
    return b'{"id": %d}' % number if number % 10 else b"bad %d" % number


def seqsOf(root: Path) -> list[int]:
    """The sequences of the rows of a table."""
    table = DeltaLakeTable(root)
    paths = [file.path for file in table.require().files]
    return [x for path in paths for x in pq.read_table(root / path).column("seq").to_pylist()]


def test_registry(broker: BrokerStation, tmp_path: Path) -> None:
    """The schemas of a registry that has a password and asks for certificates."""
    writeCertificates(tmp_path)
    (tmp_path / "auth").write_text("anna:pw\n")
    files = {"auth": "auth", "ca": "ca.pem", "cert": "client.pem", "key": "client-key.pem"}
    options = [x for k, v in files.items() for x in (f"--registry-{k}", str(tmp_path / v))]
    name = broker.channel([b"\0\0\0\0\7" + payload(1), b"\0\0\0\0\7" + payload(10)])
    source = ("--servers", broker.url, "--channel", name, "--to", str(tmp_path / "tables"))
    with registryServer(certified(tmp_path)) as server:
        schema = json.dumps({"properties": {"id": {"type": "integer"}}})
        server.answers["/subjects/orders/versions/latest"] = {"id": 7, "schema": ""}
        server.answers["/schemas/ids/7"] = {"schemaType": "JSON", "schema": schema}
        access = ("--registry", server.url, *options, "--schema", f"{name}=registry:orders")
        code, summary, errors = ran(*source, *access)
        assert (code, summary["dead"], errors) == (1, 1, "")
        assert {subject for _, subject in server.asked} == {"Basic YW5uYTpwdw=="}
    assert seqsOf(tmp_path / "tables" / name) == [1]


def test_channel(broker: BrokerStation, tmp_path: Path) -> None:
    """A channel is decoded into rows and dead letters. Dead letters give exit code 1."""
    name = broker.channel(payload(n) for n in range(1, 26))
    source = ("--servers", broker.url, "--channel", name, "--to", str(tmp_path))
    code, summary, errors = ran(*source, "--schema", SCHEMA, "--rows-per-file", "7")
    assert (code, errors, summary["result"]) == (1, "", "found")
    assert summary.pop("seconds") >= 0
    assert summary == {
        "job": "decode",
        "result": "found",
        "tables": {"all": 23, "all__dlq": 2, "others__dlq": 0},
        "stop": 26,
        "dead": 2,
        "ignored": 0,
        "lost": [],
        "first": {"seq": 10, "reason": "JSON is malformed: invalid character (byte 0)"},
    }
    broker.fill(name, [payload(26)])
    code, summary, _ = ran(*source, "--schema", SCHEMA, "--once")
    assert (code, summary["result"], summary["tables"]["all"]) == (0, "done", 1)
    assert seqsOf(tmp_path / "all") == [n for n in range(1, 27) if n % 10]


def test_objects(spark: Any, broker: BrokerStation, bucket: str) -> None:
    """Tables in an object store: a column that comes later is empty in the older files."""
    name = broker.channel([payload(1), payload(2)])
    root = f"{bucket}/tables"
    decode(spark, {"servers": broker.url, "channel": name}, root, [SCHEMA])
    broker.fill(name, [b'{"id": 3, "more": "x"}'])
    wider = '>=json:"id BIGINT NOT NULL, more STRING"'
    decode(spark, {"servers": broker.url, "channel": name}, root, [wider])
    rows = decoded(spark, root, "all").orderBy("seq").select("seq", "id", "more").collect()
    assert [tuple(row) for row in rows] == [(1, 1, None), (2, 2, None), (3, 3, "x")]
    assert decoded(spark, root, "all__dlq").count() == 0


def test_stream(station: Station, tmp_path: Path) -> None:
    """A stream of nats-server is decoded by subjects. Dead letters keep their headers."""
    stream = station.stream()
    stream.add("a.x", b'{"id": 1}')
    stream.add("b", b"1.5", {"K": "v"})
    stream.add("c", b"?")
    stream.add("a.y", b'{"id": "no"}', {"K": "w"})
    source = ("--servers", station.url, "--stream", stream.name, "--to", str(tmp_path))
    schema = f'{stream.name}.a.*=json:"id BIGINT"'
    table = f"{stream.name}.a.*=mine"
    code, summary, _ = ran(*source, "--schema", schema, "--table", table, "--others", "ignore")
    assert (code, summary["tables"], summary["ignored"]) == (1, {"mine": 1, "mine__dlq": 1}, 2)
    letters = DeltaLakeTable(tmp_path / "mine__dlq")
    [file] = letters.require().files
    [dead] = pq.read_table(letters.directory / file.path).to_pylist()
    assert (dead["seq"], dead["data"], dead["stream"]) == (4, b'{"id": "no"}', stream.name)
    assert dead["headers"] == [{"key": "K", "value": "w"}]


def test_restored(station: Station, tmp_path: Path) -> None:
    """Dead letters can be published again, with their bytes and headers."""
    extended(tmp_path / "log", [("a", b'{"id": 1}'), ("a", b"bad"), ("a", b"worse")])
    source = ("--archive", str(tmp_path / "log"), "--to", str(tmp_path / "to"))
    assert ran(*source, "--schema", SCHEMA)[0] == 1
    stream = station.stream()
    letters = str(tmp_path / "to" / "all__dlq")
    target = ("--to-servers", station.url, "--to-stream", stream.name)
    command = ("restore", "--archive", letters, *target, "--prefix", f"{stream.name}.")
    out, err = io.StringIO(), io.StringIO()
    assert cli.main(command, out, err) == 0, err.getvalue()
    again = ("--servers", station.url, "--stream", stream.name, "--to", str(tmp_path / "again"))
    code, summary, _ = ran(*again, "--schema", SCHEMA)
    assert (code, summary["dead"]) == (1, 2)
    table = DeltaLakeTable(tmp_path / "again" / "all__dlq")
    rows = [
        row
        for file in table.require().files
        for row in pq.read_table(table.directory / file.path).to_pylist()
    ]
    assert [row["data"] for row in rows] == [b"bad", b"worse"]
    assert {"key": "K", "value": "3"} in rows[1]["headers"]


def test_unknown(tmp_path: Path) -> None:
    """Fields that are not in the schema are refused, or ignored on request."""
    extended(tmp_path / "log", [("a", b'{"id": 1, "more": 2}')])
    source = ("--archive", str(tmp_path / "log"), "--schema", SCHEMA)
    assert ran(*source, "--to", str(tmp_path / "one"))[0] == 1
    assert ran(*source, "--to", str(tmp_path / "two"), "--unknown", "ignore")[0] == 0


def test_progress(tmp_path: Path) -> None:
    """On a terminal it is shown how far the job is."""

    class Terminal(io.StringIO):
        """Standard error on one."""

        def isatty(self) -> bool:
            return True

    extended(tmp_path / "log", [("a", payload(n)) for n in range(1, 9)])
    source = ("--archive", str(tmp_path / "log"), "--to", str(tmp_path / "to"))
    terminal = Terminal()
    command = ("decode", "--master", "inline", *source, "--schema", SCHEMA)
    more = ("--rows-per-file", "4", "--files-per-version", "1")
    assert cli.main((*command, *more), io.StringIO(), terminal) == 0
    assert terminal.getvalue().split("\r")[1:] == [
        "decode [###########.........] 5 of 9",
        "decode [####################] 9 of 9\n",
    ]


def test_clash(tmp_path: Path) -> None:
    """A schema that contradicts its table gives exit code 1, even without new messages."""
    extended(tmp_path / "log", [("a", b'{"id": 1}')])
    source = ("--archive", str(tmp_path / "log"), "--to", str(tmp_path / "to"))
    assert ran(*source, "--schema", SCHEMA)[0] == 0
    code, summary, _ = ran(*source, "--schema", '>=json:"id STRING"')
    assert (code, summary["dead"]) == (1, 0)
    assert summary["clashes"] == {"all": "column id is BIGINT in the table and STRING now"}


class TestWrong:
    """Command lines."""

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ((), "the following arguments are required: --to, --schema"),
            (("--to", "d", "--schema", SCHEMA), "either --servers or --archive"),
            (
                ("--to", "d", "--schema", SCHEMA, "--servers", "h", "--archive", "a"),
                "either --servers or --archive",
            ),
            (("--to", "d", "--schema", "x", "--archive", "a"), "is not PATTERN=KIND:WHAT"),
            (
                ("--to", "d", "--schema", SCHEMA, "--archive", "a", "--table", "x"),
                "--table: takes PATTERN=NAME",
            ),
            (
                ("--to", "d", "--schema", SCHEMA, "--archive", "a", "--once", "--every", "1s"),
                "exclude each other",
            ),
            (("--to", "d", "--schema", SCHEMA, "--servers", "h"), "name at least one stream"),
        ],
    )
    def test_usageErrors(self, arguments: tuple[str, ...], text: str) -> None:
        """A wrong command line ends with 2 and says why."""
        code, _, errors = ran(*arguments)
        assert code == 2
        assert text in errors

    def test_failed(self, broker: BrokerStation, tmp_path: Path) -> None:
        """A job that fails ends with 3 and gives the reason."""
        source = ("--servers", broker.url, "--channel", "none", "--to", str(tmp_path))
        code, summary, _ = ran(*source, "--schema", SCHEMA)
        assert (code, summary["error"]) == (3, "channel none: there is no channel none")
        code, summary, _ = ran("--archive", str(tmp_path), "--to", "d", "--schema", SCHEMA)
        assert (code, summary["error"]) == (3, f"{tmp_path}: there is no archive")

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The options are explained on request."""
        assert cli.main(("decode", "--help"), io.StringIO(), io.StringIO()) == 0
        assert "PATTERN=KIND:WHAT" in capsys.readouterr().out


#: Decodes an archive again and again, killed before some step, and at last to its end. Steps are
#: those that the disk keeps: a file or a version gets its name.
#: With C{broken} what is next begins where the table stops that is furthest, not furthest behind.
_DOOMED = """
import os, signal, sys

from natsbroker.spark.jobs.archive import archiver
from natsbroker.spark.jobs.archive.archiver import FilePlan
from natsbroker.spark.jobs.decode.job import decode

log, to, schema, how, kills = sys.argv[1:]
if how == "broken":
    archiver.min = lambda *values: (max if len(values) == 1 else min)(*values)

def audit(event, arguments):
    global steps
    if event == "open" and str(arguments[0]).startswith(to):
        steps -= 1
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)

for steps in [int(count) for count in kills.split()] + [-1]:
    child = os.fork()
    if not child:
        sys.addaudithook(audit)
        decode(None, log, to, [schema], plan=FilePlan(9, 2))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class TestKilled:
    """Being killed while tables are made, while files are written, and between two commits."""

    KILLS = "2 5 3 6 7 6 5 6 7"

    def rounds(self, root: Path, how: str, kills: str) -> tuple[list[str], list[int]]:
        """The end of each round, and the sequences that are there then, dead letters included."""
        stop = extended(root / "log", [("a", payload(n)) for n in range(1, 101)])
        assert stop == 101
        arguments = [str(root / "log"), str(root / "to"), SCHEMA, how, kills]
        done = subprocess.run(
            [sys.executable, "-c", _DOOMED, *arguments],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seqs = seqsOf(root / "to" / "all") + seqsOf(root / "to" / "all__dlq")
        return done.stdout.split(), sorted(seqs)

    def test_once(self, tmp_path: Path) -> None:
        """Each message is there once, as a row or a dead letter."""
        ends, seqs = self.rounds(tmp_path, "whole", self.KILLS)
        assert ends == ["-9"] * 9 + ["0"]
        assert seqs == list(range(1, 101))

    def test_control(self, tmp_path: Path) -> None:
        """A program that commits carelessly loses messages only if it is killed."""
        ends, seqs = self.rounds(tmp_path / "well", "broken", "")
        assert (ends, seqs) == (["0"], list(range(1, 101)))
        ends, seqs = self.rounds(tmp_path / "killed", "broken", self.KILLS)
        assert "-9" in ends
        assert seqs != list(range(1, 101))


def test_inSpark(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """In Spark's workers, and Spark reads the tables, with columns that came later."""
    schema = 'c.>=json:"id BIGINT, at TIMESTAMP, tags ARRAY<STRUCT<k: STRING>>, m MAP<STRING, INT>"'
    text = '{"id": 1, "at": "2026-11-20T12:30:00Z", "tags": [{"k": "x"}], "m": {"a": 2}}'
    name = broker.channel([text.encode(), b"bad"], "c.one")
    source = {"servers": broker.url, "channel": name}
    summary = decode(spark, source, str(tmp_path), [schema], {"c.>": "t"}, plan=FilePlan(1, 2))
    assert summary["tables"] == {"t": 1, "t__dlq": 1, "others__dlq": 0}
    more = schema.replace('MAP<STRING, INT>"', 'MAP<STRING, INT>, price DECIMAL(9, 2)"')
    broker.fill(name, [b'{"price": 1.25}'])
    decode(spark, source, str(tmp_path), [more], {"c.>": "t"})
    first, second = decoded(spark, str(tmp_path), "t").orderBy("seq").collect()
    assert (first.seq, first.id, first.tags[0].k, first.m, first.price) == (
        1,
        1,
        "x",
        {"a": 2},
        None,
    )
    assert (first.at.year, first.subject, first.price) == (2026, "c.one", None)
    assert (second.seq, second.id, str(second.price)) == (3, None, "1.25")
    [dead] = decoded(spark, str(tmp_path), "t__dlq").collect()
    assert (dead.seq, bytes(dead.data), dead.stream) == (2, b"bad", "c.one")
    assert decoded(spark, str(tmp_path), "others__dlq").count() == 0
    with pytest.raises(DataSourceError, match="there is no table"):
        decoded(spark, str(tmp_path), "none")


def test_typesInSpark(spark: Any, tmp_path: Path) -> None:
    """Spark reads every type as it was written."""
    ddl = (
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY,"
        " j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(38, 2), n ARRAY<ARRAY<DATE>>,"
        " o MAP<STRING, STRUCT<p: TINYINT, `q r`: DECIMAL(5, 0)>>"
    )
    text = (
        '{"a": true, "b": -128, "c": 32767, "d": -1, "e": 9223372036854775807, "f": 0.5,'
        ' "g": 1e300, "h": "\u00e9", "i": "/w==", "j": "0001-01-01", "k": "2026-11-20T12:30:00Z",'
        ' "l": "2026-11-20T12:30:00.000001", "m": 123456789012345678901234567890.25,'
        ' "n": [["2026-11-20", null], null], "o": {"x": {"p": 1, "q r": -99999}, "y": null}}'
    )
    extended(tmp_path / "log", [("a", text.encode()), ("a", b"{}")])
    summary = decode(None, str(tmp_path / "log"), str(tmp_path / "to"), [f'a=json:"{ddl}"'])
    assert summary["dead"] == 0
    frame = decoded(spark, str(tmp_path / "to"), "a").orderBy("seq")
    row, nothing = frame.collect()
    assert row.asDict(recursive=True) == {
        "seq": 1,
        "subject": "a",
        "time": row.time,
        "a": True,
        "b": -128,
        "c": 32767,
        "d": -1,
        "e": 9223372036854775807,
        "f": 0.5,
        "g": 1e300,
        "h": "\u00e9",
        "i": b"\xff",
        "j": date(1, 1, 1),
        "k": row.k,
        "l": datetime(2026, 11, 20, 12, 30, 0, 1),
        "m": Decimal("123456789012345678901234567890.25"),
        "n": [[date(2026, 11, 20), None], None],
        "o": {"x": {"p": 1, "q r": Decimal(-99999)}, "y": None},
    }
    assert frame.selectExpr("unix_micros(k) AS k").collect()[0].k == 1_795_177_800_000_000
    assert set(nothing[3:]) == {None}
    assert dict(frame.dtypes)["m"] == "decimal(38,2)"
