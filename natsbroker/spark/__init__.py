"""
JetStream streams and channels of NATS Streaming as Spark DataFrames: the data source C{natsbroker},
and what makes Spark run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["register", "session"]


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, appName: str = "natsbroker"
) -> Any:
    """
    A C{SparkSession} on whatever Java there is: see L{natsbroker.spark.sessions}.

    @param master: where Spark runs, C{sc://HOST:PORT} for Spark Connect; by default what
        C{spark.master} or C{spark-submit} says, else C{local[*]}.
    @param conf: more of Spark's own settings.
    """
    from natsbroker.spark.sessions import session

    return session(master, conf, appName)


def register(spark: Any) -> None:
    """
    Make the data source known to a session that does not find it by its name: one whose Python was
    given this package with C{--py-files}, or one of Spark Connect that L{session} did not make.
    """
    from natsbroker.spark.datasource.source import NatsBrokerSource

    spark.dataSource.register(NatsBrokerSource)
