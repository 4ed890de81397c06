"""Lines of the log, from a worker to its parent."""

from __future__ import annotations

import io

import pytest
from twisted.logger import ILogObserver, Logger, globalLogPublisher
from zope.interface.verify import verifyObject

from natsbroker.config.model import Logging
from natsbroker.runtime.reload import LIFE
from natsbroker.workers.lines import WorkerLog, relay
from tests.server.support import logLines


def test_written() -> None:
    """Each line has its label; lines about the whole server come from the parent."""
    stream = io.StringIO()
    log = WorkerLog(stream, Logging(logtime=False))
    verifyObject(ILogObserver, log)
    globalLogPublisher.addObserver(log)
    try:
        Logger(namespace="natsbroker").warn("slow")
        Logger(namespace="natsbroker").debug("not yet")
        Logger(namespace=LIFE).info("Server is ready")
        log.use(Logging(logtime=False, debug=True))
        Logger(namespace="natsbroker").debug("now")
    finally:
        globalLogPublisher.removeObserver(log)
    lines = [line.partition("] ")[2] for line in stream.getvalue().splitlines()]
    assert lines == ["[WRN] slow", "[DBG] now"]
    assert [line[:4] for line in stream.getvalue().splitlines()] == ["WRN ", "DBG "]


@pytest.mark.parametrize("label", ["TRC", "DBG", "INF", "WRN", "ERR", "FTL"])
def test_relayed(label: str) -> None:
    """A line is written as the worker sent it, whatever its level."""
    with logLines(debug=False) as lines:
        relay(f"{label} [1] [{label}] some {{text}}", 2)
    assert lines == [f"[{label}] some {{text}}"]


def test_foreign() -> None:
    """Output of a worker beside its log is logged as an error, with the worker's number."""
    with logLines() as lines:
        relay("Segmentation fault {x}", 2)
        relay("", 3)
    assert lines == ["[ERR] Worker 2: Segmentation fault {x}", "[ERR] Worker 3: "]
