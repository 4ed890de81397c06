"""
Tasks in the workers of a Spark Connect server, where no C{SparkContext} hands out functions: a data
source of our own whose partitions are the tasks, and whose rows are what they return.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_NAME = "natsbroker_tasks"


class PickledTask(InputPartition):
    def __init__(self, place: int, pickled: bytes) -> None:
        super().__init__(place)
        self.place = place
        self.pickled = pickled


class TaskReader(DataSourceReader):
    def __init__(self, tasks: Sequence[bytes]) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [PickledTask(place, each) for place, each in enumerate(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        if not isinstance(partition, PickledTask):
            raise TypeError(f"{type(partition).__name__} is no task")
        work, argument = pickle.loads(partition.pickled)
        yield partition.place, cloudpickle.dumps(work(argument))


class TaskSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return "place INT, result BINARY"

    def reader(self, schema: Any) -> DataSourceReader:
        count = int(self.options["count"])
        return TaskReader([base64.b64decode(self.options[f"task{n}"]) for n in range(count)])


def runTasks(spark: Any, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    spark.dataSource.register(TaskSource)
    options = {
        f"task{place}": base64.b64encode(cloudpickle.dumps((work, each))).decode("ascii")
        for place, each in enumerate(tasks)
    }
    frame = spark.read.format(_NAME).options(count=str(len(tasks)), **options).load()
    rows = sorted(frame.collect(), key=lambda row: int(row.place))
    return [pickle.loads(bytes(row.result)) for row in rows]
