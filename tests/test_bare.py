"""
The parts of the run on a bare machine that do not need root.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bare import Source, Unfit, main, sourcesOf, tryBroker, variablesFor

TARGETS = """\
Debian bookworm-updates http://mirror.test/debian/ main
Debian bookworm http://mirror.test/debian/ main
Debian bookworm http://mirror.test/debian/ main
Debian bookworm-security http://mirror.test/security/ main
Debian bookworm-backports http://mirror.test/debian/ main
. nodistro http://other.test/node/ main
Other bookworm http://other.test/debian/ main
"""


class TestSources:
    def test_debian(self) -> None:
        """Only Debian's release and its updates are used, the release first."""
        assert sourcesOf(TARGETS, "bookworm") == [
            Source("bookworm", "http://mirror.test/debian/", "main"),
            Source("bookworm-security", "http://mirror.test/security/", "main"),
            Source("bookworm-updates", "http://mirror.test/debian/", "main"),
        ]

    def test_none(self) -> None:
        """Without an apt source for the release there is an error."""
        with pytest.raises(Unfit, match="no Debian trixie"):
            sourcesOf(TARGETS, "trixie")


def test_variables(tmp_path: Path) -> None:
    """
    The environment has only the variables for access to registries, with the files that they name.
    """
    file = tmp_path / "authorities.pem"
    file.write_text("pem")
    root = tmp_path / "root"
    given = {"PIP_CERT": str(file), "https_proxy": "http://p", "PIP_FIND_LINKS": "/x", "LANG": "C"}
    variables = variablesFor(root, given)
    assert set(variables) == {"PATH", "HOME", "CI", "PIP_CERT", "https_proxy"}
    assert (root / str(file).lstrip("/")).read_text() == "pem"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("raise SystemExit('no')", "did not listen"),
        ("print('Listening for client connections on 127.0.0.1:1')", "did not stop"),
    ],
)
def test_brokenBroker(program: str, problem: str) -> None:
    """A broker that ends too early, or not properly, fails the run."""
    command = [sys.executable, "-c", f"import sys; sys.stdout = sys.stderr; {program}"]
    with pytest.raises(Unfit, match=problem):
        tryBroker(command, {})


def test_notRoot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root file system can only be made as root."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="takes root"):
        main([])
