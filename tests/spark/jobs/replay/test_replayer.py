"""
One task of a replay, to nats-server.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError, DataLoss, DataSourceError, OptionError
from natsbroker.spark.jobs.replay.replayer import Replayer, ReplayTask, Row, startOf
from natsbroker.spark.nats.connection import connect
from tests.spark.jobs.replayed import payloads
from tests.spark.support import Station, Stream


def row(seq: int, subject: str = "x", headers: Any = None, when: int | None = None) -> Row:
    """A row whose payload says its sequence."""
    return seq, subject, b"%d" % seq, headers, when


def taskTo(stream: Stream, **more: Any) -> ReplayTask:
    """A task."""
    maps = (f"*={stream.name}.*",)
    fields = {"job": stream.name, "plan": "plan", "origin": "IN", "stream": stream.name}
    return ReplayTask(**{**fields, "maps": maps, "patience": 60.0, **more})


@contextmanager
def replayerTo(station: Station, stream: Stream, **more: Any) -> Iterator[Replayer]:
    """A task over a connection of its own."""
    with connect(station.peer) as connection:
        yield Replayer(connection, "", taskTo(stream, **more))


def replayed(station: Station, stream: Stream, rows: Iterable[Row], **more: Any) -> Replayer:
    """A task that has published some rows."""
    with replayerTo(station, stream, **more) as replayer:
        replayer.take(rows)
        return replayer


def test_published(station: Station) -> None:
    """Rows are published in order, with headers about their origin and their own headers."""
    stream = station.stream()
    own = [{"key": "Nats-Msg-Id", "value": "9"}, {"key": "K", "value": "v"}]
    replayer = replayed(station, stream, [row(3), row(5, "y", own, 77)])
    assert (replayer.rows, replayer.found) == (2, 0)
    assert payloads(station, stream) == [3, 5]
    message = stream.api("MSG.GET", {"seq": 2})["message"]
    assert message["subject"] == f"{stream.name}.y"
    headers = base64.b64decode(message["hdrs"]).decode().split("\r\n")[1:-2]
    assert headers == [
        f"Nats-Expected-Stream: {stream.name}",
        "Nats-Msg-Id: IN:5",
        "Nb-Origin-Stream: IN",
        "Nb-Origin-Sequence: 5",
        f"Nb-Replay: {stream.name}.0",
        "Nb-Origin-Time: 77",
        "Nb-Origin-Nats-Msg-Id: 9",
        "K: v",
    ]


def test_secondRunPublishesNewRows(station: Station) -> None:
    """A second run publishes only new rows, even if the duplicate window is over."""
    stream = station.stream(duplicate_window=100_000_000)
    replayed(station, stream, map(row, (1, 2, 4)))
    stream.fill([b"7"])
    time.sleep(0.2)
    replayer = replayed(station, stream, map(row, (1, 2, 4, 6)))
    assert (replayer.next, replayer.rows, replayer.found) == (5, 1, 0)
    assert payloads(station, stream) == [1, 2, 4, 7, 6]
    assert replayed(station, stream, []).next == 7


def test_text(station: Station) -> None:
    """Payloads may be texts, and missing."""
    stream = station.stream()
    replayed(station, stream, [(1, "x", "12", None, None), (2, "x", bytearray(b"3"), None, None)])
    assert payloads(station, stream) == [12, 3]
    replayed(station, stream, [(3, "x", None, None, None)])
    assert "data" not in stream.api("MSG.GET", {"seq": 3})["message"]


def test_unacknowledged(station: Station) -> None:
    """Only acknowledged messages are recorded in the ledger."""
    stream = station.stream()
    with replayerTo(station, stream) as replayer:
        for seq in (3, 4, 7):
            replayer._publish(row(seq))
        replayer._note(lambda row: None)
        replayer._pipeline.finish()
        replayer._note(lambda row: None)
        replayer._pipeline.finish()
    entries = station.streams.call(
        "STREAM.MSG.GET.KV_NB_REPLAY", {"last_by_subj": f"$KV.NB_REPLAY.{stream.name}.0"}, "KV"
    )
    assert b'"row":7,"at":3,' in base64.b64decode(entries["message"]["data"])
    with replayerTo(station, stream) as replayer:
        replayer._publish(row(9))
        shown: list[int] = []
        replayer._note(shown.append)
        assert shown == [8]


class Torn(Exception):
    """The exception that ends a task in the middle."""


def torn(seqs: Iterable[int]) -> Iterator[Row]:
    """Rows, and then an end like that of a killed task."""
    yield from map(row, seqs)
    raise Torn


def broken(station: Station, stream: Stream, seqs: Iterable[int], **more: Any) -> None:
    """Let a task publish rows and not record them."""
    with replayerTo(station, stream, **more) as replayer, pytest.raises(Torn):
        replayer._noted = time.monotonic() + 1000
        replayer.take(torn(seqs))
    # What was collected and not sent is lost with the task; what was sent is stored.


@pytest.mark.parametrize("isDirect", [True, False])
def test_tail(isDirect: bool, station: Station) -> None:
    """Messages that were published but not recorded are found at the end of the stream."""
    stream = station.stream(duplicate_window=100_000_000, allow_direct=isDirect)
    broken(station, stream, range(1, 60), window=8)
    stream.fill([b"0"])
    time.sleep(0.2)
    stored = [payload for payload in payloads(station, stream) if payload]
    assert stored == list(range(1, len(stored) + 1))
    assert 8 <= len(stored) < 60
    replayer = replayed(station, stream, map(row, range(1, 100)), window=8)
    assert replayer.next <= len(stored)
    assert replayer.found == len(stored) + 1 - replayer.next
    assert [payload for payload in payloads(station, stream) if payload] == list(range(1, 100))


def test_killedTwice(station: Station) -> None:
    """
    A replay is continued correctly after several kills, with more or less published each time.
    """
    stream = station.stream(duplicate_window=100_000_000)
    broken(station, stream, range(1, 60), window=32)
    for count in (5, 40, 70, 90):
        time.sleep(0.15)
        broken(station, stream, range(1, count), window=8)
    time.sleep(0.15)
    replayed(station, stream, map(row, range(1, 100)))
    assert payloads(station, stream) == list(range(1, 100))


def test_hole(station: Station) -> None:
    """A row that is missing between published ones is published; the others are not repeated."""
    stream = station.stream(duplicate_window=100_000_000)
    with replayerTo(station, stream):
        pass
    for seq in (1, 2, 4, 5):
        mark = {"Nb-Replay": f"{stream.name}.0", "Nb-Origin-Sequence": str(seq)}
        stream.add("x", b"%d" % seq, mark)
    broken(station, stream, range(1, 4), window=1)
    time.sleep(0.2)
    replayed(station, stream, map(row, range(1, 7)))
    assert payloads(station, stream) == [1, 2, 4, 5, 3, 6]


def test_noLedger(station: Station) -> None:
    """Without a ledger, only the duplicate window of the stream prevents repetitions."""
    stream = station.stream(duplicate_window=100_000_000)
    replayed(station, stream, map(row, (1, 2)), hasLedger=False)
    replayed(station, stream, map(row, (1, 2)), hasLedger=False)
    time.sleep(0.3)
    replayed(station, stream, map(row, (1, 2)), hasLedger=False)
    assert payloads(station, stream)[-2:] == [1, 2]
    assert len(payloads(station, stream)) >= 4


def test_onItsWay(station: Station) -> None:
    """
    A task waits until the server has closed the connection of a dead task, whose messages may still
    arrive.
    """
    stream = station.stream(duplicate_window=100_000_000)
    dead = connect(station.peer)
    replayer = Replayer(dead, "", taskTo(stream))
    starting = subprocess.Popen(
        [sys.executable, "-c", _GOES_ON, station.url, stream.name],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starting.stdout is not None
    assert starting.stdout.readline() == "ready\n"
    for seq in range(1, 6):
        replayer._publish(row(seq))
    replayer._pipeline.flush()
    dead._socket.close()
    summary, _ = starting.communicate(timeout=60)
    assert summary == "done\n"
    assert payloads(station, stream) == list(range(1, 9))


#: Continues a task.
_GOES_ON = """
import sys
from natsbroker.spark.nats.addresses import readAddresses
from natsbroker.spark.nats.addresses import ServerAccess
from natsbroker.spark.nats.connection import connect
from natsbroker.spark.jobs.replay.replayer import Replayer, ReplayTask
url, name = sys.argv[1:]
maps = (f"*={name}.*",)
task = ReplayTask(job=name, plan="plan", origin="IN", stream=name, maps=maps, patience=60.0)
with connect(ServerAccess(readAddresses(url))) as connection:
    print("ready", flush=True)
    replayer = Replayer(connection, "", task)
    replayer.take((n, "x", b"%d" % n, None, None) for n in range(1, 9))
