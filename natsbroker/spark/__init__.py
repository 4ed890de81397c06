"""
Spark beside NATS: what makes it run, and what workers need to talk to a server.

Promises: this module loads without PySpark; Spark is needed when a function is called.
Must never know: Twisted. What runs in a Spark worker is blocking code over sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["session"]


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, appName: str = "natsbroker"
) -> Any:
    """
    A C{SparkSession} on whatever Java there is: see L{natsbroker.spark.sessions}.

    @param master: where Spark runs; by default what C{spark.master} says, else C{local[*]}.
    @param conf: more of Spark's own settings.
    """
    from natsbroker.spark.sessions import session

    return session(master, conf, appName)
