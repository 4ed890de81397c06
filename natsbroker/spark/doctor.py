"""
What C{natsbroker spark doctor} says: what was found, and whether Spark runs on it.

Promises: each thing that is missing is named with its remedy; what is said to work was tried: a
query in the JVM, and one in a Python worker. Loads without PySpark.
Must never know: command lines.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from typing import Any, TextIO

from natsbroker.spark import session
from natsbroker.spark.errors import JavaMissing
from natsbroker.spark.java import findJava

__all__ = ["examine"]

_REMEDY = "pip install 'natsbroker[spark]'"

#: What must be installed, and the oldest version of it that will do.
_PACKAGES = {"pyspark": (4, 2), "pyarrow": (18,)}


def _ownSession() -> Any:
    return session("local[1]", {"spark.ui.enabled": "false", "spark.log.level": "ERROR"})


def examine(out: TextIO, makeSession: Callable[[], Any] = _ownSession) -> bool:
    """
    Look at what there is, try it, and say so.

    @param makeSession: gives the session that is tried.
    @return: whether Spark can be used.
    """
    print(f"Python:  {platform.python_version()}, {sys.executable}", file=out)
    if not all([_package(out, name, oldest) for name, oldest in _PACKAGES.items()]):
        return False
    try:
        java = findJava(os.environ)
    except JavaMissing as error:
        print(f"Java:    {error}", file=out)
        return False
    print(f"Java:    {java.version}, found by {java.origin}, {java.wrapped or java.home}", file=out)
    if java.wrapped is not None:
        print(f"         lacks a module that Spark asks for: started by {java.home}", file=out)
    try:
        spark = makeSession()
        total = spark.range(1000).selectExpr("sum(id) AS total").collect()[0]["total"]
        print(f"Query:   Spark {spark.version} added 0 to 999 and found {total}", file=out)
        python, arrow = spark.sparkContext.range(0, 1, numSlices=1).map(_seenByWorker).collect()[0]
    except Exception as error:
        # Whatever is wrong with Spark or Java is what this is here to show.
        print(f"Query:   failed: {_firstLine(error)}", file=out)
        return False
    print(f"Worker:  Python {python}, PyArrow {arrow}", file=out)
    isSame = python == platform.python_version()
    if total != 499_500 or not isSame:
        print("         which is not right: workers must run the Python of the driver", file=out)
        return False
    print("Spark can be used.", file=out)
    return True


def _package(out: TextIO, name: str, oldest: tuple[int, ...]) -> bool:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        print(f"{name}: not installed: {_REMEDY}", file=out)
        return False
    print(f"{name}: {version}", file=out)
    if tuple(int(each) for each in version.split(".")[: len(oldest)]) < oldest:
        wanted = ".".join(map(str, oldest))
        print(f"         which is too old, {wanted} or later is needed: {_REMEDY}", file=out)
        return False
    return True


def _seenByWorker(_: int) -> tuple[str, str]:
    import pyarrow

    return platform.python_version(), pyarrow.__version__


def _firstLine(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
