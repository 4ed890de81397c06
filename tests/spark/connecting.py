"""
A Spark Connect server of its own for tests.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyspark

from natsbroker.spark.java import findJava
from tests.interop.servers import CHECKOUT

__all__ = ["QUICK", "ConnectServer", "sparkEnvironment", "sparkHome", "sparkSubmit"]

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED = re.compile(r"Spark Connect server started at: 127\.0\.0\.1:(\d+)")
_PATIENCE = 120.0

#: A JVM that begins soon, and is not for long.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@functools.cache
def sparkHome() -> str:
    """
    @return: a directory for SPARK_HOME, with all of Spark except PySpark's archives. Spark puts
    these before the installed packages, and each Python that it starts would compile them again,
    which takes longer than most of these processes run.
    """
    installed = Path(pyspark.__file__).parent
    home = Path(tempfile.mkdtemp(prefix="spark-home-"))
    atexit.register(shutil.rmtree, home)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(installed / name)
    return str(home)


def sparkEnvironment(**more: str) -> dict[str, str]:
    """
    @return: variables for Spark's scripts: the Java that is found, this Python, and L{sparkHome}.
    """
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = str(findJava(os.environ).home)
    spark = {"SPARK_HOME": sparkHome(), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **python, **spark, "JAVA_HOME": home, **more}


def sparkSubmit(conf: dict[str, str], *arguments: str) -> list[str]:
    """
    @return: the command line of C{spark-submit}.
    """
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    for name, value in {**QUICK, **conf}.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, *arguments]


class ConnectServer:
    """
    One server.

    @ivar url: where clients connect.
    """

    def __init__(self, directory: Path) -> None:
        """
        Start, and wait until it listens.

        @param directory: where it may keep files.
        """
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
        self._process = subprocess.Popen(
            sparkSubmit(conf, "--master", "local[2]", "--class", _CLASS, "spark-internal"),
            cwd=CHECKOUT,
            env=sparkEnvironment(SPARK_LOCAL_DIRS=str(directory)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._found = threading.Event()
        self._port = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._found.wait(_PATIENCE)
        if not self._port:
            self.stop()
            raise RuntimeError(f"no Spark Connect server:\n{self.log()}")
        self.url = f"sc://127.0.0.1:{self._port}"

    def log(self) -> str:
        """
        @return: what it said.
        """
        return "".join(self._lines)

    def stop(self) -> None:
        """
        End it and its workers.
        """
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # It ended by itself.
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                if match := _STARTED.search(line):
                    self._port = int(match[1])
                    self._found.set()
        self._found.set()
