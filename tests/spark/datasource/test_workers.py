"""
The program that starts Spark's Python workers.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import pyspark

from natsbroker.spark.datasource.workers import freezeModules, withoutArchives


class TestArchives:
    """Which PySpark workers take."""

    def test_installed(self) -> None:
        """
        The PySpark archive of the installed package is not on the workers' path; other archives
        are.
        """
        archives = Path(pyspark.__file__).parent / "python" / "lib"
        ours, other = str(archives / "pyspark.zip"), "/elsewhere/python/lib/pyspark.zip"
        assert withoutArchives([ours, other, *sys.path]) == [other, *sys.path]

    def test_archiveOnly(self) -> None:
        """The archive stays if there is no other copy."""
        path = ["/elsewhere/python/lib/pyspark.zip", "/nowhere"]
        assert withoutArchives(path) == path


def test_freeze() -> None:
    """Loaded modules are exempt from garbage collection."""
    freezeModules.cache_clear()
    try:
        freezeModules()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()


def test_session(spark: Any) -> None:
    """Workers of a local session run the installed package."""
    paths = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert paths == [pyspark.__file__]
