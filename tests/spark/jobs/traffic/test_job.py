"""
The job C{traffic}.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from natsbroker.spark import cli
from natsbroker.spark.errors import DataSourceError
from natsbroker.spark.jobs.traffic.job import ClosedWindows, percentile, traffic, windowsOf
from natsbroker.spark.jobs.traffic.totals import TimeWindows, readEvent
from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from natsbroker.spark.nats.connection import connect
from tests.interop.gateways.worlds import until
from tests.interop.servers import OURS_FAST, REAL, Server
from tests.spark import eventlogs
from tests.spark.eventlogs import BEGIN, event
from tests.spark.jobs.trafficrows import S, folded
from tests.spark.support import BrokerStation, Station, Stream

WHO = ("A", "client", "", "x")


def closed(windows: TimeWindows, *times: float, final: bool = True) -> ClosedWindows:
    """The windows of events at some times."""
    return ClosedWindows(folded(windows, *times), windows, final)


def test_closed() -> None:
    """
    A window is closed when the watermark has passed its end, or when no more events will come.
    """
    windows = TimeWindows(60 * S, 60 * S, 30 * S)
    begins = [(BEGIN + second) * S for second in (0, 60, 120)]
    assert closed(windows, 10, 70, 149, final=False).begins == begins[:1]
    assert closed(windows, 10, 70, 150, final=False).begins == begins[:2]
    assert closed(windows, 10, 70, 149).begins == begins


def test_rows(tmp_path: Path) -> None:
    """Rates are over the length of a window."""
    file = closed(TimeWindows(60 * S, 60 * S, 0), 10, 20).write(str(tmp_path))
    begin = datetime.fromtimestamp(BEGIN, timezone.utc)
    assert pq.read_table(file).to_pylist() == [
        {
            "window_start": begin,
            "window_end": begin + timedelta(minutes=1),
            "account": "A",
            "peer_kind": "client",
            "peer": "",
            "subject_prefix": "x",
            "msgs_in": 2,
            "bytes_in": 10,
            "msgs_out": 4,
            "bytes_out": 20,
            "no_interest": 0,
            "rs_minus_sent": 0,
            "slow_drops": 0,
            "msgs_in_rate": 2 / 60,
            "bytes_in_rate": 10 / 60,
            "msgs_out_rate": 4 / 60,
            "bytes_out_rate": 20 / 60,
        }
    ]


def test_totals() -> None:
    """Overlapping windows do not count an event twice in the totals."""
    done = closed(TimeWindows(60 * S, 20 * S, 0), *range(10, 610, 10))
    total = done.totals[WHO][0]
    assert total <= 60
    assert total == pytest.approx(done.seconds / 10, abs=6)
    windows = TimeWindows(60 * S, 60 * S, 0)
    assert closed(windows, 70, 80).seconds == 20.0
    assert closed(windows, 70, 80, final=False).seconds == 0.0
    assert closed(windows, *range(10, 610, 10)).totals[WHO][0] == 60


def ran(*arguments: str) -> tuple[int, dict[str, Any], str, str]:
    """Exit code, the line of JSON, the report, and standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(("traffic", *arguments), out, err)
    lines = out.getvalue().splitlines()
    summary = json.loads(lines[-1]) if lines else {}
    return code, summary, "\n".join(lines[:-1]), err.getvalue()


def minutes(count: int) -> list[bytes]:
    """Minutes of events, six in each."""
    return [
        event(
            "traffic",
            10 * (number + 1),
            [
                eventlogs.traffic(
                    "A", "orders.eu.>", msgs_in=6, bytes_in=600, msgs_out=12, bytes_out=1200
                ),
                eventlogs.traffic("A", "idle", msgs_in=1, bytes_in=1, no_interest=1),
                eventlogs.traffic("A", "", slow_drops=1),
                eventlogs.traffic("A", "orders.eu.>", "gateway", "far", msgs_out=6, bytes_out=600),
                eventlogs.traffic("", "", "route", "n2", msgs_in=3, bytes_in=30),
            ],
        )
        for number in range(6 * count)
    ]


def test_report(broker: BrokerStation, tmp_path: Path) -> None:
    """The closed windows as text, as a page with plots, and as a table."""
    name = broker.channel([*minutes(3), b"strange"])
    page, table = tmp_path / "report.html", tmp_path / "table"
    source = ("--servers", broker.url, "--channel", name, "--master", "inline")
    more = ("--html", str(page), "--to", str(table), "--watermark", "0s")
    code, summary, report, errors = ran(*source, *more)
    assert (code, errors) == (0, "")
    assert summary["windows"] == 3 and summary["open"] == 0
    assert (summary["events"], summary["strange"], summary["servers"]) == (18, 1, 1)
    assert (summary["msgs_in"], summary["bytes_in"], summary["no_interest"]) == (126, 10_818, 18)
    lines = [line.split() for line in report.splitlines()]
    assert ["A", "orders.eu.>", "0.6", "60", "B/s", "1.2", "120", "B/s", "0"] in lines
    assert ["A", "far", "orders.eu.>", "0.0", "0", "B/s", "0.6", "60", "B/s", "0"] in lines
    assert ["route", "n2", "0.3", "3", "B/s", "0.0", "0", "B/s"] in lines
    assert ["86", "B", "100", "B", "100", "B", "18"] in [line[-7:] for line in lines]
    text = page.read_text("utf-8")
    assert "orders.eu.&gt;" in text and "<svg" in text and "mark-line" in text
    (file,) = table.iterdir()
    assert summary["file"] == str(file)
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == 3 * 5
    assert {row["msgs_in"] for row in rows if row["subject_prefix"] == "orders.eu.>"} == {6 * 6, 0}
    ran(*source, *more)
    assert list(table.iterdir()) == [file]


