"""
The thread that writes without the interpreter.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import platform
import re
import select
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from natsbroker import hot

pytestmark = pytest.mark.skipif(hot.SyncedWriter is None, reason="the lane is not compiled")

PIECE = bytes(range(256)) * 16

#: The number of C{sched_getattr} on x86-64.
SCHED_GETATTR = 315


def kernel() -> tuple[int, ...]:
    """The version of Linux."""
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


class Files:
    """A file for pieces and one for notes, and a writer for them."""

    def __init__(self, directory: Path, most: int = 0) -> None:
        self.pieces, self.notes = directory / "pieces", directory / "notes"
        flags = os.O_RDWR | os.O_CREAT | os.O_DSYNC
        self.descriptors = [os.open(path, flags, 0o600) for path in (self.pieces, self.notes)]
        self.writer: Any = hot.SyncedWriter(8192, most)

    def write(
        self, piece: bytes, offset: int, note: bytes = b"note", mayHold: bool = False
    ) -> None:
        """Hand over a piece."""
        self.writer.write(self.descriptors[0], piece, offset, self.descriptors[1], note, 0, mayHold)

    def wait(self) -> tuple[int, int]:
        """The outcome of the sync."""
        assert select.select([self.writer.fileno()], [], [], 30)[0]
        result: tuple[int, int] = self.writer.result()
        return result

    def close(self) -> None:
        """Close the writer and the descriptors."""
        self.writer.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    """Files and a writer."""
    opened = Files(tmp_path)
    yield opened
    opened.close()


def threads() -> int:
    """The number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def scheduling(thread: int) -> tuple[int, int, int]:
    """The policy, the niceness and the slice of a thread; 0 for a slice that the kernel chooses."""
    buffer = ctypes.create_string_buffer(48)
    library = ctypes.CDLL(None, use_errno=True)
    assert library.syscall(SCHED_GETATTR, thread, buffer, len(buffer), 0) == 0
    _, policy, _, nice, _, runtime = struct.unpack_from("=IIQiIQ", buffer)
    return policy, nice, runtime


@pytest.mark.skipif(
    platform.machine() != "x86_64" or kernel() < (6, 12), reason="slices of threads need Linux 6.12"
)
def test_shortSlices(files: Files) -> None:
    """The thread asks for short slices, so that it is scheduled soon. No other setting changes."""
    files.write(PIECE, 0)
    files.wait()
    schedulings = [scheduling(int(thread)) for thread in os.listdir("/proc/self/task")]
    policy, nice, _ = scheduling(os.getpid())
    assert schedulings.count((policy, nice, 100_000)) == 1


@pytest.mark.skipif(
    platform.machine() != "x86_64" or kernel() < (6, 12), reason="slices of threads need Linux 6.12"
)
def test_shortSlicesForAThread() -> None:
    """
    A thread gets the slices that it asks for, and so does a thread that it starts; the first thread
    keeps its own slices.
    """
    schedulings: list[tuple[int, int, int]] = []

    def ask() -> None:
        hot.useShortSlices(700_000)
        child = threading.Thread(
            target=lambda: schedulings.append(scheduling(threading.get_native_id()))
        )
        child.start()
        child.join()
        schedulings.append(scheduling(threading.get_native_id()))

    before = scheduling(os.getpid())
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert schedulings == [(*before[:2], 700_000)] * 2
    assert scheduling(os.getpid()) == before


def test_pieceThenNote(files: Files) -> None:
    """A piece and a note are written to their files, and the descriptor becomes readable."""
    assert files.writer.result() is None
    files.write(PIECE, 4096, b"first")
    assert files.writer.isBusy
    assert files.wait() == (0, 0)
    assert not files.writer.isBusy
    assert files.writer.result() is None
    assert files.pieces.read_bytes() == bytes(4096) + PIECE
    assert files.notes.read_bytes() == b"first"


def test_oneAfterAnother(files: Files) -> None:
    """A piece can be written after the piece before it was written."""
    for number in range(200):
        files.write(b"%04d" % number, number * 4, b"%04d" % number)
        assert files.wait() == (0, 0)
    assert files.pieces.read_bytes() == b"".join(b"%04d" % number for number in range(200))
    assert files.notes.read_bytes() == b"0199"


