"""
Disks that are full.

A real file system that is really full, in a name space of its own, where the machine
allows one; and the store's own limit, which works everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from natsbroker.interfaces.records import StoreFull
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.smalldisk import ROOT, WHY_NOT

pytestmark = pytest.mark.slow


MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1" && exec "$2" -m tests.storage.fulldisk "$1"'


def unshared(size: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """
    Run the story on a disk of some size.
    """
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNT, size, str(directory), sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.parametrize("size", ["8m", "32m"])
def test_diskFull(tmp_path: Path, size: str) -> None:
    """
    On a full disk, writers get an error and readers continue; writing resumes when there is space
    again.
    """
    done = unshared(size, tmp_path)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_severalCommits(tmp_path: Path) -> None:
    """A call that takes several commits fails when the disk is full between them."""
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store"))
    log: Any = reactor.wait(store.open("log"))
    reactor.wait(log.append([(b"s", b"", b"x" * 65000, 0)] * 200))
    reactor.wait(store.logs())
    count = tmp_path / "store" / "commits"
    [noting] = [path for path in Path("/proc/self/fd").iterdir() if path.resolve() == count]
    full = os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(full, int(noting.name), inheritable=False)
    os.close(full)
    answers: list[Any] = []
    log.discardBefore(200).addBoth(answers.append)
    reactor.wait(store.close())
    assert [answer.type for answer in answers] == [StoreFull]


def test_limit(tmp_path: Path) -> None:
    """
    A store with a size limit refuses further records, and accepts them when some were deleted.
    """
    reactor = PumpedReactor()
    store = reactor.wait(openLMDB(reactor, tmp_path / "store", maxSize=8 << 20))
    log: Any = reactor.wait(store.open("log"))
    batch = [(b"s", b"", b"x" * 4000, 0)] * 20
    count = 0
    with pytest.raises(StoreFull):
        while True:
            count = reactor.wait(log.append(batch)).stop - 1
    assert (8 << 20) // 4100 > count > 500
    assert log.nextSequence == count + 1
    assert len(reactor.wait(log.read(1, 10000, 1 << 30))) == count
    reactor.wait(log.discardBefore(count // 2))
    assert reactor.wait(log.append(batch)) == range(count + 1, count + 21)
    reactor.wait(store.close())
