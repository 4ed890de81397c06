"""
Fixtures of the Spark tests: one session for all of them, with the Java of the test requirements.

In continuous integration all of them run; elsewhere they are left out without PySpark.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import pytest_runtest_makereport, showLogs, startServer
from tests.interop.servers import OURS_FAST, REAL, STREAMING_SERVERS, Flavour, Server
from tests.spark.kinds import Cluster
from tests.spark.objectstore import newBucket, objectStore
from tests.spark.support import CONFIG, STREAMING, BrokerStation, Station

__all__ = ["pytest_runtest_makereport", "startServer"]

if importlib.util.find_spec("pyspark") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]

#: What Spark and its scripts call; nothing else is on PATH when it starts, and no Java.
_TOOLS = (
    *("bash", "cat", "chmod", "dirname", "env", "ln"),
    *("ls", "ps", "readlink", "rm", "sh", "uname"),
)

_PATIENT = 'ping_interval: "1h"\n'
"""For the connections of stations, which are idle while other tests run and answer no PING then."""

_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="package")
def javaless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    @return: a directory for PATH with what Spark's scripts call, and without Java.
    """
    directory = tmp_path_factory.mktemp("path")
    for name in _TOOLS:
        program = shutil.which(name)
        if program is not None:
            (directory / name).symlink_to(program)
    return directory


@pytest.fixture(scope="package")
def store() -> Iterator[None]:
    """
    An object store that the environment names, also that of the workers of the session.
    """
    with objectStore() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def bucket(store: None) -> str:
    """
    The URL of an empty bucket.
    """
    return newBucket()


@pytest.fixture(scope="package")
def spark(javaless: Path, store: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """
    The session, started as on a machine without Java: C{natsbroker[spark-java]} brings it. It ends
    with the package, since tests of others need the whole PATH.
    """
    from natsbroker.spark import session
    from tests.spark.connecting import sparkHome

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(javaless))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for name in ("JAVA_HOME", "NATSBROKER_JAVA_HOME", "PYSPARK_PYTHON"):
            patch.delenv(name, raising=False)
        patch.setenv("SPARK_HOME", sparkHome())
        patch.setenv("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("spark")))
        warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        sparkSession = session("local[2]", {**_CONF, **warehouse}, "natsbroker tests")
        yield sparkSession
        sparkSession.stop()


@contextmanager
def _stationIn(directory: Path) -> Iterator[Station]:
    """
    A nats-server with JetStream.
    """
    started = Station(Server(REAL, directory, CONFIG + _PATIENT).start())
    try:
        yield started
    finally:
        started.close()


@contextmanager
def _brokerIn(directory: Path) -> Iterator[BrokerStation]:
    """
    A broker of ours with NATS Streaming.
    """
    started = BrokerStation(Server(OURS_FAST, directory, STREAMING + _PATIENT).start())
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def sharedStation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    """
    The nats-server of most tests.
    """
    with _stationIn(tmp_path_factory.mktemp("nats-server")) as started:
        yield started


@pytest.fixture
def station(sharedStation: Station, request: pytest.FixtureRequest) -> Station:
    """
    The same, with its log in the report of a test that fails.
    """
    showLogs(request.node, sharedStation.server)
    return sharedStation


@pytest.fixture
def ownStation(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Station]:
    """
    A nats-server of the test's own, for programs that name their streams by themselves.
    """
    with _stationIn(tmp_path_factory.mktemp("own-server")) as started:
        showLogs(request.node, started.server)
        yield started


@pytest.fixture(scope="session")
def sharedBroker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerStation]:
    """
    The broker of most tests.
    """
    with _brokerIn(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def broker(sharedBroker: BrokerStation, request: pytest.FixtureRequest) -> BrokerStation:
    """
    The same, with its log in the report of a test that fails.
    """
    showLogs(request.node, sharedBroker.server)
    return sharedBroker


@pytest.fixture
def ownBroker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[BrokerStation]:
    """
    A broker of the test's own, likewise.
    """
    with _brokerIn(tmp_path_factory.mktemp("own-broker")) as started:
        showLogs(request.node, started.server)
        yield started


@pytest.fixture(
    scope="session", params=[OURS_FAST, *STREAMING_SERVERS], ids=lambda flavour: flavour.name
)
def sharedStreaming(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerStation]:
    """
    A server of NATS Streaming: the broker of ours, and nats-streaming-servers where there are some.
    """
    flavour: Flavour = request.param
    if flavour is OURS_FAST:
        yield request.getfixturevalue("sharedBroker")
        return
    directory = tmp_path_factory.mktemp("streaming")
    arguments = ["--store", "FILE", "--dir", str(directory / "store"), "--max_channels", "0"]
    server = Server(flavour, directory, arguments=arguments).start()
    # The nats-server in it is ready before NATS Streaming is.
    server.waitForLog("Streaming Server is ready")
    station = BrokerStation(server)
    yield station
    station.close()


@pytest.fixture
def streaming(sharedStreaming: BrokerStation, request: pytest.FixtureRequest) -> BrokerStation:
    """
    The same, with its log in the report of a test that fails.
    """
    showLogs(request.node, sharedStreaming.server)
    return sharedStreaming


@pytest.fixture(scope="session")
def sharedCluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """
    Three nats-servers in a cluster.
    """
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()