def test_onePieceAtATime(files: Files) -> None:
    """A second piece is refused until the result of the first one was taken."""
    files.write(PIECE, 0)
    with pytest.raises(RuntimeError):
        files.write(PIECE, 0)
    assert files.wait() == (0, 0)
    files.write(PIECE, 0)
    assert files.wait() == (0, 0)


def test_tooLongPiece(files: Files) -> None:
    """A piece that is longer than announced is refused, and the writer goes on."""
    with pytest.raises(ValueError, match="too long"):
        files.write(bytes(8193), 0)
    files.write(bytes(8192), 0)
    assert files.wait() == (0, 0)


def test_pieceFails(files: Files) -> None:
    """An error of the first write is reported, and no note is written; the writer goes on."""
    writing = files.descriptors[0]
    files.descriptors[0] = os.open(files.pieces, os.O_RDONLY)
    files.write(PIECE, 0)
    assert files.wait() == (errno.EBADF, 0)
    assert files.notes.read_bytes() == b""
    os.close(files.descriptors[0])
    files.descriptors[0] = writing
    files.write(PIECE, 0)
    assert files.wait() == (0, 0)


def test_noteFails(files: Files) -> None:
    """An error of the note is reported apart from the piece, which is written."""
    os.close(files.descriptors[1])
    files.descriptors[1] = os.open(files.notes, os.O_RDONLY)
    files.write(PIECE, 0)
    assert files.wait() == (0, errno.EBADF)
    assert files.pieces.read_bytes() == PIECE


def test_closeWhileWriting(tmp_path: Path) -> None:
    """Closing waits until the pieces and the note are written."""
    for number in range(50):
        files = Files(tmp_path)
        files.write(PIECE, number * len(PIECE), b"%d" % number)
        files.close()
        assert files.writer.fileno() == -1
        assert files.notes.read_bytes() == b"%d" % number
    assert files.pieces.read_bytes() == PIECE * 50


def test_heldPiece(tmp_path: Path) -> None:
    """After enough quick writes a piece may be held; closing the writer writes it."""
    files = Files(tmp_path, most=10**11)
    for number in range(16):
        files.write(PIECE, number * len(PIECE), mayHold=True)
        assert not files.writer.isHeld
        assert files.wait() == (0, 0)
    files.write(PIECE, 16 * len(PIECE), b"held", mayHold=True)
    assert files.writer.isHeld
    assert files.writer.isBusy
    assert files.writer.result() is None
    files.close()
    assert files.pieces.read_bytes() == PIECE * 17
    assert files.notes.read_bytes() == b"held"


def test_neverHeld(files: Files) -> None:
    """A piece is not held on a slow disk."""
    for _ in range(20):
        files.write(PIECE, 0, mayHold=True)
        assert not files.writer.isHeld
        assert files.wait() == (0, 0)


def test_closedTakesNothing(files: Files) -> None:
    """A closed writer refuses pieces; closing it again does nothing."""
    files.writer.close()
    files.writer.close()
    with pytest.raises(RuntimeError):
        files.write(PIECE, 0)


def test_threadEndsWithItsWriter() -> None:
    """A writer that is garbage collected ends its thread and closes its descriptor."""
    gc.collect()
    before = threads()
    writer = hot.SyncedWriter(4096)
    descriptor = writer.fileno()
    assert threads() == before + 1
    del writer
    gc.collect()
    assert threads() == before
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_forkedProcess(files: Files) -> None:
    """
    A forked process does not have the thread. It can close its copy of the file, and the parent
    goes on.
    """
    child = os.fork()
    if child == 0:
        files.writer.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    files.write(PIECE, 0)
    assert files.wait() == (0, 0)


def test_alarm() -> None:
    """A timer fires once for each time that it is set, and not after it was set to 0."""
    alarm = hot.Alarm()
    assert not alarm.take()
    for _ in range(3):
        alarm.set(50_000)
        assert select.select([alarm.fileno()], [], [], 30)[0]
        assert alarm.take()
        assert not alarm.take()
    alarm.set(900_000_000)
    alarm.set(0)
    assert not select.select([alarm.fileno()], [], [], 0)[0]
    alarm.close()
    alarm.close()
    assert alarm.fileno() == -1
    with pytest.raises(OSError):
        alarm.set(1)
