"""The common part of all jobs: running tasks, ending on signals, progress and summary."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from natsbroker.files import replaceFile
from natsbroker.spark.cli import DESCRIPTIONS
from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.settings import readOptions

FOUND, WRONG, FAILED = 1, 2, 3

#: The form in which Spark repeats a worker's error.
_RAISED = re.compile(r"natsbroker\.spark\.[\w.]+\.[A-Z]\w+: (?P<text>[^\n]+)")

_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

#: Runs tasks: in this process, or in Spark's workers.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Seconds between a signal and the end of a job that has not ended by itself.
_GRACE = 8.0

#: While a job waits, whether to end is looked up this often, in seconds.
_SLICE = 0.1

#: The schema of what tasks return, where no C{SparkContext} collects it.
_RESULTS = "result BINARY"


class JobUsageError(Exception):
    pass


class JobRun(argparse.ArgumentParser):
    """One run of a job by its command line; C{summary} is its line of JSON."""

    def __init__(self, name: str, arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> None:
        super().__init__(f"natsbroker spark {name}", description=DESCRIPTIONS.get(name))
        self.name = name
        self.summary: dict[str, Any] = {}
        self.stdout = stdout
        self.stderr = stderr
        self._arguments = arguments
        self._hasBar = False

    def given(self) -> argparse.Namespace:
        return self.parse_args(self._arguments)

    def error(self, message: str) -> NoReturn:
        raise JobUsageError(f"{self.prog}: {message}\n{self.format_usage()}")

    def say(self, text: str) -> None:
        print(f"{self.prog}: {text}", file=self.stderr, flush=True)

    def progress(self, done: int, end: int) -> None:
        """Show on a terminal how far the job is, if its end is known."""
        if end > 0 and self.stderr.isatty():
            part = 20 * done // end
            bar = "#" * part + "." * (20 - part)
            self.stderr.write(f"\r{self.name} [{bar}] {done} of {end}")
            self.stderr.flush()
            self._hasBar = True

    def endProgress(self) -> None:
        if self._hasBar:
            self.stderr.write("\n")

    def option(self, flag: str, default: Any, text: str | None = None, **more: Any) -> None:
        """Add an option: a flag for C{False}, repeatable for a list, else typed."""
        if default is False:
            more["action"] = "store_true"
        elif isinstance(default, list):
            more["action"] = "append"
        elif default is not None:
            more.setdefault("type", type(default))
        self.add_argument(flag, default=default, help=text, **more)

    def duration(self, flag: str, default: float | None, text: str) -> None:
        self.option(flag, default, text, type=secondsOf)

    def pairs(self, flag: str, text: str | None = None) -> None:
        self.option(flag, [], text, type=pairOf, metavar="NAME=VALUE")

    def addArchive(self) -> None:
        self.add_argument("--archive", required=True, help="the directory of the archive")

    def addServers(self, isRequired: bool = True) -> None:
        text = "another option of the data source, such as credentialsFile"
        self.add_argument("--servers", required=isRequired, help="the URL of the servers")
        self.pairs("--option", text)

    def addSource(self, isRequired: bool = True) -> None:
        self.addServers(isRequired)
        self.option("--stream", None, "the JetStream stream")
        self.option("--channel", None, "the channel of NATS Streaming")

    def addMaster(self) -> None:
        text = (
            "where Spark runs: local[*], sc://HOST:PORT ...; the work is done here, without Spark,"
            " if neither this nor spark-submit says so"
        )
        self.option("--master", "", text)

    def addPage(self) -> None:
        self.option("--html", "", "a file for the report, with plots")

    def addTarget(self) -> None:
        self.add_argument("--to-servers", required=True, help="the URL of the target's servers")
        self.add_argument("--to-stream", required=True, help="the stream, which must exist")
        self.pairs("--to-option")
        self.option("--rate", 0.0, "the most messages a second")
        self.option("--window", 1000, "the most unacknowledged messages of each task")


def secondsOf(text: str) -> float:
    """A duration: C{90}, C{90s}, C{5m}, C{2h}, C{1d}."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a duration: {text!r}")
    return float(match["number"]) * _UNITS[match["unit"]]


def pairOf(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"takes NAME=VALUE, not {text!r}")
    return name, value


def targetTexts(given: argparse.Namespace) -> dict[str, str]:
    return {"servers": given.to_servers, "stream": given.to_stream, **dict(given.to_option)}


def optionTexts(given: argparse.Namespace) -> dict[str, str]:
    named = {name: getattr(given, name, None) for name in ("servers", "stream", "channel")}
    return {name: text for name, text in named.items() if text} | dict(given.option)


def sourceOptions(given: argparse.Namespace) -> dict[str, Any]:
    return readOptions(optionTexts(given))


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
    return [work(task) for task in tasks]


