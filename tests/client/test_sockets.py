"""
The client over real sockets, with and without TLS, against a real broker.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from natsbroker.testing.process import BrokerProcess
from tests.interop.certificates import writeCertificates

pytestmark = [pytest.mark.slow, pytest.mark.realtime]

ROOT = Path(__file__).resolve().parents[2]

Start = Callable[..., BrokerProcess]


def talking(*arguments: object) -> str:
    """
    @return: the output of the program; see L{tests.client.talking}.
    """
    command = [sys.executable, "-m", "tests.client.talking", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


class TestPlain:
    """Over TCP."""

    def test_session(self, natsbroker: BrokerProcess) -> None:
        """The client connects, publishes, receives and disconnects."""
        assert talking(natsbroker.port) == "heard 300000 bytes, TLS False"

    def test_wantsTLS(self, natsbroker: BrokerProcess, tmp_path: Path) -> None:
        """A client that requires TLS disconnects from a server that does not offer it."""
        writeCertificates(tmp_path)
        assert talking(natsbroker.port, tmp_path / "ca.pem").startswith("TLSError")

    def test_nobodyListens(self, natsbroker: BrokerProcess) -> None:
        """The error without a listener is that of the refused connection."""
        natsbroker.stop()
        assert talking(natsbroker.port).startswith("ConnectionRefusedError")


class TestTLS:
    """Over TLS that begins after INFO."""

    @pytest.fixture
    def server(self, natsbrokerFactory: Start, tmp_path: Path) -> BrokerProcess:
        """A broker that requires TLS."""
        writeCertificates(tmp_path)
        files = [f"--tlscert={tmp_path / 'server.pem'}", f"--tlskey={tmp_path / 'server-key.pem'}"]
        return natsbrokerFactory("--tls", *files)

    def test_sessionOverTLS(self, server: BrokerProcess, tmp_path: Path) -> None:
        """A client that trusts the authority connects, publishes, receives and disconnects."""
        assert talking(server.port, tmp_path / "ca.pem") == "heard 300000 bytes, TLS True"

    def test_wrongName(self, server: BrokerProcess, tmp_path: Path) -> None:
        """A certificate for another name is refused."""
        said = talking(server.port, tmp_path / "ca.pem", "example.com")
        assert said.startswith("ConnectionEnded")

    def test_strangeAuthority(self, server: BrokerProcess, tmp_path: Path) -> None:
        """A certificate of an untrusted authority is refused."""
        other = tmp_path / "other"
        other.mkdir()
        writeCertificates(other)
        assert talking(server.port, other / "ca.pem").startswith("ConnectionEnded")

    def test_cannot(self, server: BrokerProcess) -> None:
        """A client without an authority sends nothing to a server that requires TLS."""
        assert talking(server.port) == "TLSError: the server requires TLS"
