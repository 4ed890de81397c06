"""The report of C{natsbroker spark doctor}: what is here, and whether Spark runs on it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import TextIO

from natsbroker.spark import session
from natsbroker.spark.errors import JavaMissing
from natsbroker.spark.java import findJava
from natsbroker.spark.jobs.common import inSpark
from natsbroker.spark.sessions import versionOf

_REMEDY = "pip install 'natsbroker[spark]'"

#: The packages that must be installed, and their oldest versions that will do.
_PACKAGES = {"pyspark": (4, 0), "pyarrow": (18,)}

#: PySpark without Spark, as another package of the same modules.
_CLIENT = "pyspark-client"

#: The extras: the name of each, its package, and the command that installs it.
_EXTRAS = (
    ("Connect", "grpcio-status", "'pyspark[connect]'"),
    ("Delta", "deltalake", "'natsbroker[delta]'"),
    ("Iceberg", "pyiceberg", "'natsbroker[iceberg]'"),
    ("Avro", "fastavro", "'natsbroker[avro]'"),
)

_CONF = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    return 0 if examine(stdout, arguments[1] if arguments else "local[1]") else 1


def examine(out: TextIO, master: str = "local[1]") -> bool:
    """Whether Spark can be used, at C{master}; C{sc://HOST:PORT} needs no Java here."""
    print(f"Python:  {platform.python_version()}, {sys.executable}", file=out)
    isClient = versionOf("pyspark") is None and versionOf(_CLIENT) is not None
    packages = {(_CLIENT if isClient and x == "pyspark" else x): y for x, y in _PACKAGES.items()}
    if not all([_package(out, name, oldest) for name, oldest in packages.items()]):
        return False
    for what, name, remedy in _EXTRAS:
        version = versionOf(name)
        said = f"{name} {version}" if version else f"not installed; if wanted: pip install {remedy}"
        print(f"{what + ':':<9}{said}", file=out)
    isRemote = master.startswith("sc://")
    if isClient and not isRemote:
        print(
            f"Java:    {_CLIENT} cannot start Spark by itself: doctor --master sc://HOST:PORT",
            file=out,
        )
        return False
    if not isRemote and not _java(out):
        return False
    try:
        spark = session(master, _CONF)
        total = spark.range(1000).selectExpr("sum(id) AS total").collect()[0]["total"]
        print(f"Query:   Spark {spark.version} added 0 to 999 and found {total}", file=out)
        [(python, arrow, ours)] = inSpark(spark, _seenByWorker, [0])
    except Exception as error:
        # Any error of Spark or Java is a result of this check.
        [said, *_] = (str(error).strip() or type(error).__name__).splitlines()
        print(f"Query:   failed: {said}", file=out)
        return False
    print(f"Worker:  Python {python}, PyArrow {arrow}, natsbroker {ours}", file=out)
    numbers = slice(2 if isRemote else 3)
    isSame = python.split(".")[numbers] == platform.python_version().split(".")[numbers]
    if total != 499_500 or not isSame:
        print("         which is not right: workers must run the Python of the driver", file=out)
        return False
    print("Spark can be used.", file=out)
    return True


def _java(out: TextIO) -> bool:
    try:
        java = findJava(os.environ)
    except JavaMissing as error:
        print(f"Java:    {error}", file=out)
        return False
    print(f"Java:    {java.version}, found by {java.origin}, {java.wrapped or java.home}", file=out)
    if java.wrapped is not None:
        print(f"         lacks a module that Spark asks for: started by {java.home}", file=out)
    return True


def _package(out: TextIO, name: str, oldest: tuple[int, ...]) -> bool:
    version = versionOf(name)
    if version is None:
        print(f"{name}: not installed: {_REMEDY}", file=out)
        return False
    print(f"{name}: {version}", file=out)
    if tuple(int(part) for part in version.split(".")[: len(oldest)]) < oldest:
        wanted = ".".join(map(str, oldest))
        print(f"         which is too old, {wanted} or later is needed: {_REMEDY}", file=out)
        return False
    return True


def _seenByWorker(_: int) -> tuple[str, str, str]:
    import pyarrow

    import natsbroker

    return platform.python_version(), pyarrow.__version__, natsbroker.__version__
