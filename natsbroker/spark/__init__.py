"""JetStream streams and channels of NATS Streaming as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from natsbroker.spark.sessions import registerIn, session

__all__ = ["makeStream", "register", "session"]


def register(spark: Any) -> None:
    """
    Make the data source known to a session that does not find it by name: one that has the package
    by C{--py-files}, or one of Spark Connect that L{session} did not make.
    """
    from natsbroker.spark.datasource.source import NatsBrokerSource

    registerIn(spark, NatsBrokerSource)


def makeStream(options: Mapping[str, str], **config: Any) -> None:
    """
    Make a JetStream stream; one with the same configuration stays as it is.

    @param config: as the JetStream API calls it; C{subjects} at least.
    """
    from natsbroker.spark.datasource.tasks import connected
    from natsbroker.spark.logs.apis import StreamApi
    from natsbroker.spark.logs.planning import oneName
    from natsbroker.spark.settings import readOptions

    values = readOptions(options)
    name = oneName(values, " to make")
    with connected(values) as connection:
        wanted = {"name": name, "allow_direct": True, **config}
        StreamApi(connection, values["domain"]).call(f"STREAM.CREATE.{name}", wanted, name)
