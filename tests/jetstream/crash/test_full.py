"""
Stores that cannot be used: a full disk, a read-only one, and one that another broker uses. The text
of each error has the reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.servers import OURS_FAST, Server
from tests.storage.smalldisk import ROOT, WHY_NOT

pytestmark = pytest.mark.slow

_FULL = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$1" -m tests.jetstream.crash.fulldisk "$0"'

_READ_ONLY = """
mount -t tmpfs tmpfs "$0" && printf 'port: -1\\njetstream { store_dir: "%s/js" }\\n' "$0" > "$0/c"
mount -o remount,ro "$0" && exec "$1" -m natsbroker -c "$0/c"
"""


def _unshared(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """
    Run a script with a file system of its own at the directory.
    """
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, str(directory), sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_diskFull(tmp_path: Path) -> None:
    """Publishers learn that there is no space. Stored messages stay, and storing resumes."""
    done = _unshared(_FULL, tmp_path)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_readOnly(tmp_path: Path) -> None:
    """A broker does not start on a directory that it cannot write, and the error names it."""
    done = _unshared(_READ_ONLY, tmp_path)
    assert done.returncode == 1
    assert "jetstream.store_dir: the store failed: [Errno 30] Read-only file" in done.stderr


def test_twoBrokers(tmp_path: Path) -> None:
    """The second broker on a store ends, and names the process that has it."""
    config = f'jetstream {{ store_dir: "{tmp_path}/js" }}\n'
    first = Server(OURS_FAST, tmp_path / "1", config)
    (tmp_path / "1").mkdir()
    first.start()
    expected = f"jetstream.store_dir: process {first.pid} has the store in {tmp_path}/js/jetstream"
    try:
        (tmp_path / "c").write_text(f"port: -1\n{config}")
        done = subprocess.run(
            [sys.executable, "-m", "natsbroker", "-c", str(tmp_path / "c")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        first.stop()
    assert done.returncode == 1
    assert expected in done.stderr