def test_lastWindows(station: Station) -> None:
    """Windows that are not complete are reported with C{--final} only."""
    stream = station.stream()
    stream.fill(minutes(2))
    source = ("--servers", station.url, "--stream", stream.name, "--master", "inline")
    _, summary, _, _ = ran(*source)
    assert (summary["windows"], summary["open"], summary["msgs_in"]) == (1, 1, 42)
    _, summary, _, _ = ran(*source, "--final")
    assert (summary["windows"], summary["open"], summary["msgs_in"]) == (2, 0, 84)
    _, summary, _, _ = ran(*source, "--final", "--slide", "20s")
    assert summary["windows"] > 4 and summary["msgs_in"] <= 84


def test_sinceSomeTime(station: Station) -> None:
    """Only messages stored since the given time are read."""
    stream = station.stream()
    stream.fill(minutes(1))
    source = ("--servers", station.url, "--stream", stream.name, "--master", "inline")
    assert ran(*source, "--since", "1h", "--final")[1]["events"] == 6
    assert ran(*source, "--since", "0s", "--final")[1]["events"] == 0


def test_fromLeafnode(tmp_path: Path) -> None:
    """A stream of nats-server, which a broker of ours is a leafnode of, stores its events."""
    with ExitStack() as running:
        config = 'leafnodes { listen: "127.0.0.1:-1" }\njetstream { store_dir: $DIR/js }\n'
        hub = started(running, Server(REAL, tmp_path / "hub", config))
        port = hub.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1]
        with connect(ServerAccess(readAddresses(hub.url))) as connection:
            stream = Stream(connection, "EVENTS")
            stream.make(subjects=["$NB.EVENT.>"])
            config = (
                f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}\n'
                'services { traffic { account: "$G", interval: 0.3 } }\n'
            )
            leaf = started(running, Server(OURS_FAST, tmp_path / "leaf", config))
            leaf.waitForLog("Leafnode connection created")
            until(lambda: stream.api("INFO")["state"]["messages"], "an event")
            with connect(ServerAccess(readAddresses(leaf.url))) as client:
                for number in range(50):
                    client.publish(f"orders.eu.{number}", b"x" * 100)
                source = ("--servers", hub.url, "--stream", "EVENTS", "--master", "inline")
                until(lambda: ran(*source, "--final")[1]["msgs_in"] >= 50, "all of them")
        summary, report = ran(*source, "--final")[1:3]
        assert (summary["bytes_in"], summary["servers"], summary["strange"]) == (5000, 1, 0)
        assert "orders.eu.>" in report


def started(running: ExitStack, server: Server) -> Server:
    """Start a server, to be stopped with the test."""
    server.directory.mkdir()
    running.callback(server.stop)
    return server.start()


def test_empty(broker: BrokerStation, tmp_path: Path) -> None:
    """Without events, a report is made and no table."""
    name = broker.channel([b"strange"])
    page = tmp_path / "report.html"
    source = ("--servers", broker.url, "--channel", name, "--master", "inline")
    code, summary, report, _ = ran(*source, "--html", str(page), "--to", str(tmp_path / "t"))
    assert (code, summary["events"], summary["windows"]) == (0, 0, 0)
    assert "Events: 0" in report and page.exists()
    assert not (tmp_path / "t").exists()


def test_inSpark(spark: Any, broker: BrokerStation) -> None:
    """Workers of Spark have the same result."""
    options = {"servers": broker.url, "channel": broker.channel(minutes(4)), "minPartitions": "3"}
    assert traffic(spark, options, final=True) == traffic(None, options, final=True)
    assert traffic(None, options, final=True)["msgs_in"] == 7 * 24


def test_silence() -> None:
    """An account without traffic in a window has a rate of 0 there."""
    windows = windowsOf(60, 60, 0)
    totals = folded(windows, 10, 130)
    row = eventlogs.traffic("B", "x", msgs_in=60, bytes_in=60)
    totals.add(readEvent(event("traffic", 70, [row])))
    chart = ClosedWindows(totals, windows, True).report(20).sections[0].chart
    assert chart is not None and chart.unit == "msgs/s in"
    rates = {name: [rate for _, rate in points] for name, points in chart.series.items()}
    assert rates == {"A": [1 / 60, 0, 1 / 60], "B": [0, 1, 0]}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--window", "soon"), "--window: not a duration: 'soon'"),
        (("--slide", "2m"), "--slide must be more than 0 and at most --window"),
        (("--slide", "0s"), "--slide must be"),
        (("--window", "2h", "--slide", "1s"), "--window must be at most 1000 times --slide"),
        (("--since", "long"), "--since: not a duration"),
        (("--since", "99999999999d"), "--since: no time was so long ago"),
        (("--top", "0"), "--top is 1 at least"),
        (("--watermark", "x"), "--watermark: not a duration"),
    ],
)
def test_usageErrors(more: tuple[str, ...], why: str) -> None:
    """A wrong command line ends with 2, and the error names the mistake."""
    code, _, _, errors = ran("--servers", "h", "--channel", "c", *more)
    assert code == 2
    assert why in errors


def test_unwritable(tmp_path: Path) -> None:
    """A table that cannot be written is an error, and no file is left."""
    (tmp_path / "file").write_text("")
    with pytest.raises(DataSourceError, match="File exists"):
        closed(windowsOf(60, 60, 0), 10).write(str(tmp_path / "file"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_percentile() -> None:
    """A percentile is the size that the given part of messages does not exceed."""
    sizes = Counter({10: 90, 1000: 9, 5000: 1})
    assert [percentile(sizes, part) for part in (0.5, 0.9, 0.95, 0.99, 1.0)] == [
        *(10, 10),
        *(1000, 1000),
        5000,
    ]
    assert percentile(Counter(), 0.5) == 0
