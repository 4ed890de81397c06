"""
The checks of -t beyond the text of the file; tests/test_main.py has their output.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from natsbroker.server.configtest import referenceProblems
from tests.server.support import settingsOf


def problems(text: str) -> list[tuple[str, str]]:
    """The keys and texts of the problems of a configuration."""
    return [(key, str(error)) for key, error in referenceProblems(settingsOf(text))]


class TestStreamingFolder:
    """The folder of a streaming store."""

    @pytest.mark.parametrize("name", ["", "new", "new/below"])
    def test_canBeMade(self, name: str, tmp_path: Path) -> None:
        """
        A store's folder that exists or can be created is no problem. The check creates nothing.
        """
        assert problems(f"streaming {{ store: file, dir: '{tmp_path / name}' }}") == []
        assert os.listdir(tmp_path) == []

    def test_noAccess(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder without write access is an error."""
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        text = f"streaming {{ store: file, dir: '{tmp_path}' }}"
        assert problems(text) == [("streaming.dir", f"{tmp_path} cannot be written to")]

    def test_memory(self) -> None:
        """The folder of a store in memory is not checked."""
        assert problems("streaming { store: memory, dir: '/dev/null/x' }") == []


def test_readyMade() -> None:
    """The broker's own plugins are found."""
    assert problems("services { traffic { } }") == []


def test_everyProblem() -> None:
    """All problems are found, not only the first."""
    text = (
        "streaming { store: a, dir: '/dev/null/x' }, router { plugin: b }, services { c { } }, "
        "authorization { plugin: d }"
    )
    keys = [key for key, _ in problems(text)]
    assert keys == ["authorization.plugin", "router.plugin", "services.c", "streaming.store"]


def test_loadsNothing() -> None:
    """
    Checking settings without references to files or plugins loads neither Twisted nor OpenSSL.
    """
    text = (
        "import sys; from natsbroker.config.model import Settings;"
        "from natsbroker.server.configtest import referenceProblems;"
        "list(referenceProblems(Settings()));"
        "sys.exit('twisted' in sys.modules or 'OpenSSL' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
