"""
Log lines of a start, and errors of one that fails.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.error import BindError, CannotListenError, ConnectionRefusedError
from twisted.internet.testing import MemoryReactor
from twisted.python.failure import Failure

from natsbroker import NATS_VERSION, __version__, hot
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.listener import PortListener, addressEndpoint
from natsbroker.errors import BrokerError
from natsbroker.interfaces.records import StoreFailed
from natsbroker.runtime.failures import cannotListen, failureReason, listenDetail
from natsbroker.server.start import announceListener, announceStart
from tests.server.support import logLines

TAKEN = OSError(98, "Address already in use")


def listening() -> Any:
    """A listener that listens in memory, where every address is 0.0.0.0."""
    endpoint = addressEndpoint(MemoryReactor(), "127.0.0.1", 4000)
    listener = PortListener(endpoint, None)  # type: ignore[arg-type]
    listener.open()
    return listener


class TestStart:
    """The first lines."""

    def test_lines(self) -> None:
        """Version, name, id and what is on, one line each."""
        with logLines() as lines:
            announceStart(Settings(server_name="n"), "ID", {"a": "b", "c": "d"})
        lane = "compiled" if hot.COMPILED else f"off ({hot.REASON})"
        assert lines == [
            "[INF] Starting natsbroker",
            f"[INF]   Version:  {__version__} (nats-server {NATS_VERSION})",
            "[INF]   Name:     n",
            "[INF]   ID:       ID",
            f"[INF]   On:       a=b c=d lane={lane}",
        ]

    def test_file(self) -> None:
        """A configuration file is named with its digest."""
        settings = Settings(config_file="x.conf", config_digest="sha256:00")
        with logLines() as lines:
            announceStart(settings, "ID", {})
        assert lines[-1] == "[INF] Using configuration file: x.conf (sha256:00)"

    def test_laneOff(self) -> None:
        """A fast lane that is switched off is said to be."""
        with logLines() as lines:
            announceStart(Settings(fast_lane=False), "ID", {})
        assert "lane=off (" in lines[-1]


class TestListener:
    """Where clients can connect."""

    def test_line(self) -> None:
        """Programs wait for this line."""
        with logLines() as lines:
            announceListener(listening(), Settings(), True)
        assert lines == ["[INF] Listening for client connections on 0.0.0.0:4000"]

    def test_openToTheNetwork(self) -> None:
        """A listener that other machines reach, and that asks for no login, gets a warning."""
        with logLines() as lines:
            announceListener(listening(), Settings(), False)
        assert lines == [
            "[WRN] Clients need no login on 0.0.0.0:4000, which other machines may reach",
            "[INF] Listening for client connections on 0.0.0.0:4000",
        ]

    @pytest.mark.parametrize(
        "address", [IPv4Address("TCP", "127.0.0.1", 4000), UNIXAddress(b"/run/socket")]
    )
    def test_openToThisMachine(self, address: Any) -> None:
        """Loopback and sockets of this machine get none."""
        listener: Any = SimpleNamespace(address=address)
        with logLines() as lines:
            announceListener(listener, Settings(), False)
        assert len(lines) == 1

    @pytest.mark.parametrize(
        ("tls", "optional", "more"),
        [
            (TLSSettings(), False, ["[INF] TLS required for client connections"]),
            (TLSSettings(), True, ["[INF] TLS available for client connections"]),
            (
                TLSSettings(handshake_first=True, handshake_first_fallback=1.0),
                True,
                ["[INF] TLS available for client connections"],
            ),
            (
                TLSSettings(handshake_first=True),
                True,
                [
                    "[INF] TLS required for client connections",
                    '[WRN] Clients that are not using "TLS Handshake First" option will fail '
                    "to connect",
                ],
            ),
        ],
    )
    def test_tls(self, tls: TLSSettings, optional: bool, more: list[str]) -> None:
        """TLS is mentioned in nats-server's words."""
        with logLines() as lines:
            announceListener(
                listening(), replace(Settings(), tls=tls, allow_non_tls=optional), True
            )
        assert lines[1:] == more


class TestFailure:
    """A place that is taken."""

    def test_text(self) -> None:
        """It is reported in nats-server's words."""
        error = CannotListenError("127.0.0.1", 4222, TAKEN)
        assert str(cannotListen(error)) == (
            "Error listening on port: 127.0.0.1:4222, "
            '"listen tcp 127.0.0.1:4222: bind: address already in use"'
        )

    @pytest.mark.parametrize(
        ("host", "where"), [("", "0.0.0.0:1"), ("::1", "[::1]:1"), ("h", "h:1")]
    )
    def test_place(self, host: str, where: str) -> None:
        """The place is written as it is listened on."""
        error = CannotListenError(host, 1, TAKEN)
        assert listenDetail(error) == f"listen tcp {where}: bind: address already in use"

    def test_noNumber(self) -> None:
        """An error without a text of the system is reported unchanged."""
        error = CannotListenError("h", 1, OSError("odd"))
        assert listenDetail(error) == "listen tcp h:1: bind: odd"


class TestFailureReason:
    """What the last line of a start that failed says."""

    def reason(self, error: BaseException) -> str:
        try:
            raise error
        except BaseException:
            return failureReason(Failure())

    @pytest.mark.parametrize("kind", [BrokerError, StoreFailed, ValueError, OSError])
    def test_foreseen(self, kind: type[Exception]) -> None:
        """An error that was foreseen says itself what is wrong."""
        assert self.reason(kind("no")) == "no"

    @pytest.mark.parametrize("kind", [ConnectionRefusedError, BindError])
    def test_network(self, kind: type[Exception]) -> None:
        """The text of Twisted about a connection or a port is logged."""
        assert self.reason(kind("no")).endswith(": no.")

    @pytest.mark.parametrize("kind", [KeyError, SystemExit])
    def test_unforeseen(self, kind: type[BaseException], flushLoggedErrors: Any) -> None:
        """Another one is named with its place; its text may be a secret."""
        line = self.reason.__code__.co_firstlineno + 2
        with logLines(debug=True) as lines:
            reason = self.reason(kind("password"))
        assert reason == f"Cannot start: {kind.__name__} at {__file__}:{line} in reason"
        assert any("password" in line for line in lines)
        assert not any("password" in line for line in lines if "[DBG]" not in line)
        assert len(flushLoggedErrors(kind)) == 1

    def test_withoutPlace(self, flushLoggedErrors: Any) -> None:
        """A failure that was never raised has no place."""
        assert failureReason(Failure(KeyError("x"))) == "Cannot start: KeyError"
        assert len(flushLoggedErrors(KeyError)) == 1
