"""
The common part of jobs.
"""

from __future__ import annotations

import argparse
import io
import json
import os
from typing import Any

import pytest

from natsbroker.spark.errors import ApiError, DataSourceError, OptionError
from natsbroker.spark.jobs.common import (
    FOUND,
    JobRun,
    JobUsageError,
    command,
    inSpark,
    runnerOf,
    secondsOf,
    sessionFor,
    sourceOptions,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5s", 1.5), ("250ms", 0.25), ("5m", 300), ("2h", 7200), ("1d", 86400)],
)
def test_seconds(text: str, seconds: float) -> None:
    """Durations have units, or are seconds."""
    assert secondsOf(text) == seconds


@pytest.mark.parametrize("text", ["", "5x", "-1s", "s", "1 s"])
def test_noSeconds(text: str) -> None:
    """A text that is no duration is refused."""
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration"):
        secondsOf(text)


def given(*arguments: str) -> argparse.Namespace:
    """The options of a source on a command line."""
    job = JobRun("job", ["--servers", "h", *arguments], io.StringIO(), io.StringIO())
    job.addSource()
    return job.given()


def test_options() -> None:
    """The command line gives options of the data source."""
    values = sourceOptions(given("--channel", "c", "--option", "user=me", "--option", "token=a=b"))
    assert (values["channel"], values["user"], values["token"]) == (("c",), "me", "a=b")
    assert sourceOptions(given("--stream", "S"))["stream"] == ("S",)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--option", "user"), "--option: takes NAME=VALUE, not 'user'"),
        (("--option", "usr=x"), "did you mean 'user'"),
        (("--option", "tls=maybe"), "tls: true or false expected"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_invalidDurations(arguments: tuple[str, ...], text: str) -> None:
    """An invalid duration is refused."""
    with pytest.raises((JobUsageError, OptionError), match=text):
        sourceOptions(given(*arguments))


def summary(work: Any) -> tuple[int, dict[str, Any] | None, str]:
    """The exit code, the line of JSON, and what is on standard error."""
    out, err = io.StringIO(), io.StringIO()
    code = command("job")(work)((), out, err)
    lines = out.getvalue().splitlines()
    document = json.loads(lines[-1]) if lines else None
    if document is not None:
        assert 0 <= document.pop("seconds") < 60
    return code, document, err.getvalue()


class TestReported:
    """The end of a job."""

    @pytest.mark.parametrize(("code", "result"), [(0, "done"), (FOUND, "found")])
    def test_finishedJob(self, code: int, result: str) -> None:
        """A finished job prints one line of JSON."""

        def work(job: JobRun) -> int:
            job.summary["rows"] = 7
            return code

        expected = {"job": "job", "result": result, "rows": 7}
        assert summary(work) == (code, expected, "")

    @pytest.mark.parametrize(
        ("error", "code", "result"),
        [
            (ApiError("gone"), 3, "failed"),
            (OptionError("gone"), 2, "wrong"),
        ],
    )
    def test_failed(self, error: Exception, code: int, result: str) -> None:
        """A failed job has its error in the line, with the work done, and on standard error."""

        def work(job: JobRun) -> int:
            job.summary["rows"] = 7
            raise error

        facts = summary(work)
        assert facts[:2] == (
            code,
            {"job": "job", "result": result, "rows": 7, "error": "gone"},
        )
        assert facts[2] == "natsbroker spark job: gone\n"

    def test_wrongCommandLine(self) -> None:
        """A wrong command line has no line of JSON."""

        def work(job: JobRun) -> int:
            raise JobUsageError("job: no")

        assert summary(work) == (2, None, "job: no\n")


class TestRunners:
    """Where tasks run."""

    def test_inline(self) -> None:
        """Without Spark, tasks run in the current process."""
        with sessionFor("inline") as spark:
            assert runnerOf(spark)(lambda x: (x, os.getpid()), [1, 2]) == [
                (1, os.getpid()),
                (2, os.getpid()),
            ]

    def test_spark(self, spark: Any) -> None:
        """In Spark, tasks run in workers, and results come in the order of the tasks."""
        rows = inSpark(spark, lambda x: (x, os.getpid()), [3, 1, 2])
        assert [result for result, _ in rows] == [3, 1, 2]
        assert os.getpid() not in {pid for _, pid in rows}
        assert inSpark(spark, lambda x: x, []) == []

    def test_errors(self, spark: Any) -> None:
        """An error in a worker is raised with its original text."""

        def fails(number: int) -> int:
            raise ApiError("stream S: the reason")

        with pytest.raises(DataSourceError, match=r"^stream S: the reason$"):
            inSpark(spark, fails, [1])

        def breaks(number: int) -> float:
            return 1 / 0

        with pytest.raises(Exception, match="ZeroDivisionError"):
            inSpark(spark, breaks, [1])


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        """Always true."""
        return True


def test_progress() -> None:
    """On a terminal there is a bar. Elsewhere there is no output."""
    terminal, file = Terminal(), io.StringIO()
    for out in (terminal, file):
        job = JobRun("archive", (), io.StringIO(), out)
        job.progress(50, 100)
        job.endProgress()
    assert terminal.getvalue() == "\rarchive [##########..........] 50 of 100\n"
    assert file.getvalue() == ""
