"""
Runs all checks side by side: C{tox run -e checks}, or C{python -m tests.checks} where everything is
installed. With arguments, only pytest runs, with these.

L{LANES} lists the checks and their time limits. The output of each part is kept in C{build/checks}.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from tests.machine import hasCompiler, say
from tests.progress import VARIABLE
from tests.reach import INTEROP, SPARK, reachOf

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "checks"

LEDGER = WORK / "repeated.txt"
"""Every test that was ever repeated here, with the time and what came of it."""

REPEATS = 12
"""Realtime tests that one run may repeat, which takes a minute or two. With more failures than
these, nothing is repeated."""

INTERVAL = 30.0
"""Seconds between two reports of progress."""

GRACE = 15.0
"""Seconds that an interrupted part has for ending its own processes."""

TOKEN = "NATSBROKER_CHECKS"
"""A variable with which every process of a run is found again, also one that left its group."""

_PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.progress")


@dataclass(frozen=True)
class Part:
    """
    One check.

    @ivar name: its name in reports, and of its files in L{WORK}.
    @ivar minutes: its time limit.
    @ivar command: the command.
    @ivar nice: the addition to the priority value, so that parts that wait for peers come first.
    @ivar variables: its environment variables.
    """

    name: str
    minutes: float
    command: tuple[str, ...]
    nice: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)


_LINKS = tuple(f"{INTEROP}/{folder}" for folder in ("cluster", "gateways", "leafnodes"))

# Apart from the others only to make the lanes equally long.
_STORES, _SIMULATION = "tests/storage", "tests/simulation"

# Modules that choose between the compiled lane and pure Python, and what is built from them. With
# python -O, under which the tests keep their asserts and the product would lose its own.
_HOT = tuple(
    f"tests/{folder}"
    for folder in (
        *("accounts", "connections", "clients", "links", "routes", "gateways", "leafnodes"),
        "websocket",
        *("client", "server", "testing", "conformance", "examples"),
        *("test_broker.py", "test_hot.py", "test_main.py", "test_tap.py"),
    )
)
_OPTIMIZED = (sys.executable, "-O", "-W", "ignore::pytest.PytestConfigWarning", *_PYTEST[1:])


def _without(*paths: str) -> tuple[str, ...]:
    return tuple(f"--ignore={path}" for path in paths)


LANES: tuple[tuple[Part, ...], ...] = (
    (
        Part("links", 40, (*_PYTEST, *_LINKS)),
        Part("pure", 40, (*_OPTIMIZED, *_HOT, "-m", "not slow"), 2, {"NATSBROKER_PURE": "1"}),
        Part("stores", 40, (*_PYTEST, _STORES), 2),
    ),
    (Part("peers", 40, (*_PYTEST, INTEROP, *_without(*_LINKS))),),
    (
        Part("spark", 40, (*_PYTEST, SPARK), 5),
        Part("types", 20, ("mypy", "--strict"), 2),
        Part("simulation", 20, (*_PYTEST, _SIMULATION), 2),
    ),
    (
        Part("style", 5, ("ruff", "check", ".")),
        Part("site", 15, ("sphinx-build", "-W", "--keep-going", "-nEq", "docs", "build/site")),
        Part("format", 5, ("ruff", "format", "--check", ".")),
        Part("others", 40, (*_PYTEST, *_without(INTEROP, SPARK, _STORES, _SIMULATION)), 2),
    ),
)
"""
The checks: lanes run side by side, the parts of a lane one after the other. Most tests with peers
wait, so that four lanes fit on two cores.
"""


class Run:
    """
    A part that runs.

    @ivar part: the part.
    @ivar code: the exit status; C{None} until the part has ended.
    @ivar running: the tests that have started and not ended.
    @ivar failed: the tests that failed, each with whether it depends on real time.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.code: int | None = None
        self.running: list[str] = []
        self.failed: dict[str, bool] = {}
        self.log = WORK / f"{part.name}.log"
        self._events = WORK / f"{part.name}.events"
        self._read = 0
        self._collected = 0
        self._outcomes: Counter[str] = Counter()
        self._events.write_text("")
        self._started = time.monotonic()
        self._timedOut = False
        self._worked = 0.0
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                part.command,
                cwd=ROOT,
                env={
                    **os.environ,
                    **part.variables,
                    VARIABLE: str(self._events),
                    TOKEN: f"{os.getpid()}/{part.name}",
                    # The same examples in each run, so that what is found belongs to the change.
                    "NATSBROKER_SAME_EXAMPLES": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.setpriority(os.PRIO_PROCESS, self.process.pid, part.nice)

    def wait(self) -> None:
        """Wait until the part ends, or stop it at its time limit."""
        try:
            self.code = self.process.wait(self.part.minutes * 60)
        except subprocess.TimeoutExpired:
            self._timedOut = True
            self.stop()
        self.update()
        say(self.line())

    def stop(self) -> None:
        """Interrupt the part, then kill it with the programs that it started."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
        endProcesses(self.process.pid, f"{TOKEN}={os.getpid()}/{self.part.name}")
        self.code = self.process.wait()

    def update(self) -> None:
        """Read the reports of the tests since the last time."""
        with self._events.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new.rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            self._count(json.loads(line))

    def _count(self, event: dict[str, object]) -> None:
        if "collected" in event:
            self._collected = int(str(event["collected"]))
        elif "worked" in event:
            self._worked = float(str(event["worked"]))
        elif "started" in event:
            self.running.append(str(event["started"]))
        else:
            name, outcome = str(event["ended"]), str(event["outcome"])
            self.running.remove(name)
            self._outcomes[outcome] += 1
            if outcome == "failed":
                self.failed[name] = bool(event["realtime"])

    @property
    def passed(self) -> int:
        """The number of tests that passed so far."""
        return self._outcomes["passed"]

    def line(self) -> str:
        """
        @return: one line with the progress, or with the result.
        """
        spent = f"{time.monotonic() - self._started:.0f} s"
        counts = ""
        if self._collected:
            done = self._outcomes.total()
            counts = f"{done} of {self._collected} tests, {len(self.failed)} failed, "
        if self.code is None:
            now = f"; now {self.running[-1]}" if self.running else ""
            return f"{self.part.name}: {counts}{spent}{now}"
        worked = f"{self._worked:.0f} s of a processor, " if self._worked else ""
        end = "passed" if self.code == 0 else f"FAILED (exit status {self.code})"
        if self._timedOut:
            end = f"STOPPED after {self.part.minutes:g} minutes"
        return f"{self.part.name}: {end}, {counts}{worked}{spent}: {lastLine(self.log)}"

    def explain(self) -> None:
        """
        Print the reason for a failure: the failed tests, or the last lines and the tests that were
        running.
        """
        text = self.log.read_text("utf-8", "replace")
        for title in ("= ERRORS =", "= FAILURES ="):
            at = text.find(title)
            if at >= 0:
                text = text[text.rfind("\n", 0, at) + 1 :]
                break
        else:
            text = "\n".join(text.splitlines()[-60:])
        say(f"{self.part.name} printed ({self.log.relative_to(ROOT)} has all of it):")
        print(text, flush=True)
        for name in self.running:
            say(f"{self.part.name}: stopped while this test was running: {name}")
        self.nameFailures()

    def nameFailures(self) -> None:
        """Print the names of the failed tests."""
        for name in self.failed:
            say(f"{self.part.name}: failed: {name}")


def lastLine(path: Path) -> str:
    """
    @return: the last line that a program printed. For pytest it has the counts.
    """
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1].strip("= ") if lines else ""


def endProcesses(group: int, variable: str) -> None:
    """
    Kill a process group, and every process with this environment variable, as C{NAME=value},
    because tests may start programs in groups of their own.
    """
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            continue  # it ended meanwhile, or belongs to another user


class Checks:
    """
    One run of everything.

    @ivar runs: the parts that have started, in order.
    """

    def __init__(self, lanes: Sequence[Sequence[Part]] = LANES) -> None:
        self.runs: list[Run] = []
        self._lanes = lanes
        self._stopping = False

    def _lane(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if self._stopping:
                return
            try:
                run = Run(part)
            except OSError as error:
                say(f"{part.name}: cannot start: {error}")
                continue
            self.runs.append(run)
            run.wait()

    def run(self) -> bool:
        """
        Run the lanes, and report now and then.

        @return: whether everything passed, including realtime tests that passed when they were
            repeated.
        """
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in self._lanes]
        try:
            for thread in threads:
                thread.start()
            self._report(threads)
            return self._conclude()
        except KeyboardInterrupt:
            self.stop()
            for run in self.runs:
                run.nameFailures()
            say("interrupted; every process of this run is stopped")
            return False

    def _report(self, threads: Sequence[threading.Thread]) -> None:
        due = time.monotonic() + INTERVAL
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            if time.monotonic() < due:
                continue
            due += INTERVAL
            for run in list(self.runs):
                if run.process.poll() is None:
                    run.update()
                    say(run.line())

    def stop(self) -> None:
        """Stop the running parts at the same time, and start no more."""
        self._stopping = True
        running = [run for run in list(self.runs) if run.process.poll() is None]
        stoppers = [threading.Thread(target=run.stop) for run in running]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()

    def _conclude(self) -> bool:
        broken = [run for run in self.runs if run.code != 0]
        for run in broken:
            run.explain()
        names = [(run, name) for run in broken for name in run.failed]
        repeatable = all(
            run.code == 1 and run.failed and all(run.failed.values()) for run in broken
        )
        repeated: list[str] = []
        # A part that did not even start, because its program is missing, has no run.
        complete = len(self.runs) == sum(len(lane) for lane in self._lanes)
        good = complete and not broken
        if names and repeatable and len(names) <= REPEATS:
            repeated = [name for _, name in names]
            good = all([repeat(run.part, name) for run, name in names]) and complete
        for line in LEDGER.read_text().splitlines() if LEDGER.exists() else ():
            say(f"repeated, now or before: {line}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        # On two cores the run takes more than half of it, however the lanes are filled.
        say(f"{(used.ru_utime + used.ru_stime) / 60:.1f} minutes of a processor")
        passed = sum(run.passed for run in self.runs)
        say(
            f"{passed} passed, {len(names)} failed"
            + (f", {len(repeated)} of them repeated alone: {', '.join(repeated)}" * bool(repeated))
            + (": all checks passed" if good else ": NOT PASSED")
        )
        return good


def repeat(part: Part, name: str) -> bool:
    """
    Run a test that depends on real time once more, alone, and record that in L{LEDGER}.

    @return: whether it passed.
    """
    say(f"{part.name}: once more, alone: {name}")
    paths = tuple(word for word in part.command if word.startswith(("tests/", "--ignore=")))
    command = tuple(word for word in part.command if word not in paths)
    run = Run(Part(f"{part.name}-again", 5, (*command, name), 0, part.variables))
    run.wait()
    if run.code != 0:
        run.explain()
    when = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{when} {'passed' if run.code == 0 else 'FAILED AGAIN'} {name}\n")
    return run.code == 0


def laneIsBuilt() -> bool:
    """
    Check that the extension modules are compiled where they can be. Otherwise the tests would pass
    without testing the compiled lane.
    """
    if os.environ.get("NATSBROKER_NO_EXTENSIONS") == "1" or not hasCompiler():
        say("without the compiled lane: no C compiler, or it is switched off")
        return True
    places = (ROOT / "natsbroker" / "_accel").glob("*.pyx")
    missing = [place.name for place in places if not list(place.parent.glob(f"{place.stem}.*.so"))]
    if missing:
        say(f"not compiled, though there is a compiler: {' '.join(missing)}")
        subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"], cwd=ROOT, check=False
        )
    return not missing


def interrupt(number: int, frame: FrameType | None) -> None:
    """
    Handle a signal as Ctrl-C.
    """
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """
    @param arguments: for pytest; none for all checks.
    """
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if reachOf(arguments).interop:
        from tests.interop import prepare

        if prepare.main() != 0:
            return 1
    if arguments:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
    if not laneIsBuilt():
        return 1
    for file in WORK.glob("*.*"):
        if file != LEDGER:
            file.unlink()
    WORK.mkdir(parents=True, exist_ok=True)
    return 0 if Checks().run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
