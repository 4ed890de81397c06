"""
A disk that fails on demand, and remembers the calls: the library C{shim.c}.

It is compiled when it is first needed and preloaded into the processes that are tried. It works for
any user and without a debugger, wherever there is a C compiler and glibc.

Calls about files below one directory are counted and traced in the order in which they
were done; the orders given to it hold from the next call on.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from struct import Struct
from typing import NamedTuple

__all__ = ["Act", "Call", "Event", "Orders", "Plan", "build", "environment", "readTrace", "whyNot"]

SOURCE = Path(__file__).with_name("shim.c")
BUILDS = Path(__file__).with_name(".build")
FLAGS = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-std=gnu11")

_ORDERS = Struct("<6QqQ3Q")
_ENTRY = Struct("<ccHiqq")

FOR_EVER = (1 << 64) - 1


class Call(IntFlag):
    """
    A call of a process to the disk. A C{ROOT} is a C{WRITE} that is synced before it returns, as
    LMDB writes the page that makes a commit count.
    """

    MAKE = 1
    WRITE = 2
    SYNC = 4
    SIZE = 8
    NAME = 16
    READ = 32
    ROOT = 64
    CHANGE = MAKE | WRITE | SYNC | SIZE | NAME


class Act(IntEnum):
    """The fate of a call."""

    NOTHING = 0
    KILL_BEFORE = 1
    KILL_AFTER = 2
    KILL_HALFWAY = 3
    FAIL = 4
    DELAY = 5
    SHORT = 6
    UNREADABLE = 7


class Event(NamedTuple):
    """
    An entry of a trace.

    @ivar what: the letter that C{shim.c} gives it.
    @ivar flag: more about it, or a space.
    @ivar name: a path below the directory; two, with a line feed between, if two belong to it.
    @ivar file: a descriptor, or -1.
    @ivar end: where in the trace the entry ends.
    """

    what: str
    flag: str
    name: str
    file: int
    offset: int
    length: int
    data: bytes
    end: int


@dataclass(frozen=True)
class Plan:
    """
    A plan for the fate of calls.

    @ivar act: what.
    @ivar calls: of which calls.
    @ivar first: the first of them that is meant, counted from 1; of what cannot be read, the byte
        of a file where it begins.
    @ivar last: the last that is meant, or the byte where that ends.
    @ivar error: the number that L{Act.FAIL} gives.
    @ivar microseconds: how long L{Act.DELAY} takes.
    @ivar space: by how many bytes files may still grow; negative for any number.
    @ivar inode: the file of which something cannot be read.
    """

    act: int = Act.NOTHING
    calls: int = Call.CHANGE
    first: int = 1
    last: int = FOR_EVER
    error: int = errno.EIO
    microseconds: int = 0
    space: int = -1
    inode: int = 0


class Orders:
    """
    Orders to a process, given from outside while it runs, or by the process itself.

    @ivar path: of the file that both sides share.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def give(self, plan: Plan) -> None:
        """Set the fate of calls from now on; counting begins again."""
        _ORDERS.pack_into(self._shared, 0, *astuple(plan), 0, 0, 0)

    def clear(self) -> None:
        """Let all calls succeed from now on."""
        self.give(Plan())

    @property
    def counted(self) -> int:
        """The number of planned calls since the orders."""
        return int(_ORDERS.unpack_from(self._shared)[8])

    @property
    def hits(self) -> int:
        """The number of calls that the plan changed."""
        return int(_ORDERS.unpack_from(self._shared)[9])

    def close(self) -> None:
        """Close the file."""
        self._shared.close()


def whyNot() -> str:
    """The reason why the library cannot be used here; empty if it can."""
    try:
        build()
    except RuntimeError as failure:
        return str(failure)
    return ""


def build() -> Path:
    """
    Compile the library, unless it is compiled already.

    @raise RuntimeError: if it cannot be.
    """
    # A test may have taken everything from PATH.
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), os.defpath))
    compiler = os.environ.get("CC", "").split() or ["cc"]
    if shutil.which(compiler[0], path=path) is None:
        raise RuntimeError("there is no C compiler")
    key = hashlib.sha256("\0".join([*compiler, *FLAGS]).encode() + SOURCE.read_bytes())
    target = BUILDS / f"shim-{key.hexdigest()[:12]}.so"
    if target.exists():
        return target
    BUILDS.mkdir(exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, "-o", str(partial), str(SOURCE), "-ldl", "-lpthread"]
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise RuntimeError(f"{SOURCE.name} does not compile here: {done.stderr}")
    partial.replace(target)
    return target


def environment(
    directory: Path | None = None, orders: Path | None = None, trace: str = ""
) -> dict[str, str]:
    """
    The environment of a process that has the library.

    @param directory: whose files are watched from the start; L{None} if the process will say.
    @param trace: the file for the trace; none if empty.
    """
    variables = {**os.environ, "LD_PRELOAD": str(build())}
    if directory is not None:
        variables |= {"SHIM_DIRECTORY": str(directory), "SHIM_CONTROL": str(orders)}
        variables |= {"SHIM_TRACE": trace}
    return variables


def readTrace(path: Path) -> Iterator[Event]:
    """
    The entries of a trace; one that was cut off at the end is left out.
    """
    data = path.read_bytes()
    position = 0
    while position + _ENTRY.size <= len(data):
        what, flag, nameLength, file, offset, length = _ENTRY.unpack_from(data, position)
        start = position + _ENTRY.size
        name = data[start : start + nameLength].decode()
        position = start + nameLength
        body = b""
        if what in b"wa":
            body = data[position : position + length]
            position += length
            if len(body) != length:
                return
        yield Event(what.decode(), flag.decode(), name, file, offset, length, body, position)
