"""
Processes that work a store under strace, which kills them, or fails them, at a chosen system call.

A zygote loads everything once and forks a process for each run; so hundreds of runs take a minute.
The thread that is of interest stops before it begins, strace attaches to it alone, and so the
N-th call is the N-th of that thread.

Promises: a run either was hit at the call asked for, or says that it was not.
Must never know: what is demanded of the store afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

CALLS = (
    "pwrite64",
    "pwritev",
    "write",
    "fdatasync",
    "fsync",
    "msync",
    "ftruncate",
    "fallocate",
    "openat",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
)
"""The system calls that change files or their names."""


def whyNot() -> str:
    """
    Why strace cannot be used here; no text if it can.
    """
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = subprocess.run(
        ["strace", "-o", os.devnull, "-e", "inject=getpid:retval=1", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if probe.returncode == 0 else f"strace does not work here: {probe.stderr.strip()}"


@dataclass(frozen=True)
class Run:
    """
    What became of a run.

    @ivar lines: what it said.
    @ivar killed: whether it was killed.
    @ivar hits: at how many calls strace did something.
    """

    lines: list[bytes]
    killed: bool
    hits: int


class Zygote:
    """
    A process that forks others which have everything loaded.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.victims"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, order: dict[str, Any], inject: list[str]) -> Run:
        """
        Have one process work, with strace at its heels.

        @param order: what it should do; see L{_victim}.
        @param inject: strace's expressions.
        """
        say, hear = os.pipe()
        tell, go = os.pipe()
        os.set_inheritable(hear, True)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        path = Path(f"/proc/{os.getpid()}/fd")
        order = {**order, "say": str(path / str(hear)), "go": str(path / str(tell))}
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        with os.fdopen(say, "rb") as lines:
            said = [lines.readline()]
            while b'"thread"' not in said[-1]:
                said.append(lines.readline())
            os.close(hear)
            with self._strace(int(json.loads(said[-1])["thread"]), inject) as trace:
                os.write(go, b"go\n")
                said += lines.readlines()
                status = json.loads(process.stdout.readline())["status"]
            os.close(go)
            os.close(tell)
        hits = sum(1 for line in trace if b"(INJECTED)" in line or b"(DELAYED)" in line)
        return Run(said, os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9, hits)

    @contextlib.contextmanager
    def _strace(self, thread: int, inject: list[str]) -> Iterator[list[bytes]]:
        """
        Attach strace to a thread.
        """
        arguments = ["strace", "-p", str(thread)]
        for each in inject:
            arguments += ["-e", f"inject={each}"]
        arguments += ["-e", "trace=" + ",".join(each.partition(":")[0] for each in inject)]
        trace: list[bytes] = []
        strace = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        assert strace.stderr is not None
        while b"attached" not in (line := strace.stderr.readline()):
            if not line:
                raise AssertionError(f"strace ended with {strace.wait()}")
        stream = strace.stderr
        reader = threading.Thread(target=lambda: trace.extend(stream.readlines()))
        reader.start()
        try:
            yield trace
        finally:
            strace.wait()
            reader.join()

    def close(self) -> None:
        """
        End it.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _victim(order: dict[str, Any]) -> None:
    """
    What a forked process does: one of the functions of L{tests.store.faults}.
    """
    from tests.store import faults

    getattr(faults, order["do"])(order)


def _main() -> None:
    """
    The zygote: forks, waits, tells how it ended.
    """
    from tests.store import faults  # noqa: F401  everything is loaded before forking

    for line in sys.stdin.buffer:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(order["say"], os.O_WRONLY), 1)
                _victim(order)
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        os.write(1, json.dumps({"status": status}).encode() + b"\n")


if __name__ == "__main__":
    _main()
