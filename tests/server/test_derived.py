"""
What the network layer needs, out of the settings.
"""

from __future__ import annotations

import pytest

from natsbroker import NATS_VERSION, __version__
from natsbroker.server.derived import infoFrom, limitsFrom, tracingFrom
from tests.server.support import settingsOf


class TestLimits:
    """Limits."""

    def test_default(self) -> None:
        """An empty configuration gives the network layer's own defaults."""
        from natsbroker.clients.limits import Limits

        assert limitsFrom(settingsOf("port: 4222")) == Limits()

    @pytest.mark.parametrize(
        ("text", "name", "value"),
        [
            ("max_connections: 7", "max_connections", 7),
            ("max_payload: 100", "max_payload", 100),
            ("max_pending: 2MB", "max_pending", 2 * 1024 * 1024),
            ("max_control_line: 2KB", "max_control_line", 2048),
            ("max_subscriptions: 3", "max_subscriptions", 3),
            ("max_sub_tokens: 4", "max_sub_tokens", 4),
            ('ping_interval: "5s"', "ping_interval", 5.0),
            ("ping_max: 9", "ping_max", 9),
            ('write_deadline: "3s"', "write_deadline", 3.0),
            ("authorization { timeout: 7 }", "auth_timeout", 7.0),
            ("no_header_support: true", "headers", False),
            ("no_fast_producer_stall: true", "stall", False),
        ],
    )
    def test_each(self, text: str, name: str, value: object) -> None:
        """Each setting arrives."""
        assert getattr(limitsFrom(settingsOf(text)), name) == value


class TestTracing:
    """Tracing."""

    def test_off(self) -> None:
        """Nothing is traced unless asked for."""
        assert not tracingFrom(settingsOf("debug: true")).protocol

    def test_trace(self) -> None:
        """Tracing leaves out the system account."""
        tracing = tracingFrom(settingsOf("trace: true\nmax_traced_msg_len: 10"))
        assert (tracing.protocol, tracing.system, tracing.maxLength) == (True, False, 10)

    def test_verbose(self) -> None:
        """Verbose tracing does not."""
        tracing = tracingFrom(settingsOf("trace_verbose: true\ntrace_headers: true"))
        assert (tracing.protocol, tracing.system, tracing.headersOnly) == (True, True, True)


class TestInfo:
    """INFO."""

    def test_versions(self) -> None:
        """The version is the one that is matched; ours stands beside it."""
        info = infoFrom(settingsOf("port: 4222"), "ID", "127.0.0.1", 4222, False)
        assert (info.version, info.natsbroker) == (NATS_VERSION, __version__)

    def test_name(self) -> None:
        """The server is named after its id unless the settings name it."""
        assert infoFrom(settingsOf("port: 1"), "ID", "h", 1, False).server_name == "ID"
        named = infoFrom(settingsOf("server_name: n"), "ID", "h", 1, False)
        assert (named.server_id, named.server_name) == ("ID", "n")

    @pytest.mark.parametrize(
        ("advertise", "host", "port"),
        [
            ("", "127.0.0.1", 4000),
            ("example.com", "example.com", 4000),
            ("example.com:99", "example.com", 99),
            ("[::1]:99", "::1", 99),
            ("[::1]", "::1", 4000),
        ],
    )
    def test_address(self, advertise: str, host: str, port: int) -> None:
        """It names the place that is listened on, or the one that is advertised."""
        settings = settingsOf(f'client_advertise: "{advertise}"')
        info = infoFrom(settings, "ID", "127.0.0.1", 4000, False)
        assert (info.host, info.port) == (host, port)

    def test_authorization(self) -> None:
        """It says whether a login is required."""
        assert infoFrom(settingsOf("port: 1"), "ID", "h", 1, True).auth_required

    def test_exports(self) -> None:
        """Where something is stored that jobs can export, INFO says in which version of frames."""
        assert infoFrom(settingsOf("port: 1"), "NID", "h", 1, False).nb_export == 0
        assert infoFrom(settingsOf("streaming {}"), "NID", "h", 1, False).nb_export == 1
