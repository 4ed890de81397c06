"""Jobs that do not pass data through Spark, without PySpark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.servers import CHECKOUT
from tests.spark.support import BrokerStation, Station

_PROGRAM = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from natsbroker.spark import cli
sys.exit(cli.main(sys.argv[1:], sys.stdout, sys.stderr))
"""


def ran(*arguments: str) -> dict[str, Any]:
    """The line of JSON of a job in a process that cannot import PySpark and finds no Java."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PATH": "", "JAVA_HOME": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_jobs(broker: BrokerStation, station: Station, tmp_path: Path) -> None:
    """The jobs run in their own process, completely."""
    name = broker.channel([b"%d" % n for n in range(1, 11)])
    root, target = str(tmp_path / "lake"), station.stream()
    servers = ("--servers", broker.url)
    assert ran("archive", *servers, "--channel", name, "--to", root)["rows"] == 10
    broker.fill(name, [b"more"])
    assert ran("archive", *servers, "--channel", name, "--to", root)["rows"] == 1
    assert ran("compact", "--archive", root)["replaced"] == 2
    assert ran("vacuum", "--archive", root)["files"] == 0
    assert ran("verify", *servers, "--archive", root)["rows"] == 11
    assert ran("lag", *servers, "--archive", root)["behind"] == 0
    plain = str(tmp_path / "plain")
    assert ran("export", "--archive", root, "--to", plain)["rows"] == 11
    to = ("--to-servers", station.url, "--to-stream", target.name)
    mapped = ("--map", f"{name}={target.name}.x")
    assert ran("replay", "--archive", root, *to, *mapped)["rows"] == 11
