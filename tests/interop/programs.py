"""
The programs that use real NATS clients, run one scenario at a time.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.prepare import C_JETSTREAM, C_PROGRAM, JS
from tests.interop.servers import CHECKOUT, missing

#: After this many seconds a program is ended: more than any wait inside of it.
DEADLINE = 60.0

Line = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """
    A program that uses one client.

    @ivar name: the name of the client in test ids.
    @ivar findCommand: finds the start of its command line, or calls L{missing}.
    """

    name: str
    findCommand: Callable[[], list[str]]

    def run(
        self, *arguments: str, onLine: Callable[[Line], object] = lambda line: None
    ) -> list[Line]:
        """
        @param arguments: the scenario and its arguments.
        @param onLine: called with each line as it is printed.
        @return: the lines that it printed.
        @raise AssertionError: if it fails or does not end.
        """
        command = [*self.findCommand(), *arguments]
        lines: list[Line] = []
        with tempfile.TemporaryFile("w+") as complaints:
            process = subprocess.Popen(
                command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=complaints, text=True
            )
            watchdog = threading.Timer(DEADLINE, process.kill)
            watchdog.start()
            try:
                assert process.stdout is not None
                for text in process.stdout:
                    lines.append(json.loads(text))
                    onLine(lines[-1])
                status = process.wait()
            finally:
                watchdog.cancel()
                process.kill()
                process.wait()
            complaints.seek(0)
            text = complaints.read()
        assert status == 0, f"{' '.join(command)}: status {status}\nprinted {lines}\n{text}"
        return lines


def _natsPy() -> list[str]:
    if importlib.util.find_spec("nats") is None:
        missing("nats-py is not installed")
    return [sys.executable, "-m", "tests.interop.py.scenarios"]


def _javaScript(package: str, program: str = "scenarios") -> Callable[[], list[str]]:
    def find() -> list[str]:
        node = shutil.which("node")
        if node is None or not (JS / "node_modules" / package).is_dir():
            missing(f"no Node.js or no {package}")
        return [node, str(JS / f"{program}.mjs"), package]

    return find


def _libnats(program: Path) -> Callable[[], list[str]]:
    def find() -> list[str]:
        if not program.exists():
            missing("the C client's program is not built")
        return [str(program)]

    return find


PROGRAMS = [
    Program("nats-py", _natsPy),
    Program("nats.js", _javaScript("nats")),
    Program("nats.js-3", _javaScript("@nats-io/transport-node")),
    Program("libnats", _libnats(C_PROGRAM)),
]

#: The programs that use JetStream.
JETSTREAM_JS = Program("nats.js", _javaScript("nats", "jetstream"))
JETSTREAM_PROGRAMS = [JETSTREAM_JS, Program("libnats", _libnats(C_JETSTREAM))]

#: Mirrors a bucket across domains; for the URLs of two servers.
DOMAINS_JS = Program("nats.js", _javaScript("nats", "domains"))
