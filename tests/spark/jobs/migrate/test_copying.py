"""
The jobs C{migrate} and C{restore}.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from natsbroker.spark import cli
from natsbroker.spark.errors import ApiError, DataSourceError, TimedOut
from natsbroker.spark.jobs.archive.job import archive
from natsbroker.spark.jobs.migrate.copying import CopyTarget
from natsbroker.spark.logs.apis import ChannelApi, StreamApi, StreamState
from natsbroker.spark.logs.wholeranges import RangeReader, ReadOptions, SequenceRange
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.nats.publishing import Pipeline
from natsbroker.spark.tables.snapshots import Log
from natsbroker.spark.tables.table import FORMATS
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.support import STREAMING, BrokerStation, Station, Stream


def ran(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the line of JSON, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(arguments, out, err)
    lines = out.getvalue().splitlines()
    return code, json.loads(lines[-1]) if lines else {}, err.getvalue()


def contents(station: Station, stream: Stream) -> list[tuple[str, bytes, dict[str, str]]]:
    """Subject, payload and headers of everything in a stream."""
    state = station.streams.state(stream.name)
    bounds = SequenceRange(stream.name, state.created, 1, state.stop)
    received = []
    for rows in RangeReader(station.streams, bounds, ReadOptions(), None).read():
        for subject, payload, head in zip(rows.subjects, rows.payloads, rows.heads, strict=True):
            lines = [part.partition(b": ") for part in head.split(b"\r\n")[1:]]
            headers = {key.decode(): value.decode() for key, _, value in lines}
            received.append((subject.decode(), payload, headers))
    return received


def to(station: Station, stream: Stream, *more: str) -> tuple[str, ...]:
    """The options that name a target."""
    return ("--to-servers", station.url, "--to-stream", stream.name, *more)


def copyWithKills(protocol: str, broker: BrokerStation, station: Station) -> None:
    """Kill copiers of a channel at random moments, let one end, and check the result."""
    dice = random.Random(3)
    count = 12_000
    name = broker.channel(b"%d" % n for n in range(1, count + 1))
    target = station.stream(duplicate_window=100_000_000)
    command = [sys.executable, "-m", "natsbroker", "spark", "migrate"]
    command += ["--servers", broker.url, "--channel", name, "--rate", "8000"]
    command += ["--protocol", protocol]
    command += to(station, target, "--prefix", f"{target.name}.")
    kills = 0
    while kills < 3:
        before = station.streams.state(target.name).stop
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while station.streams.state(target.name).stop == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.2))
        process.kill()
        process.wait()
        kills += 1
    assert ran(*command[4:])[0] == 0
    stored = contents(station, target)
    assert [entry[1] for entry in stored] == [b"%d" % n for n in range(1, count + 1)]


class TestMigrate:
    """From a log."""

    def test_channel(self, broker: BrokerStation, station: Station) -> None:
        """
        Every message is copied in order, with its origin; a second run copies only the new ones.
        """
        name = broker.channel([b"one", b"two"])
        target = station.stream()
        source = ("migrate", "--servers", broker.url, "--channel", name)
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        code, summary, errors = ran(*command)
        assert (code, errors, summary["rows"], summary["stop"]) == (0, "", 2, 3)
        stored = contents(station, target)
        assert [entry[:2] for entry in stored] == [
            (f"{target.name}.{name}", b"one"),
            (f"{target.name}.{name}", b"two"),
        ]
        state = broker.channels.state(name)
        headers = stored[1][2]
        assert headers["Nb-Origin-Log"] == f"channel/{name}"
        assert headers["Nb-Origin-Identity"] == state.created
        assert headers["Nb-Origin-Sequence"] == "2"
        assert int(headers["Nb-Origin-Time"]) > 0
        broker.fill(name, [b"three"])
        assert (ran(*command)[1]["rows"], ran(*command)[1]["rows"]) == (1, 0)
        assert [entry[1] for entry in contents(station, target)] == [b"one", b"two", b"three"]

    def test_stream(self, station: Station) -> None:
        """
        A copied stream has no gaps. Headers are kept; those that are commands to servers get other
        names.
        """
        stream, target = station.stream(), station.stream()
        stream.add("a", b"one", {"K": "v", "Nats-Msg-Id": "7"})
        stream.fill([b"two", b"three"])
        stream.delete(2)
        source = ("migrate", "--servers", station.url, "--stream", stream.name)
        assert ran(*source, *to(station, target, "--prefix", f"{target.name}."))[0] == 0
        stored = contents(station, target)
        assert [entry[1] for entry in stored] == [b"one", b"three"]
        assert (stored[0][2]["K"], stored[0][2]["Nb-Origin-Nats-Msg-Id"]) == ("v", "7")
        assert stored[1][2]["Nb-Origin-Sequence"] == "3"

    def test_killed(self, broker: BrokerStation, station: Station) -> None:
        """A copy that is killed at random moments, and resumed, has each message once, in order."""
        copyWithKills("export", broker, station)

    def test_racing(self, station: Station, broker: BrokerStation) -> None:
        """Of two copiers at once one is refused. No message comes twice."""
        name = broker.channel([b"one", b"two"])
        stream = station.stream()
        log = Log("channel", name, "test-cluster", broker.channels.state(name).created)
        targets = [CopyTarget(station.streams, stream.name, log, 1) for _ in range(2)]

        def batches() -> Any:
            for seq in (1, 2):
                row = {"seq": seq, "subject": "x", "data": b"%d" % seq, "time_ns": 1}
                yield pa.RecordBatch.from_pylist([{**row, "headers": []}])

        targets[0].take(batches(), 10, f"{stream.name}.")
        with pytest.raises(DataSourceError, match="wrong last sequence"):
            targets[1].take(batches(), 10, f"{stream.name}.")
        assert [entry[1] for entry in contents(station, stream)] == [b"1", b"2"]

    def test_otherTarget(self, broker: BrokerStation, station: Station) -> None:
        """A target with other messages, or that once had some, is refused."""
        name = broker.channel([b"one"])
        source = ("migrate", "--servers", broker.url, "--channel", name)
        used, emptied = station.stream(), station.stream()
        used.fill([b"mine"])
        emptied.fill([b"mine"])
        emptied.api("PURGE")
        for target, text in (
            (used, f"has other messages than copies of channel {name}"),
            (emptied, "is empty and was not always"),
        ):
            code, summary, _ = ran(*source, *to(station, target))
            assert (code, text in summary["error"]) == (2, True), summary
        assert [entry[1] for entry in contents(station, used)] == [b"mine"]

    def test_notTaken(self, broker: BrokerStation, station: Station) -> None:
        """If no stream takes the subject, the job fails with that reason."""
        name = broker.channel([b"one"])
        source = ("migrate", "--servers", broker.url, "--channel", name)
        code, summary, _ = ran(*source, *to(station, station.stream()))
        assert (code, "no stream takes its subject" in summary["error"]) == (3, True)

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            (("--channel", "a.*"), "name exactly one stream or channel to copy"),
            (("--channel", "a", "--window", "0"), "--window 1 to 100000"),
            (("--channel", "a", "--to-option", "x"), "--to-option: takes NAME=VALUE"),
            ((), "name at least one stream or channel"),
        ],
    )
    def test_usageErrors(self, more: tuple[str, ...], text: str, broker: BrokerStation) -> None:
        """A wrong command line ends with 2 and says why."""
        broker.channel([b"x"], "a")
        source = ("migrate", "--servers", broker.url, "--to-servers", "h", "--to-stream", "S")
        code, _, errors = ran(*source, *more)
        assert code == 2
        assert text in errors


class TestSubscription:
    """Copies from a channel that is read with the protocol of NATS Streaming."""

    def test_killed(self, streaming: BrokerStation, station: Station) -> None:
        """A copy that is killed at random moments, and resumed, has each message once, in order."""
        copyWithKills("stan", streaming, station)

    def test_resumedCopy(self, streaming: BrokerStation, station: Station) -> None:
        """
        Every message is copied once, however often the run is interrupted; the next run copies the
        new ones.
        """
        name = streaming.channel(b"%d" % n for n in range(1, 301))
        target = station.stream(duplicate_window=100_000_000)
        source = ("migrate", "--servers", streaming.url, "--channel", name, "--protocol", "stan")
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        code, summary, errors = ran(*command)
        assert (code, errors, summary["rows"], summary["stop"]) == (0, "", 300, 301)
        headers = contents(station, target)[299][2]
        assert headers["Nb-Origin-Log"] == f"channel/{name}"
        assert headers["Nb-Origin-Identity"] == "stan test-cluster"
        assert headers["Nb-Origin-Sequence"] == "300"
        streaming.fill(name, [b"301", b"302"])
        assert (ran(*command)[1]["rows"], ran(*command)[1]["rows"]) == (2, 0)
        expected = [(f"{target.name}.{name}", b"%d" % n) for n in range(1, 303)]
        assert [entry[:2] for entry in contents(station, target)] == expected

    def test_otherProtocol(self, broker: BrokerStation, station: Station) -> None:
        """A copy that began over one protocol cannot be continued over the other."""
        target = station.stream()
        source = ("migrate", "--servers", broker.url, "--channel", broker.channel([b"one"]))
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        assert ran(*command, "--protocol", "stan")[0] == 0
        code, summary, _ = ran(*command, "--protocol", "export")
        assert (code, "has other messages than copies" in summary["error"]) == (2, True)

    def test_otherChannel(self, streaming: BrokerStation, station: Station) -> None:
        """A channel that has the name but is not the copied one is refused."""
        first, second = streaming.channel([b"1", b"2"]), streaming.channel([b"a", b"b", b"c"])
        target = station.stream()

        def migrated(name: str) -> tuple[int, dict[str, Any], str]:
            source = ("migrate", "--servers", streaming.url, "--channel", name)
            more = ("--protocol", "stan", "--prefix", f"{target.name}.")
            return ran(*source, *to(station, target, *more))

        assert migrated(first)[0] == 0
        code, summary, _ = migrated(second)
        assert (code, f"other messages than copies of channel {first}" in summary["error"]) == (
            2,
            False,
        )
        for seq, text in (
            (2, "the message 2 is another one"),
            (9, "ends with 3, and 9 was copied"),
        ):
            identity = {"Nb-Origin-Log": f"channel/{second}"}
            identity |= {"Nb-Origin-Identity": "stan test-cluster", "Nb-Origin-Time": "7"}
            target.add("x", b"", {**identity, "Nb-Origin-Sequence": str(seq)})
            code, summary, _ = migrated(second)
            assert (code, text in summary["error"]) == (3, True), summary

    def test_auto(
        self, broker: BrokerStation, station: Station, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By default, a server without requests for ranges is read by subscription."""

        def silent(self: ChannelApi, name: str) -> StreamState:
            raise ApiError(f"channel {name}: nobody answers", 503)

        monkeypatch.setattr(ChannelApi, "state", silent)
        name = broker.channel([b"one", b"two"])
        target = station.stream()
        source = ("migrate", "--servers", broker.url, "--channel", name)
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        assert ran(*command, "--protocol", "export")[0] == 3
        assert ran(*command)[1]["rows"] == 2
        nowhere = ("migrate", "--servers", station.url, "--channel", "c")
        code, summary, _ = ran(*nowhere, *to(station, target))
        assert (code, "there is no NATS Streaming" in summary["error"]) == (3, True)
        code, summary, _ = ran("migrate", "--servers", station.url, "--stream", "S", *command[5:])
        assert code == 3

    @pytest.mark.parametrize("headers", [True, False])
    def test_autoSilent(
        self,
        headers: bool,
        startServer: StartServer,
        station: Station,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """
        If a server without headers does not answer, it counts as one without requests for ranges.
        With headers, that is an error.
        """

        def silent(self: ChannelApi, name: str) -> StreamState:
            raise TimedOut("no answer")

        monkeypatch.setattr(ChannelApi, "state", silent)
        text = STREAMING if headers else f"{STREAMING}no_header_support: true\n"
        broker = BrokerStation(startServer(OURS_FAST, text))
        target = station.stream()
        source = ("migrate", "--servers", broker.url, "--channel", broker.channel([b"one"]))
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        assert ran(*command, "--protocol", "export")[0] == 3
        assert ran(*command)[0] == (3 if headers else 0)
        assert len(contents(station, target)) == (0 if headers else 1)
        broker.connection.close()

    def test_autoAnywhere(self, streaming: BrokerStation, station: Station) -> None:
        """A channel is read without an option for the protocol, from any server."""
        target = station.stream()
        source = ("migrate", "--servers", streaming.url, "--channel", streaming.channel([b"one"]))
        command = (*source, *to(station, target, "--prefix", f"{target.name}."))
        assert [ran(*command)[1].get("rows") for _ in range(2)] == [1, 0]

    def test_streams(self, station: Station) -> None:
        """A JetStream stream cannot be read over NATS Streaming's protocol."""
        source = ("migrate", "--servers", "h", "--stream", "S", "--protocol", "stan")
        code, summary, _ = ran(*source, "--to-servers", "h", "--to-stream", "T")
        assert (code, summary["error"]) == (2, "protocol: stan is for channels")


class TestRestore:
    """From an archive."""

    @pytest.mark.parametrize("form", FORMATS)
    def test_archive(
        self, form: str, broker: BrokerStation, station: Station, tmp_path: Path
    ) -> None:
        """
        Restoring copies every message of the archive without reading the log. A second run copies
        nothing.
        """
        name = broker.channel(b"%d" % n for n in range(1, 101))
        archive(None, {"servers": broker.url, "channel": name}, str(tmp_path), form=form)
        target = station.stream()
        command: tuple[str, ...] = ("restore", "--archive", str(tmp_path))
        command += to(station, target, "--prefix", f"{target.name}.")
        code, summary, errors = ran(*command)
        assert (code, errors, summary["rows"], summary["lost"]) == (0, "", 100, [])
        expected = [b"%d" % n for n in range(1, 101)]
        assert [entry[1] for entry in contents(station, target)] == expected
        assert ran(*command)[1]["rows"] == 0
        migrate = ("migrate", "--servers", broker.url, "--channel", name)
        broker.fill(name, [b"101"])
        assert ran(*migrate, *command[3:])[1]["rows"] == 1

    def test_missing(self, station: Station, tmp_path: Path) -> None:
        """Where there is no archive, that is the error."""
        code, summary, _ = ran(
            "restore", "--archive", str(tmp_path), *to(station, station.stream())
        )
        assert (code, summary["error"]) == (3, f"{tmp_path}: there is no archive")


def test_rate(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate is kept by waiting."""
    stream = station.stream()
    waits: list[float] = []
    monkeypatch.setattr(Pipeline, "rest", lambda self, seconds: waits.append(seconds))
    row = {"subject": "x", "data": b"", "time_ns": 1, "headers": []}
    batch = pa.RecordBatch.from_pylist([{**row, "seq": seq} for seq in range(1, 11)])
    with connect(station.peer) as connection:
        target = CopyTarget(StreamApi(connection), stream.name, Log("stream", "S", "", "i"), 1)
        target.take([batch], 100, f"{stream.name}.", 0.01)
    assert len(waits) == 9
    assert 800 < waits[-1] <= 900
