"""A Spark session with all necessary settings: here, or of a Spark Connect server."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from natsbroker.spark.errors import ConnectionFailed, DataSourceError, OptionError
from natsbroker.spark.java import findJava

#: The option C{pushdown} of the data source needs it.
_ALWAYS = {"spark.sql.python.filterPushdown.enabled": "true"}

#: For a driver and executors in one machine: no name look-ups, and nobody else can connect.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

#: The setting that starts workers faster; see L{natsbroker.spark.datasource.workers}.
_DAEMON = {"spark.python.daemon.module": "natsbroker.spark.datasource.workers"}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = Path(__file__).with_name("log4j2.properties").absolute()

#: Set by C{spark-submit} for the Python that it starts; it chooses the master then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

_REMOTE = "sc://"
_REMOTE_PORT = 15002

#: The most seconds that a Spark Connect server may take to accept a connection.
_PATIENCE = 10.0


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, appName: str = "natsbroker"
) -> Any:
    """
    The running C{SparkSession}, or a new one, on whatever Java there is.

    @param master: where Spark runs, C{sc://HOST:PORT} for Spark Connect; by default C{conf}'s, else
        that of C{spark-submit} or C{SPARK_REMOTE}, else C{local[*]}; a running session ignores it.
    @param conf: more of Spark's own settings, by their names.
    @raise JavaMissing: if there is no Java for it.
    """
    given = dict(conf or {})
    place = master or given.pop("spark.remote", "") or given.get("spark.master", "")
    if not place and _SUBMITTED not in os.environ:
        place = os.environ.get("SPARK_REMOTE") or "local[*]"
    made = _remote(place, given) if place.startswith(_REMOTE) else _own(place, given, appName)
    # Of two sessions in one JVM the later has the table of data sources of the first, with classes
    # of a Python that may have ended.
    from natsbroker.spark.datasource.source import NatsBrokerSource

    source: Any = NatsBrokerSource
    if not isRemote(made):
        known = int(made.sparkContext.defaultParallelism)
        source = type("SessionSource", (source,), {"parallelism": known, "__module__": __name__})
    registerIn(made, source)
    return made


def registerIn(spark: Any, source: Any) -> None:
    """Register a data source. This also works if PySpark 4.0 has found the name itself."""
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def isRemote(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _own(place: str, given: Mapping[str, str], appName: str) -> Any:
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise DataSourceError(
            f"this PySpark starts no Spark of its own ({error}): name a Spark Connect server,"
            " sc://HOST:PORT, or install natsbroker[spark] in place of natsbroker[spark-client]"
        ) from None
    if SparkContext._gateway is None and _SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = str(findJava(os.environ).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = dict(_ALWAYS)
    if place.startswith("local"):
        settings |= _LOCAL
        # So that Spark does not complain about the address of this machine's name.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if place.startswith("local[") and versionOf("natsbroker"):
        settings |= _DAEMON
    settings |= given
    java = settings.get(_JAVA_OPTIONS, "")
    if "log4j" not in java:
        settings[_JAVA_OPTIONS] = f"{java} -Dlog4j2.configurationFile={_LOGGING.as_uri()}".lstrip()
    if place:
        settings["spark.master"] = place
    return _built(SparkSession.builder.appName(appName), settings)


def versionOf(package: str) -> str | None:
    """The version that every Python process finds here, not just one with a modified path."""
    from importlib import metadata  # A slow import, which workers do not need.

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _remote(url: str, given: Mapping[str, str]) -> Any:
    """
    A session of a Spark Connect server. Settings that only a new Spark can take have no effect
    there.
    """
    try:
        import_module("pyspark.sql.connect.session")  # Needs gRPC and other packages.
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise DataSourceError(
            f"{url}: the client of Spark Connect is not installed"
            f" ({str(error).splitlines()[0]}): pip install 'natsbroker[spark-client]', or"
            " 'pyspark[connect]' beside natsbroker[spark]"
        ) from None
    _checkServer(url)
    settings = {name: value for name, value in given.items() if name.startswith("spark.sql.")}
    return _built(SparkSession.builder.remote(url), {**_ALWAYS, **settings})


def _built(builder: Any, settings: Mapping[str, str]) -> Any:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except RuntimeError as error:
        if "SESSION_ALREADY_EXIST" in str(error) or "already running" in str(error):
            raise OptionError(
                "one process has sessions of its own Spark or of Spark Connect, not both: stop the"
                " other one, or use another process"
            ) from None
        raise


def _checkServer(url: str) -> None:
    """Check that somebody listens: gRPC alone would try silently for ten minutes."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _REMOTE_PORT
    except ValueError:
        host, port = None, 0
    if not host:
        raise OptionError(f"not the address of a Spark Connect server: {url}: sc://HOST:PORT")
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError as error:
        raise ConnectionFailed(
            f"no Spark Connect server at {host}:{port}: {error.strerror or error}"
        ) from None