def inSpark(spark: Any, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    from natsbroker.spark.sessions import isRemote

    if not tasks:
        return []

    with workersErrors():
        if isRemote(spark):
            read = partial(_result, work)
            return _resultsIn(readInTasks(spark, _RESULTS, read, tasks))
        context = spark.sparkContext
        slices = min(len(tasks), 4 * context.defaultParallelism)
        return list(context.parallelize(tasks, slices).map(work).collect())


def inPartitions(
    spark: Any,
    frame: Any,
    rowsOf: Callable[[Any], Iterator[Any]],
    work: Callable[[int, Iterator[Any]], Any],
) -> list[Any]:
    """Work on each partition of a DataFrame as a whole; C{work} gets its number and rows."""
    from natsbroker.spark.sessions import isRemote

    if not isRemote(spark):
        results = frame.rdd.mapPartitionsWithIndex(lambda number, rows: [work(number, rows)])
        return list(results.collect())

    def done(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        yield from _result(partial(work, number), chain.from_iterable(map(rowsOf, batches)))

    return _resultsIn(frame.mapInArrow(done, _RESULTS))


def runnerOf(spark: Any) -> Runner:
    return inline if spark is None else partial(inSpark, spark)


def readInTasks(
    spark: Any, schema: str, read: Callable[[Any], Iterable[Any]], items: Sequence[Any]
) -> Any:
    """A DataFrame of the Arrow batches that tasks read for each item."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(items[number])

    return spark.range(0, len(items), 1, len(items)).mapInArrow(rows, schema)


def _result(work: Callable[[Any], Any], task: Any) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import cloudpickle

    yield pa.record_batch([[cloudpickle.dumps(work(task))]], ["result"])


def _resultsIn(frame: Any) -> list[Any]:
    return [pickle.loads(bytes(row.result)) for row in frame.collect()]


@contextmanager
def sessionFor(master: str, isNeeded: bool = False) -> Iterator[Any]:
    """
    The session of a command line: at its master, else that of C{spark-submit} or C{SPARK_REMOTE};
    C{None} for this process, unless Spark C{isNeeded}.
    """
    isElsewhere = any(name in os.environ for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"))
    if master == "inline" or not (master or isElsewhere or isNeeded):
        yield None
        return
    from natsbroker.spark import session

    conf = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
    spark = session(master or None, conf, "natsbroker")
    try:
        yield spark
    finally:
        spark.stop()


def _reported(
    name: str,
    work: Callable[[JobRun], int],
    arguments: Sequence[str],
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    job = JobRun(name, arguments, stdout, stderr)
    begun = time.monotonic()
    try:
        try:
            code = work(job)
        finally:
            job.endProgress()
        result = {0: "done", FOUND: "found"}[code]
    except JobUsageError as error:
        stderr.write(f"{str(error).rstrip()}\n")
        return WRONG
    except DataSourceError as error:
        code, result = (WRONG, "wrong") if isinstance(error, OptionError) else (FAILED, "failed")
        job.summary["error"] = str(error)
        job.say(str(error))
    seconds = round(time.monotonic() - begun, 3)
    line = {"job": name, "result": result, **job.summary, "seconds": seconds}
    print(json.dumps(line), file=stdout, flush=True)
    return code


def command(name: str) -> Callable[[Callable[[JobRun], int]], Callable[..., int]]:
    return lambda work: partial(_reported, name, work)


class Stop:
    """
    Whether to end. It has no lock, unlike C{threading.Event}: a signal's handler interrupts the
    main thread, and would wait forever for a lock that this thread holds.
    """

    _isSet = False

    def isSet(self) -> bool:
        return self._isSet

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._isSet and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE))
        return self._isSet

    def take(self, number: int, frame: FrameType | None) -> None:
        self._isSet = True


@contextmanager
def stopping(job: JobRun | None = None) -> Iterator[Stop]:
    """
    Let SIGTERM and SIGINT end this process between two pieces of work; in the main thread only.

    @param job: a job whose unfinished work nobody sees. It may be ended L{_GRACE} seconds after the
        signal; with object stores, much later.
    """
    stop = Stop()
    before = {number: signal.signal(number, stop.take) for number in _SIGNALS}
    with _watched(job) if job is not None else nullcontext():
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _watched(job: JobRun) -> Iterator[None]:
    """
    End the process L{_GRACE} seconds after a signal if it still runs. A Python handler does not run
    while the main thread is in a library, but a thread that reads the interpreter's wake-up file
    does.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    hasEnded = threading.Event()
    before = signal.set_wakeup_fd(writer)

    def watch() -> None:
        if os.read(reader, 1) and not hasEnded.wait(_GRACE):
            job.say("ended in the middle of a version, which is left out")
            os._exit(FAILED)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        hasEnded.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def writeWhole(path: Path, write: Callable[[Path], object]) -> None:
    try:
        replaceFile(path, write)
    except OSError as error:
        raise DataSourceError(f"{path}: {error.strerror or error}") from None
