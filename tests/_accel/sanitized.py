"""
Fuzzing of the compiled lane under AddressSanitizer and UndefinedBehaviorSanitizer.

The package is copied, its extension module compiled with both sanitizers, and
L{tests._accel.fuzzing} run on the copy. The long form::

    python -m tests._accel.sanitized --inputs 1000000

What a sanitizer finds, or an exception, ends the run; it is shown with the command
that repeats it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]

#: Without optimization and what describes variables, which take longer than the short run gains by
#: them: a report names functions and lines. No recovery: the first finding ends the run. Alignment
#: is left out: x86 does not mind, and CPython's own headers do not hold it.
FLAGS = (
    "-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined "
    "-fno-sanitize=alignment -fno-sanitize-recover=all"
)

_CANNOT = 3


class Unavailable(Exception):
    """
    There is no compiler, or it has no sanitizers.
    """


def libraries() -> str:
    """
    The sanitizers' libraries, which must be in the process before anything else.

    @raise Unavailable: if there are none.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        raise Unavailable("there is no gcc")
    objects = []
    for name in ("libasan.so", "libubsan.so"):
        answer = subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        path = answer.stdout.strip()
        if not os.path.isabs(path):
            raise Unavailable(f"gcc has no {name}")
        objects.append(os.path.realpath(path))
    return ":".join(objects)


def build(target: Path) -> None:
    """
    Copy the package and compile its extension with the sanitizers. An existing C source is used if
    it is newer than its Cython sources.

    @param target: an empty directory.
    @raise Unavailable: if Cython is not installed.
    """
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "node_modules", ".build")
    for name in ("natsbroker", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    environment = {**os.environ, "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    built = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not list(target.glob("natsbroker/_accel/*.so")):
        raise Unavailable(f"the extension was not built: {built.stdout}{built.stderr}")


def fuzz(inputs: int, seed: int) -> subprocess.CompletedProcess[str]:
    """
    Build and fuzz.

    @param inputs: how many inputs.
    @param seed: the first seed.
    @return: the finished process; its status is 0 if nothing was found.
    @raise Unavailable: if it cannot be done here.
    """
    preload = libraries()
    with TemporaryDirectory() as directory:
        target = Path(directory)
        build(target)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment.update(
            LD_PRELOAD=preload,
            PYTHONMALLOC="malloc",
            ASAN_OPTIONS="detect_leaks=0:abort_on_error=0:handle_abort=1",
            UBSAN_OPTIONS="print_stacktrace=1",
            NATSBROKER_PURE="",
        )
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "tests._accel.fuzzing",
                "--inputs",
                str(inputs),
                "--seed",
                str(seed),
            ],
            cwd=target,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> int:
    """
    The command line.

    @return: the exit status.
    """
    parser = argparse.ArgumentParser(description="Fuzz the compiled lane under sanitizers.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        done = fuzz(arguments.inputs, arguments.seed)
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return _CANNOT
    print(done.stdout, done.stderr, sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
