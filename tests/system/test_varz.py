"""
Tests for L{natsbroker.system.varz}; keys and values are held against nats-server's elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from natsbroker.config.model import AuthorizationSettings, OperatorMode, Settings, TLSSettings
from natsbroker.monitoring.answers import PAUSE, complete
from tests.auth.operator.chain import Operator
from tests.monitoring.staging import Stage, monitoring
from tests.server.support import settingsOf


class TestVarz:
    """The server as a whole."""

    def test_identity(self) -> None:
        """The version is nats-server's, followed by natsbroker's."""
        page = Stage().page("/varz")
        assert (page["version"], page["natsbroker"]) == ("2.15.1", "0")
        assert (page["server_id"], page["server_name"], page["proto"]) == ("ID", "name", 1)
        assert "auth_required" not in page
        assert Stage(required=True).page("/varz")["auth_required"] is True

    def test_info(self) -> None:
        """The page repeats the values of INFO."""
        stage = Stage()
        stage.world.context.info = stage.world.context.info.changed(
            tls_required=True, tls_verify=True, connect_urls=("a:1", "b:2"), git_commit="abc"
        )
        page = stage.page("/varz")
        assert page["tls_required"] is page["tls_verify"] is True
        assert page["connect_urls"] == ["a:1", "b:2"]
        assert page["git_commit"] == "abc"

    def test_limits(self) -> None:
        """The current limits are shown in nats-server's units, also after a reload."""
        stage = Stage(
            limits=Settings(
                ping_interval=0.5,
                write_deadline=1.5,
                authorization=AuthorizationSettings(timeout=2.5),
            )
        )
        page = stage.page("/varz")
        assert page["ping_interval"] == 500_000_000
        assert page["write_deadline"] == 1_500_000_000
        assert page["auth_timeout"] == 2.5
        assert "max_subscriptions" not in page
        stage.world.context.settings = replace(stage.world.context.settings, max_subscriptions=7)
        assert stage.page("/varz")["max_subscriptions"] == 7

    def test_settings(self) -> None:
        """Settings that no other page has are shown."""
        settings = replace(
            monitoring(http_host="localhost", http_port=8222, http_base_path="/"),
            tls=TLSSettings(timeout=3.5),
            server_tags=("a", "b"),
            server_metadata={"zone": "z"},
            system_account="OPS",
            config_digest="sha256:1",
        )
        page = Stage(settings).page("/varz")
        assert (page["http_host"], page["http_port"]) == ("localhost", 8222)
        assert page["http_base_path"] == ""
        assert page["tls_timeout"] == 3.5
        assert (page["tags"], page["metadata"]) == (["a", "b"], {"zone": "z"})
        assert (page["system_account"], page["config_digest"]) == ("OPS", "sha256:1")

    def test_guests(self) -> None:
        """C{auth_required} is true even if clients without a login become a configured user."""
        stage = Stage()
        stage.world.context.authorizer.deadline = True
        assert stage.page("/varz")["auth_required"] is True

    def test_clusterWithoutPort(self) -> None:
        """A cluster without a port still has a name."""
        assert Stage(settingsOf("cluster { name: hub }")).page("/varz")["cluster"] == {
            "name": "hub"
        }

    def test_operators(self) -> None:
        """Trusted operators are shown with their claims, in Go's order."""
        jwt = Operator().jwt()
        page = Stage(replace(Settings(), operator=OperatorMode(operators=(jwt,)))).page("/varz")
        assert page["trusted_operators_jwt"] == [jwt]
        [claims] = page["trusted_operators_claim"]
        assert list(claims)[-2:] == ["sub", "nats"]
        assert claims["nats"]["type"] == "operator"

    def test_certificate(self) -> None:
        """The expiry of the clients' certificate is shown if it has one."""
        stage = Stage()
        assert "tls_cert_not_after" not in stage.page("/varz")
        stage.model.varz.contributions["tls_cert_not_after"] = lambda: "2030-01-01T00:00:00Z"
        assert stage.page("/varz")["tls_cert_not_after"] == "2030-01-01T00:00:00Z"

    def test_absent(self) -> None:
        """A missing value is not shown."""
        page = Stage(Settings(no_system_account=True)).page("/varz")
        assert (
            not {"tags", "metadata", "system_account", "git_commit", "connect_urls"} & page.keys()
        )

    def test_time(self) -> None:
        """The uptime grows. A reload has its own time."""
        stage = Stage()
        stage.world.clock.advance(61.5)
        stage.model.reloaded(Settings(config_digest="sha256:2"))
        stage.world.clock.advance(1)
        page = stage.page("/varz")
        assert page["start"] == "2026-11-20T16:00:00Z"
        assert page["now"] == "2026-11-20T16:01:02.5Z"
        assert page["uptime"] == "1m2s"
        assert page["config_load_time"] == "2026-11-20T16:01:01.5Z"
        assert page["config_digest"] == "sha256:2"

    def test_process(self) -> None:
        """Memory is in bytes, processor time in percent."""
        page = Stage().page("/varz")
        assert (page["mem"], page["cores"], page["cpu"]) == (4096, 2, 0)

    def test_traffic(self) -> None:
        """The traffic of closed connections still counts."""
        stage = Stage()
        first = stage.client()
        first.ask(b"SUB foo 1\r\nPUB foo 3\r\nabc\r\n")
        first.transport.hangUp()
        stage.world.settle()
        stage.client().ask(b"PUB foo 2\r\nab\r\n")
        page = stage.page("/varz")
        assert (page["connections"], page["total_connections"]) == (1, 2)
        assert (page["in_msgs"], page["in_bytes"]) == (2, 5)
        assert (page["out_msgs"], page["out_bytes"]) == (1, 3)
        for way in ("in", "out"):
            for what in ("msgs", "bytes"):
                assert page[f"{way}_client_{what}"] == page[f"{way}_{what}"]

    def test_subscriptions(self) -> None:
        """The subscriptions of all accounts are counted in one step."""
        stage = Stage()
        stage.client("a@A").ask(b"SUB foo 1\r\nSUB bar 2\r\n")
        stage.client("b@B").ask(b"SUB foo 1\r\n")
        assert stage.page("/varz")["subscriptions"] == 3

    def test_troubles(self) -> None:
        """Slow consumers and stale connections are counted."""
        stage = Stage(limits=Settings(ping_interval=1.0, ping_max=1, max_pending=1_000))
        stage.client()
        slow = stage.client()
        slow.ask(b"SUB foo 1\r\n")
        slow.transport.taking = False
        publisher = stage.client()
        for _ in range(200):
            publisher.ask(b"PUB foo 900\r\n" + b"x" * 900 + b"\r\n")
        page = stage.page("/varz")
        assert page["slow_consumers"] == page["slow_consumer_stats"]["clients"] == 1
        stage.world.advance(10, 0.5)
        page = stage.page("/varz")
        assert page["stale_connections"] == page["stale_connection_stats"]["clients"] == 2
        assert page["connections"] == 0

    def test_requests(self) -> None:
        """Requests are counted by page, including the current one."""
        stage = Stage()
        stage.page("/varz")
        stage.page("/connz")
        stage.page("/subscriptionsz")
        stage.model.answer("/nope", {})
        stats = stage.page("/varz")["http_req_stats"]
        assert list(stats.items()) == [("/connz", 1), ("/subsz", 1), ("/varz", 2)]

    def test_contributions(self) -> None:
        """Other services fill in their own keys."""
        stage = Stage()
        before = stage.page("/varz")
        assert (before["cluster"], before["routes"]) == ({}, 0)
        stage.model.varz.contributions["cluster"] = lambda: {"name": "c"}
        stage.model.varz.contributions["routes"] = lambda: 3
        page = stage.page("/varz")
        assert (page["cluster"], page["routes"]) == ({"name": "c"}, 3)
        assert list(page) == list(before)

    def test_pauses(self) -> None:
        """Many connections are counted in steps."""
        stage = Stage()
        for _ in range(600):
            stage.world.dial()
        assert list(stage.model.varz.steps()) == [PAUSE] * 2
        assert complete(stage.model.varz.steps())["connections"] == 600
