"""
The ranges of a query as Spark hands them to workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from natsbroker.spark.datasource.tasks import batchesOf, logLoss
from natsbroker.spark.datasource.workers import freezeModules
from natsbroker.spark.logs.reading import SequenceRange
from natsbroker.spark.nats.connection import ServerAccess


class RangePartition(InputPartition):
    def __init__(self, bounds: SequenceRange, patterns: tuple[str, ...]) -> None:
        super().__init__(bounds.start)
        self.bounds = bounds
        self.patterns = patterns


def readRange(
    peer: ServerAccess,
    options: dict[str, Any],
    columns: tuple[str, ...],
    partition: InputPartition,
) -> Iterator[Any]:
    if not isinstance(partition, RangePartition):
        raise TypeError(f"{type(partition).__name__} is no task of this source")
    freezeModules()
    yield from batchesOf(peer, options, columns, partition.bounds, partition.patterns, logLoss)
