"""
Numbers for operators.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from natsbroker.spark.errors import DataSourceError, OptionError
from natsbroker.spark.metrics import ProgressMetrics, jobMetrics, served
from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST
from tests.spark.kinds import waitFor
from tests.spark.support import STREAMING, BrokerStation


def progress(name: str | None, rows: int, **fields: Any) -> Any:
    """The progress that a listener receives."""
    sources = [SimpleNamespace(latestOffset=text) for text in (json.dumps(fields), None, "7", "x")]
    return SimpleNamespace(name=name, id="1-2", numInputRows=rows, sources=sources)


def test_queries() -> None:
    """Counters of queries grow, even when a reader starts again. Other sources are not counted."""
    metrics = ProgressMetrics()
    for size, lost in ((100, 2), (150, 2), (30, 1)):
        metrics.take(progress(None, 5, lag={"S": 3, "T": 0}, bytes=size, reconnects=lost))
    with served(metrics, "0") as port, urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    for line in (
        'natsbroker_spark_rows_total{job="1-2"} 15.0',
        'natsbroker_spark_bytes_total{job="1-2"} 180.0',
        'natsbroker_spark_reconnects_total{job="1-2"} 3.0',
        'natsbroker_spark_lag{job="1-2",stream="S"} 3.0',
        'natsbroker_spark_lag{job="1-2",stream="T"} 0.0',
    ):
        assert line in lines


def test_wrongPlace() -> None:
    """An endpoint on no port, or on one that is taken, is an error."""
    with pytest.raises(OptionError, match="not a port"), served(ProgressMetrics(), "here"):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DataSourceError, match="in use"), served(ProgressMetrics(), where):
            pass


def test_jobs() -> None:
    """A job's metrics are at its endpoint. Without a port there is no endpoint."""
    with jobMetrics("", "archive", "S") as tell:
        tell(rows=1, bytes=2, lag=3, reconnects=1)
    with served(ProgressMetrics(), "0") as port:
        pass
    with jobMetrics(f"127.0.0.1:{port}", "archive", "S") as tell:
        for rows, size, lag, lost in ((10, 100, 7, 1), (15, 140, 0, 2)):
            tell(rows=rows, bytes=size, lag=lag, reconnects=lost)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    for line in (
        'natsbroker_spark_rows_total{job="archive"} 15.0',
        'natsbroker_spark_bytes_total{job="archive"} 140.0',
        'natsbroker_spark_reconnects_total{job="archive"} 2.0',
        'natsbroker_spark_lag{job="archive",stream="S"} 0.0',
    ):
        assert line in lines


def page(port: int) -> dict[str, float]:
    """The metrics of the project at an endpoint."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    ours = (line.rpartition(" ") for line in lines if line.startswith("natsbroker_spark_"))
    return {name.removeprefix("natsbroker_spark_"): float(value) for name, _, value in ours}


@pytest.mark.parametrize("job", ["archive", "decode"])
def test_command(job: str, startServer: StartServer, tmp_path: Path) -> None:
    """
    A job from the command line prints the URL of its metrics, which count rounds without a
    connection.
    """
    server = startServer(OURS_FAST, STREAMING)
    station = BrokerStation(server)
    station.channel([b'{"id": 1}'] * 30, "LOG")
    command = [sys.executable, "-m", "natsbroker", "spark", job, "--servers", server.url]
    command += ["--channel", "LOG", "--to", str(tmp_path / "to"), "--every", "100ms"]
    command += ["--metrics", "127.0.0.1:0", "--option", "requestTimeout=2"]
    command += ["--schema", 'LOG=json:"id BIGINT"'] if job == "decode" else []
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, stdin=DEVNULL, text=True)
    try:
        said = re.fullmatch(rf"natsbroker spark {job}: metrics at port (\d+)", _line(process))
        assert said is not None
        port = int(said[1])
        rows, size, lag = (f'{x}{{job="{job}"' for x in ("rows_total", "bytes_total", "lag"))
        waitFor(lambda: page(port).get(f"{rows}}}") == 30)
        first = page(port)
        station.fill("LOG", [b'{"id": 2}'] * 20)
        waitFor(lambda: page(port)[f"{rows}}}"] == 50)
        then = page(port)
        assert then[f"{size}}}"] > first[f"{size}}}"] > 0
        assert then[f'{lag},stream="LOG"}}'] == 0
        station.connection.close()
        server.stop()
        waitFor(lambda: page(port).get(f'reconnects_total{{job="{job}"}}', 0) > 0)
        assert "; trying again" in _line(process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["result"]) == (0, "done")


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().strip()
