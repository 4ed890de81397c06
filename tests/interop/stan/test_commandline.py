"""
A command line for nats-streaming-server that starts natsbroker, alone and under twistd.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.interop.servers import CHECKOUT, OURS_FAST, PATIENCE, Server
from tests.interop.stan.programs import PROGRAMS, runScenarios

SHORT = "-cid test-cluster -store FILE -dir {} -mc 5 -mm 100 -ma 1h -hbi 10s -hbf 3 -SDV -D"
LONG = (
    "--cluster_id test-cluster --store=file --dir={} --max_channels=5 --max_msgs=100 --max_subs 10 "
    "--max_bytes 1MB --max_age=1h --max_inactivity 1h --hb_interval=10s --hb_timeout 5s "
    "--hb_fail_count=3 --file_sync=false --file_slice_max_msgs 1000 --stan_debug=true"
)


@contextmanager
def _direct(tmp_path: Path, flags: list[str]) -> Iterator[str]:
    server = Server(OURS_FAST, tmp_path, arguments=flags).start()
    try:
        server.waitForLog("Streaming Server is ready")
        yield server.url
    finally:
        server.stop()


@contextmanager
def _twistd(tmp_path: Path, flags: list[str]) -> Iterator[str]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from twisted.scripts.twistd import run; run()"),
            *("--nodaemon", "--pidfile=", "--rundir", str(tmp_path), "natsbroker"),
            *("--client", "tcp:0:interface=127.0.0.1", *flags),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        log = ""
        for line in process.stdout:
            log += line
            if "Streaming Server is ready" in line:
                break
        match = re.search(r"Listening for client connections on \S+:(\d+)", log)
        assert match, log
        yield f"nats://127.0.0.1:{match[1]}"
    finally:
        process.terminate()
        process.stdout.read()
        process.stdout.close()
        process.wait(PATIENCE)


@pytest.mark.parametrize(
    ("name", "start", "flags"),
    [
        pytest.param("py", _direct, SHORT, id="natsbroker-short"),
        pytest.param("js", _direct, LONG, id="natsbroker-long"),
        pytest.param("js", _twistd, SHORT, id="twistd-short"),
        pytest.param("py", _twistd, LONG, id="twistd-long"),
    ],
)
def test_flags(
    name: str,
    start: Callable[[Path, list[str]], AbstractContextManager[str]],
    flags: str,
    tmp_path: Path,
) -> None:
    """
    Flags have the same effects as with nats-streaming-server: the store is in the given folder, and
    the limits apply.
    """
    PROGRAMS[name].findCommand()
    folder = tmp_path / "channels"
    with start(tmp_path, flags.format(folder).split()) as url:
        printed = runScenarios(PROGRAMS[name], url, "channels")["channels"]
    assert printed == [{"publish": "too many channels", "subscribe": "too many channels"}]
    assert (folder / "data.mdb").exists()
