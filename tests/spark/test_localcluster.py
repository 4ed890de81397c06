"""
A cluster of Spark on this machine: a driver, a master, workers, and executors in JVMs of their own,
which have natsbroker from C{--py-files}.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from natsbroker.spark.jobs.archive.verify import verified
from tests.interop.servers import CHECKOUT
from tests.spark.connecting import sparkEnvironment, sparkSubmit
from tests.spark.support import BrokerStation, Station, Stream


def packed(path: Path) -> Path:
    """
    @return: the package as C{--py-files} accepts it: Python files only, nothing compiled.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((CHECKOUT / "natsbroker").rglob("*.py")):
            archive.write(source, source.relative_to(CHECKOUT))
    return path


def test_cluster(ownStation: Station, ownBroker: BrokerStation, tmp_path: Path) -> None:
    """
    C{spark-submit} to a cluster whose workers die in the middle of tasks: rows with ids are stored
    once, and some rows without ids twice.
    """
    for name, count in (("IN", 1000), ("OUT", 0), ("LOOSE", 0)):
        stream = Stream(ownStation.connection, name)
        stream.make()
        if count:
            stream.fill([b"x" * 2000] * count)
    ownBroker.channel([b"x"] * 400, "c")
    conf = {
        "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.adaptive.enabled": "false",
    }
    arguments = ["--master", "local-cluster[2,1,1024]"]
    arguments += ["--py-files", str(packed(tmp_path / "natsbroker.zip"))]
    arguments += [str(CHECKOUT / "tests" / "spark" / "clusterprogram.py")]
    arguments += [ownStation.url, ownBroker.url]
    done = subprocess.run(
        sparkSubmit(conf, *arguments, str(tmp_path / "archive")),
        cwd=tmp_path,
        env=sparkEnvironment(SPARK_LOCAL_DIRS=str(tmp_path / "spark")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "master": "local-cluster[2,1,1024]",
        "executors": 2,
        "packed": True,
        "read": 1000,
        "archived": 400,
    }
    assert ownStation.streams.state("OUT").messages == 1000
    assert ownStation.streams.state("LOOSE").messages > 1000, "no task had published when it died"
    assert verified(None, {"servers": ownBroker.url}, str(tmp_path / "archive"))["findings"] == []
