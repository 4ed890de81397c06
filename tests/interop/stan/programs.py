"""
The programs that use NATS Streaming clients.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from tests.interop.programs import DEADLINE, Line, Program
from tests.interop.servers import missing
from tests.interop.stan import prepare

__all__ = ["PROGRAMS", "READY", "Line", "Outcome", "Program", "runScenarios", "runTogether"]

#: What each client's scenarios printed.
Outcome = dict[str, dict[str, list[Line]]]

#: What a scenario prints when something is to happen to the broker.
READY: Line = {"event": "ready"}


def _python() -> list[str]:
    if not prepare.PYTHON.exists():
        missing("asyncio-nats-streaming is not installed")
    # The client's messages were generated for the protobuf of its time.
    variable = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python"
    return ["env", variable, str(prepare.PYTHON), "-m", "tests.interop.stan.py.scenarios"]


def _javaScript() -> list[str]:
    node = shutil.which("node")
    if node is None or not (prepare.JS / "node_modules" / "node-nats-streaming").is_dir():
        missing("no Node.js or no node-nats-streaming")
    return [node, str(prepare.JS / "scenarios.cjs")]


#: By the prefix of the client ids and channels that each uses.
PROGRAMS = {
    "py": Program("asyncio-nats-streaming", _python),
    "js": Program("node-nats-streaming", _javaScript),
}


def runScenarios(
    program: Program,
    url: str,
    *scenarios: str,
    onLine: Callable[[Line], object] = lambda line: None,
) -> dict[str, list[Line]]:
    """
    Run scenarios at the same time.

    @param onLine: called with each line as it is printed, without the scenario's name.
    @return: the lines that each printed.
    """
    printed: dict[str, list[Line]] = {name: [] for name in scenarios}

    def note(line: dict[str, Any]) -> None:
        printed[line.pop("scenario")].append(line)
        onLine(line)

    program.run(url, *scenarios, onLine=note)
    return printed


def runTogether(url: str, *scenarios: str, whenReady: Callable[[], None] = lambda: None) -> Outcome:
    """
    Run scenarios of all clients at the same time.

    @param whenReady: called each time that all clients have printed L{READY}.
    @return: the lines that the scenarios of each printed.
    """
    for program in PROGRAMS.values():
        program.findCommand()
    barrier = Barrier(len(PROGRAMS), whenReady, DEADLINE)

    def meet(line: Line) -> None:
        if line == READY:
            barrier.wait()
        elif "failed" in line:
            # Nothing waits for it.
            barrier.abort()

    with ThreadPoolExecutor() as pool:
        running = {
            name: pool.submit(runScenarios, program, url, *scenarios, onLine=meet)
            for name, program in PROGRAMS.items()
        }
    return {name: task.result() for name, task in running.items()}
