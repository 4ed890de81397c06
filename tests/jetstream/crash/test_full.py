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
    """Run a script in a mount namespace of its own."""
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
    """
    A broker does not start with a read-only store directory, and the error names the directory.
    """
    done = _unshared(_READ_ONLY, tmp_path)
    assert done.returncode == 1
    assert "jetstream.store_dir: the store failed: [Errno 30] Read-only file" in done.stderr


def test_twoBrokers(tmp_path: Path) -> None:
    """
    A second broker on the same store does not start, and names the process that holds the store.
    """
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
