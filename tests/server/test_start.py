"""
Log lines of a start.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.testing import MemoryReactor

from natsbroker import NATS_VERSION, __version__, hot
from natsbroker.config.model import Settings, TLSSettings
from natsbroker.connections.listener import PortListener, addressEndpoint
from natsbroker.server.start import announceListener, announceStart
from tests.server.support import logLines


def listening() -> Any:
    """A listener in memory, whose address is 0.0.0.0."""
    endpoint = addressEndpoint(MemoryReactor(), "127.0.0.1", 4000)
    listener = PortListener(endpoint, None)  # type: ignore[arg-type]
    listener.open()
    return listener


class TestStart:
    """The first lines."""

    def test_lines(self) -> None:
        """Version, name, id and the enabled features are logged, one line each."""
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
        """The log says if the lane is switched off."""
        with logLines() as lines:
            announceStart(Settings(fast_lane=False), "ID", {})
        assert "lane=off (" in lines[-1]


class TestListener:
    """Where clients can connect."""

    def test_line(self) -> None:
        """The line about the client listener is nats-server's, because programs wait for it."""
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
        """A listener that only this machine reaches causes no warning."""
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
