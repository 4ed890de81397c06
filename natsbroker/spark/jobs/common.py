"""
What all jobs have in common: how they run tasks, tell how far they are, and say what came of it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from natsbroker.files import replaceFile
from natsbroker.spark.cli import DESCRIPTIONS
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.settings import readOptions

FOUND, WRONG, FAILED = 1, 2, 3

#: How Spark repeats what a worker raised.
_RAISED = re.compile(r"natsbroker\.spark\.[\w.]+\.(?P<kind>[A-Z]\w+): (?P<text>[^\n]+)")

_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


#: What runs tasks: in this process, or in Spark's workers.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]

#: The schema of what tasks return, where no C{SparkContext} collects it.
RESULTS = "place BIGINT, result BINARY"


class JobUsageError(Exception):
    """
    The command line is wrong.
    """


class JobRun(argparse.ArgumentParser):
    """
    One run of a job by its command line.

    @ivar summary: its line of JSON.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        summary: dict[str, Any],
        stdout: TextIO,
        stderr: TextIO,
    ) -> None:
        super().__init__(f"natsbroker spark {name}", description=DESCRIPTIONS.get(name))
        self.name = name
        self.summary = summary
        self.stdout = stdout
        self.stderr = stderr
        self._arguments = arguments

    def given(self) -> argparse.Namespace:
        return self.parse_args(list(self._arguments))

    def error(self, message: str) -> NoReturn:
        raise JobUsageError(f"{self.prog}: {message}\n{self.format_usage()}")


class BadArgument(argparse.ArgumentTypeError, ValueError):
    """
    A value of an option makes no sense.
    """


