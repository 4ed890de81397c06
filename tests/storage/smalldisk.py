"""
Whether this machine can mount a small disk for a test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def whyNot() -> str:
    """The reason why no file system can be mounted here; empty if one can."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    probe = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if probe.returncode == 0 else f"nothing can be mounted here: {probe.stderr.strip()}"


WHY_NOT = whyNot()