print("done", flush=True)
"""


def test_runningTask(station: Station) -> None:
    """A second task is refused while the first one is active, and may take over when it is not."""
    stream = station.stream()
    with replayerTo(station, stream) as replayer:
        with pytest.raises(DataSourceError, match="is being done by another process"):
            with replayerTo(station, stream, patience=0.3):
                pass
        replayer.take([row(1)])
        with replayerTo(station, stream, patience=0.3) as other:
            assert other.next == 2
            with pytest.raises(DataSourceError, match=r"is being done by another process$"):
                replayer.take([row(2)])


def test_begunTogether(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two tasks that begin at the same time, one does the work."""
    stream = station.stream()
    claim = Replayer._check

    with replayerTo(station, stream) as first:
        first.take([])

    def racing(self: Replayer, entry: Any) -> None:
        claim(self, entry)
        monkeypatch.setattr(Replayer, "_check", claim)
        with replayerTo(station, stream):
            pass

    monkeypatch.setattr(Replayer, "_check", racing)
    with pytest.raises(DataSourceError, match=r"is being done by another process$"):
        with replayerTo(station, stream):
            pass


def test_otherPlan(station: Station) -> None:
    """A ledger of another replay, or of a stream that was created again, is refused."""
    stream = station.stream()
    replayed(station, stream, [row(1)])
    with pytest.raises(OptionError, match="for something else that was replayed"):
        replayed(station, stream, [row(1)], plan="other")
    assert replayed(station, stream, [row(1)], plan="other", job="mine").rows == 1
    stream.api("DELETE")
    stream.make()
    with pytest.raises(DataLoss, match="was deleted and made again since"):
        replayed(station, stream, [row(1)])


