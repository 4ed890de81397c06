"""
A Spark session with everything set that must be set.

Promises: Java is found or the error says how to get one; workers run this Python; nothing that the
caller or the environment sets is overridden.
Must never know: NATS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from natsbroker.spark.errors import OptionError
from natsbroker.spark.java import findJava

__all__ = ["session"]

#: The option C{pushdown} of the data source needs it.
_ALWAYS = {"spark.sql.python.filterPushdown.enabled": "true"}

#: For a driver and executors in one machine: no name look-ups, and nobody else can connect.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, appName: str = "natsbroker"
) -> Any:
    """
    The running session, or a new one.

    @param master: where Spark runs; by default what C{conf} says, else C{local[*]}. For a session
        that runs already it is not looked at.
    @param conf: more of Spark's own settings, by their names.
    @raise JavaMissing: if there is no Java for it.
    """
    given = dict(conf or {})
    place = master or given.get("spark.master") or "local[*]"
    if place.startswith("sc://") or "spark.remote" in given:
        raise OptionError(
            "session() starts Spark here and does not connect to a Spark Connect server yet:"
            " use SparkSession.builder.remote(...)"
        )
    if SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(findJava(os.environ).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {**_ALWAYS, **(_LOCAL if place.startswith("local") else {})}
    settings |= given
    settings["spark.master"] = place
    builder = SparkSession.builder.appName(appName)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
