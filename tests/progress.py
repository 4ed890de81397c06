"""
A plugin for pytest, C{-p tests.progress}, which writes events to a file for L{tests.checks}.

The variable L{VARIABLE} names the file. Each line is a JSON object: C{"collected": 12},
C{"started": id}}, C{"ended": id, "outcome": outcome, "realtime": bool} or C{"worked": seconds}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import TextIO

import pytest

VARIABLE = "NATSBROKER_PROGRESS"


class Reporter:
    """
    Writes one line at each test's start and end, and one at the end of all.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._outcomes: dict[str, str] = {}

    def _write(self, **fields: object) -> None:
        self._file.write(json.dumps(fields) + "\n")
        self._file.flush()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the number of tests."""
        self._write(collected=len(session.items))

    def pytest_sessionfinish(self) -> None:
        """Write the CPU seconds of the tests and of the programs that they started."""
        self._write(worked=sum(os.times()[:4]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Write that a test has started, and that it has ended."""
        self._write(started=item.nodeid)
        result = yield
        self._write(
            ended=item.nodeid,
            outcome=self._outcomes.pop(item.nodeid, "passed"),
            realtime=item.get_closest_marker("realtime") is not None,
        )
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of setup, call and teardown."""
        if report.failed or (report.skipped and report.nodeid not in self._outcomes):
            self._outcomes[report.nodeid] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that cannot be imported as a failed test."""
        if report.failed:
            self._write(started=report.nodeid)
            self._write(ended=report.nodeid, outcome="failed", realtime=False)


def pytest_configure(config: pytest.Config) -> None:
    """Write to the file that the variable names, if there is one."""
    # Taken away, because tests run pytest themselves.
    path = os.environ.pop(VARIABLE, None)
    if path is not None:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed below
        config.add_cleanup(file.close)
        config.pluginmanager.register(Reporter(file))