@pytest.mark.parametrize("seqs", [(1, 1), (2, 1), (1, 2, 1)])
def test_notAscending(seqs: tuple[int, ...], station: Station) -> None:
    """Sequences that occur twice, or are not in order, are an error."""
    with pytest.raises(
        DataSourceError, match=r"IN: the sequence 1 comes after \d: each must be there"
    ):
        replayed(station, station.stream(), map(row, seqs))


def test_rowThatTheStreamRefuses(station: Station) -> None:
    """A row that the stream refuses ends the task. Earlier rows are recorded as published."""
    stream = station.stream()
    with pytest.raises(ApiError, match=r"other\.x was not stored: no stream takes its subject"):
        replayed(station, stream, [row(1), row(2, "other.x")], window=1)
    with pytest.raises(ApiError, match=rf"stream {stream.name} does not take other\.x"):
        replayed(station, stream, [row(2, "other.x")])
    assert replayed(station, stream, map(row, (1, 2))).rows == 1
    assert payloads(station, stream) == [1, 2]


def test_isOver(station: Station) -> None:
    """A task that is asked to end records its position. The next one continues there."""
    stream = station.stream()
    shown: list[int] = []
    with replayerTo(station, stream) as replayer:
        asked = iter([False] * 7)
        replayer.take(map(row, range(1, 10)), lambda: next(asked, True), shown.append)
    assert (replayer.rows, shown[-1]) == (7, 7)
    assert replayed(station, stream, map(row, range(1, 10))).next == 8
    assert payloads(station, stream) == list(range(1, 10))


def test_overWhileWaiting(station: Station) -> None:
    """A replay that waits for the time of its next message ends when it is asked to."""
    stream = station.stream()
    year = 365 * 86400 * 10**9
    asked = iter([False] * 5)
    with replayerTo(station, stream, speed=1.0) as replayer:
        replayer.take([row(1, when=0), row(2, when=year)], lambda: next(asked, True))
    assert payloads(station, stream) == [1]


def test_startOf(station: Station) -> None:
    """The source is read from the lowest row that any task still needs."""
    stream = station.stream()
    replayed(station, stream, map(row, (1, 2, 9)))
    replayed(station, stream, map(row, (3, 4)), partition=1)
    task = taskTo(stream)
    with connect(station.peer) as connection:
        assert startOf(connection, "", task, 1) == 10
        assert startOf(connection, "", task, 2) == 5
        assert startOf(connection, "", task, 3) == 0
        assert startOf(connection, "", taskTo(stream, hasLedger=False), 1) == 0
