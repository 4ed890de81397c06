"""
Examples that run as separate processes and are interrupted at the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).resolve().parents[2]

#: How long an example may take on a busy machine, in seconds.
PATIENCE = 60.0


@contextmanager
def running(name: str, *arguments: str, lines: int = 1) -> Iterator[list[int]]:
    """
    Run a program of C{examples/}, which must end normally when it is interrupted.

    @param lines: the number of lines that it prints when it is ready.
    @return: the ports in these lines.
    """
    command: Sequence[str] = [sys.executable, str(ROOT / "examples" / name), *arguments]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    guard = Timer(PATIENCE, process.kill)
    guard.start()
    try:
        yield [_port(process) for _ in range(lines)]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        guard.cancel()
    assert (process.returncode, errors) == (0, "")


def _port(process: subprocess.Popen[str]) -> int:
    stream = process.stdout
    assert stream is not None
    line = stream.readline()
    match = re.search(r":(\d+)$", line.strip())
    assert match, f"{line!r}\n{process.stderr.read() if process.stderr else ''}"
    return int(match.group(1))
