"""
The load generator: compiled when it is first needed, run for each measurement, its report read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import pinned

__all__ = ["Generator", "GeneratorFailed", "GeneratorMissing", "build", "parseReport"]

SOURCES = Path(__file__).resolve().parent / "load"
BUILDS = Path(__file__).resolve().parent / ".build"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
PATIENCE = 60.0
"""Seconds that a measurement may last beyond the time it was given."""

SLOWEST = 10_000
"""The least number of counted messages that are to be done a second."""

NO_COMPILER = (
    "the load generator is a C program and no compiler was found: install one "
    "(on Debian: apt-get install gcc libc6-dev libssl-dev) or name it in CC"
)


class GeneratorMissing(Exception):
    """
    The load generator cannot be built here; the message says what is missing.
    """


class GeneratorFailed(Exception):
    """
    A measurement did not come to an end, or not to a believable one; the message says why.
    """


def parseReport(text: str, mode: str) -> dict[str, float]:
    """
    @param text: what the generator printed: one line of JSON.
    @param mode: the mode that it must have run.
    @return: the numbers of the report; truth values count as 0 and 1.
    @raise GeneratorFailed: if it is not a report of that mode.
    """
    try:
        report = json.loads(text)
    except ValueError as error:
        raise GeneratorFailed(f"no report but {text[:200]!r}") from error
    if not isinstance(report, dict) or report.get("mode") != mode:
        raise GeneratorFailed(f"not a report of {mode}: {text[:200]!r}")
    return {key: float(value) for key, value in report.items() if isinstance(value, (int, float))}


@dataclass(frozen=True)
class Generator:
    """
    The built program.

    @ivar program: the file to execute.
    @ivar tls: whether it was built with TLS.
    @ivar cores: the processors to run on; none for any.
    """

    program: Path
    tls: bool
    cores: frozenset[int] = frozenset()

    def command(self, mode: str, port: int, pid: int, load: Sequence[str]) -> list[str]:
        """
        @return: the command line of one measurement of the server C{pid} at C{port}.
        """
        if "--tls" in load and not self.tls:
            raise GeneratorMissing(
                "the load generator was built without TLS: install OpenSSL's headers "
                "(on Debian: apt-get install libssl-dev)"
            )
        place = ["--mode", mode, "--port", str(port), "--server-pid", str(pid)]
        return [str(self.program), *place, *load]

    def run(
        self, mode: str, port: int, pid: int, load: Sequence[str], seconds: float
    ) -> dict[str, float]:
        """
        Measure, and wait for the end.

        @param seconds: how long the load itself is to last.
        @return: the numbers of the report.
        @raise GeneratorFailed: if there is no report.
        """
        command = [*self.command(mode, port, pid, load), "--seconds", str(seconds)]
        count = int(load[load.index("--count") + 1]) if "--count" in load else 0
        limit = seconds + PATIENCE + count / SLOWEST
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
                preexec_fn=pinned(self.cores),
            )
        except subprocess.TimeoutExpired as error:
            raise GeneratorFailed(f"no report within {limit:g} seconds") from error
        if done.returncode:
            raise GeneratorFailed(done.stderr.strip() or f"exit status {done.returncode}")
        return parseReport(done.stdout, mode)

    @contextmanager
    def hold(
        self, mode: str, port: int, pid: int, load: Sequence[str], seconds: float = 0
    ) -> Iterator[Mapping[str, float]]:
        """
        Reach a state and keep it for as long as the context lasts.

        @return: the context manager of the numbers that were reported when it was reached.
        @raise GeneratorFailed: if it is not reached.
        """
        command = [*self.command(mode, port, pid, load), "--seconds", str(seconds)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=pinned(self.cores),
        )
        assert process.stdin and process.stdout and process.stderr
        try:
            line = process.stdout.readline()
            if not line:
                raise GeneratorFailed(process.stderr.read().strip() or "ended without a report")
            yield parseReport(line, mode)
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()


def compiler() -> list[str]:
    """
    @return: the command of the C compiler.
    @raise GeneratorMissing: if there is none.
    """
    named = os.environ.get("CC", "").split()
    for command in [named, ["gcc"], ["cc"], ["clang"]]:
        if command and shutil.which(command[0]):
            return command
    raise GeneratorMissing(NO_COMPILER)


def digest(command: Sequence[str], sources: Sequence[Path]) -> str:
    """
    @return: a name for what C{command} makes of C{sources}.
    """
    sum_ = hashlib.sha256("\0".join(command).encode())
    for source in sources:
        sum_.update(source.read_bytes())
    return sum_.hexdigest()[:12]


def make(command: Sequence[str], target: Path) -> str:
    """
    Run a compiler and put its product in place at once, so that no half of it is ever executed.

    @return: what the compiler said, if it failed; else C{""}.
    """
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    done = subprocess.run([*command, "-o", str(partial)], capture_output=True, text=True)
    if done.returncode:
        partial.unlink(missing_ok=True)
        return done.stderr or f"exit status {done.returncode}"
    partial.replace(target)
    return ""


def build(folder: Path = BUILDS, cores: frozenset[int] = frozenset()) -> Generator:
    """
    @param folder: where builds are kept; made if need be.
    @param cores: the processors that the generator is to run on; none for any.
    @return: the load generator, with TLS where OpenSSL's headers are installed.
    @raise GeneratorMissing: if there is no compiler, or it refuses the sources.
    """
    sources = sorted(SOURCES.glob("*.c"))
    flags = [*compiler(), *FLAGS, *map(str, sources), "-lpthread"]
    said = ""
    folder.mkdir(parents=True, exist_ok=True)
    for tls, command in ((True, [*flags, "-DWITH_TLS", "-lssl", "-lcrypto"]), (False, flags)):
        target = folder / f"load-{digest(command, [*sources, *SOURCES.glob('*.h')])}"
        if target.exists() or not (said := make(command, target)):
            return Generator(target, tls, cores)
    raise GeneratorMissing(f"the load generator does not compile:\n{said}")
