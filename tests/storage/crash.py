"""
Killing a process that works a store, again and again: C{python -m tests.storage.crash --rounds N}.

Each round starts L{tests.storage.workload} on the same store, kills it with SIGKILL after a random
time, opens the store and demands everything that was ever acknowledged.

The first loss ends it, with a description.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random

from tests.storage.history import History

ROOT = Path(__file__).resolve().parents[2]


def runAndKill(directory: Path, seed: str, after: float, syncInterval: float = 0) -> list[bytes]:
    """
    Work a store for some seconds.

    @param after: seconds from when the store is open to the kill.
    @param syncInterval: as for L{natsbroker.storage.lmdb.store.openLMDB}.
    @return: what the process said.
    """
    interval = str(syncInterval)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.workload", str(directory), seed, "0", interval],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    timer = threading.Timer(after, process.send_signal, [signal.SIGKILL])
    timer.start()
    lines += process.stdout.readlines()
    timer.join()
    code = process.wait()
    if code != -signal.SIGKILL:
        raise AssertionError(f"the workload ended by itself, with {code}")
    return lines


def rounds(
    directory: Path, count: int, seed: str, tell: bool = False, syncInterval: float = 0
) -> History:
    """
    Kill a process some number of times.

    @return: what was acknowledged.
    @raise tests.storage.history.Lost: when something is missing.
    """
    random = Random(seed)
    history = History()
    for number in range(count):
        after = random.uniform(0.05, 1.5)
        history.learn(runAndKill(directory, f"{seed}/{number}", after, syncInterval))
        began = time.monotonic()
        recorder = history.check(directory)
        if recorder.damaged or recorder.states:
            raise AssertionError(f"damage is reported: {recorder.damaged} {recorder.states}")
        if tell:
            records = sum(len(log.acked) for log in history.logs.values())
            took = time.monotonic() - began
            print(
                f"round {number + 1}: {history.acknowledged} acknowledged, {records} records, "
                f"opened and compared in {took:.2f} s, nothing lost",
                flush=True,
            )
    return history


def main() -> None:
    """Run some rounds from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--fresh", type=int, default=20, help="rounds of one store")
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument(
        "--interval", type=float, default=0, help="seconds between syncs; 0: always"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}")
    left = options.rounds
    while left:
        directory = Path(tempfile.mkdtemp(prefix="natsbroker-crash-"))
        some = min(left, options.fresh)
        rounds(directory / "store", some, f"{options.seed}/{left}", True, options.interval)
        shutil.rmtree(directory)
        left -= some


if __name__ == "__main__":
    main()