def secondsOf(text: str) -> float:
    """
    A duration: C{90}, C{90s}, C{5m}, C{2h}, C{1d}.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadArgument(f"not a duration: {text!r}")
    return float(found["number"]) * _UNITS[found["unit"]]


def addServers(parser: argparse.ArgumentParser, isRequired: bool = True) -> None:
    parser.add_argument("--servers", required=isRequired, help="where the servers are")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another option of the data source, such as credentialsFile",
    )


def addArchive(parser: argparse.ArgumentParser) -> None:
    addServers(parser)
    parser.add_argument("--archive", required=True, help="the directory of the archive")


def addSource(parser: argparse.ArgumentParser, isRequired: bool = True) -> None:
    addServers(parser, isRequired)
    parser.add_argument("--stream", help="the JetStream stream")
    parser.add_argument("--channel", help="the channel of NATS Streaming")
    addMaster(parser)


def addMaster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        default="",
        help="where Spark runs: local[*], sc://HOST:PORT ...; the work is done here, without Spark,"
        " if neither this nor spark-submit says so",
    )


def addTarget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to-servers", required=True, help="where the target's servers are")
    parser.add_argument("--to-stream", required=True, help="the stream; it must be there")
    parser.add_argument("--to-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--rate", type=float, default=0.0, help="messages a second at most")
    parser.add_argument("--window", type=int, default=1000, help="unacknowledged, of each task")


def targetTexts(given: argparse.Namespace) -> dict[str, str]:
    """
    The options of the data source for a target.
    """
    texts = {"servers": given.to_servers, "stream": given.to_stream}
    return texts | pairsOf(given.to_option, "--to-option")


def pairsOf(texts: Iterable[str], flag: str) -> dict[str, str]:
    found = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not equals:
            raise JobUsageError(f"{flag} takes NAME=VALUE, not {each!r}")
        found[name] = value
    return found


def optionTexts(given: argparse.Namespace, **more: str) -> dict[str, str]:
    named = {name: getattr(given, name, None) for name in ("stream", "channel")}
    texts = {name: text for name, text in named.items() if text}
    return {"servers": given.servers, **more, **texts, **pairsOf(given.option, "--option")}


def sourceOptions(given: argparse.Namespace, **more: str) -> dict[str, Any]:
    return checkedOptions(optionTexts(given, **more))


def checkedOptions(texts: Mapping[str, str]) -> dict[str, Any]:
    try:
        return readOptions(texts)
    except OptionError as error:
        raise JobUsageError(str(error)) from None


@contextmanager
def workersErrors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raised = _RAISED.search(str(error))
        if raised is None:
            raise
        raise DataSourceError(raised["text"]) from None


def inline(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    return [work(each) for each in tasks]


def runnerOf(spark: Any) -> Runner:
    return inline if spark is None else inSpark(spark)


def inSpark(spark: Any) -> Runner:
    from natsbroker.spark.sessions import isRemote

    def run(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []
        with workersErrors():
            if isRemote(spark):
                return _ranRemotely(spark, work, tasks)
            context = spark.sparkContext
            slices = min(len(tasks), 4 * context.defaultParallelism)
            return list(context.parallelize(tasks, slices).map(work).collect())

    return run


def readInTasks(
    spark: Any, schema: str, read: Callable[[Any], Iterable[Any]], items: Sequence[Any]
) -> Any:
    """
    A DataFrame of what tasks read, one for each item.

    @param read: gives Arrow batches with the columns of the schema.
    """

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(items[number])

    return spark.range(0, len(items), 1, len(items)).mapInArrow(rows, schema)


def _ranRemotely(spark: Any, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """
    Where no C{SparkContext} hands out functions, what they return is a DataFrame.
    """

    def read(task: tuple[int, Any]) -> Iterator[Any]:
        yield resultBatch(task[0], work(task[1]))

    return resultsIn(readInTasks(spark, RESULTS, read, list(enumerate(tasks))))


def resultBatch(place: int, result: Any) -> Any:
    """
    What a task returns, as a row of L{RESULTS}.
    """
    import pyarrow as pa
    from pyspark import cloudpickle

    return pa.record_batch([[place], [cloudpickle.dumps(result)]], ["place", "result"])


def resultsIn(frame: Any) -> list[Any]:
    """
    What the tasks of a DataFrame of L{RESULTS} return, by their places.
    """
    rows = sorted(frame.collect(), key=lambda row: int(row.place))
    return [pickle.loads(bytes(each.result)) for each in rows]


@contextmanager
def sessionFor(master: str) -> Iterator[Any]:
    """
    The session in which a command line has work done; C{None} for C{inline}.
    """
    if master == "inline":
        yield None
        return
    from natsbroker.spark import session

    conf = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
    spark = session(master or None, conf, "natsbroker")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def runnerFor(master: str) -> Iterator[Runner]:
    with sessionFor(masterOr(master)) as spark:
        yield runnerOf(spark)


def masterOr(master: str) -> str:
    """
    Where a job works that does not need Spark: where it was told to, else where C{spark-submit} or
    C{SPARK_REMOTE} says, else in this process.
    """
    isElsewhere = any(each in os.environ for each in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))
    return master or ("" if isElsewhere else "inline")


class Progress:
    """
    Says on a terminal how far a job is; elsewhere nothing.
    """

    def __init__(self, job: str, out: TextIO) -> None:
        self._job = job
        self._out = out if out.isatty() else None

    def __call__(self, done: int, end: int) -> None:
        if self._out is not None:
            part = 20 * done // max(end, 1)
            bar = "#" * part + "." * (20 - part)
            self._out.write(f"\r{self._job} [{bar}] {done} of {end}")
            self._out.flush()

    def end(self) -> None:
        if self._out is not None:
            self._out.write("\n")


def reported(
    job: str,
    work: Callable[[dict[str, Any]], int],
    stdout: TextIO,
    stderr: TextIO,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """
    Do a job, and say what came of it.

    @param work: does it, puts what is to be said into the dict that it is given, and returns the
        exit code.
    """
    fields: dict[str, Any] = {}
    begun = clock()
    try:
        code = work(fields)
        result = {0: "done", FOUND: "found"}[code]
    except JobUsageError as error:
        stderr.write(f"{str(error).rstrip()}\n")
        return WRONG
    except OptionError as error:
        code, result = WRONG, "wrong"
        fields["error"] = str(error)
    except DataSourceError as error:
        code, result = FAILED, "failed"
        fields["error"] = str(error)
    if "error" in fields:
        print(f"natsbroker spark {job}: {fields['error']}", file=stderr)
    summary: Mapping[str, Any] = {"job": job, "result": result, **fields}
    print(json.dumps({**summary, "seconds": round(clock() - begun, 3)}), file=stdout, flush=True)
    return code


def writeWhole(path: Path, write: Callable[[Path], object]) -> None:
    try:
        replaceFile(path, write)
    except OSError as error:
        raise DataSourceError(f"{path}: {error.strerror or error}") from None


def command(
    name: str,
) -> Callable[[Callable[[JobRun], int]], Callable[[Sequence[str], TextIO, TextIO], int]]:
    """
    Make the work of a job its command line; see L{reported}.
    """

    def made(work: Callable[[JobRun], int]) -> Callable[[Sequence[str], TextIO, TextIO], int]:
        def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
            def run(summary: dict[str, Any]) -> int:
                return work(JobRun(name, arguments, summary, stdout, stderr))

            return reported(name, run, stdout, stderr)

        return main

    return made
