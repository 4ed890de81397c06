"""
A server whose disk is full.

A real file system that is really full, in a name space of its own, where the machine
allows one to root; the server's errors are also tested in test_store.py, everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from tests.storage.smalldisk import ROOT, WHY_NOT

MOUNT = (
    'mount -t tmpfs -o mode=755,size="$0" tmpfs "$1"'
    ' && exec "$2" -m tests.storage.postgres.fulldisk "$1"'
)

REASON = WHY_NOT or ("PostgreSQL refuses to run in a name space of its own" if os.getuid() else "")


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_diskFull() -> None:
    """
    On a full disk, writers get an error and readers continue; writing resumes when there is space
    again.
    """
    # Not in pytest's directory, to which the server's user has no access.
    place = tempfile.mkdtemp()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", MOUNT, "64m", place, sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    os.rmdir(place)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
