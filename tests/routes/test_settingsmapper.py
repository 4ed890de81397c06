"""
What the settings say of the cluster, as the network layer wants it.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import Settings
from natsbroker.links.compression import Compression
from natsbroker.links.dialling import DialTerms
from natsbroker.links.settingsmapper import backoffTerms
from natsbroker.routes.settings import Cluster
from natsbroker.routes.settingsmapper import (
    identityFrom,
    linkLimitsFrom,
    termsFrom,
)
from natsbroker.routes.terms import RouteTarget
from tests.server.support import settingsOf

TEXT = """
    server_name: n1, max_payload: 5, ping_interval: "10s", ping_max: 7, max_pending: 1000
    accounts { A {}, SYS {} }, system_account: SYS
    cluster {
        name: C1, listen: "127.0.0.1:6222", accounts: [A]
        authorization { user: u, password: p }
        permissions { import: "a.>", export: { deny: b } }
        routes: ["nats-route://h:1", "nats-route://x:y@i:2"]
    }
"""


def blockOf(settings: Settings) -> Cluster:
    """The cluster block."""
    assert settings.cluster is not None
    return settings.cluster


class TestTerms:
    """How the broker takes part."""

    def test_everything(self) -> None:
        """Names, permissions, and the targets with their credentials."""
        settings = settingsOf(TEXT)
        terms = termsFrom(settings, blockOf(settings), "made-up")
        assert (terms.name, terms.isDynamic, terms.user, terms.password) == ("C1", False, "u", "p")
        assert terms.targets == (RouteTarget("h", 1, "u", "p"), RouteTarget("i", 2, "x", "y"))
        assert terms.dedicated == ("A", "SYS") and terms.poolSize == 3
        assert terms.permissions.mayTell(b"a.b") and not terms.permissions.mayTell(b"b")
        assert terms.shownPermissions == {"import": {"allow": ["a.>"]}, "export": {"deny": ["b"]}}
        assert terms.maxPayload == 5 and terms.advertises and terms.headers

    def test_least(self) -> None:
        """A name is made up, and without a pool nobody has a connection of its own."""
        settings = settingsOf('cluster { listen: "127.0.0.1:1", pool_size: -1 }')
        terms = termsFrom(settings, blockOf(settings), "made-up")
        assert (terms.name, terms.isDynamic) == ("made-up", True)
        assert terms.dedicated == () and terms.shownPermissions == {}

    @pytest.mark.parametrize(
        "dialect, size, dedicated",
        [("classic", -1, ()), ("auto", 3, ("$SYS",)), ("modern", 3, ("$SYS",))],
    )
    def test_dialects(self, dialect: str, size: int, dedicated: tuple[str, ...]) -> None:
        """In the classic dialect there is one connection for everything."""
        settings = settingsOf(f'cluster {{ listen: "127.0.0.1:1", dialect: {dialect} }}')
        terms = termsFrom(settings, blockOf(settings), "")
        assert (terms.dialect.value, terms.poolSize, terms.dedicated) == (dialect, size, dedicated)

    @pytest.mark.parametrize(
        "more, mode",
        [("", "accept"), ("compression: best", "s2_best"), ("dialect: classic", "not supported")],
    )
    def test_compression(self, more: str, mode: str) -> None:
        """It is that of the block; the classic dialect has none."""
        settings = settingsOf(f'cluster {{ listen: "127.0.0.1:1", {more} }}')
        assert termsFrom(settings, blockOf(settings), "").compression == Compression(mode)

    def test_noSystemAccount(self) -> None:
        """Where there is no system account it needs no connection."""
        settings = settingsOf('no_system_account: true, cluster { listen: "127.0.0.1:1" }')
        assert termsFrom(settings, blockOf(settings), "").dedicated == ()


def test_identity() -> None:
    """Who we are, and where we are found."""
    settings = settingsOf(TEXT)
    identity = identityFrom(settings, blockOf(settings), "ID", 6222)
    assert (identity.server_id, identity.server_name) == ("ID", "n1")
    assert (identity.host, identity.port, identity.ip) == ("127.0.0.1", 6222, "")
    settings = settingsOf('cluster { listen: "127.0.0.1:1", cluster_advertise: "pub:9" }')
    identity = identityFrom(settings, blockOf(settings), "ID", 1)
    assert (identity.host, identity.port, identity.ip) == ("pub", 9, "nats-route://pub:9/")
    assert identity.server_name == "ID"


def test_limits() -> None:
    """What is not said of routes is as for clients, within bounds."""
    settings = settingsOf(TEXT)
    limits = linkLimitsFrom(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max, limits.max_pending) == (10.0, 7, 1000)
    assert (limits.handshake, limits.max_payload) == (2.0, 64 << 20)
    settings = settingsOf('cluster { listen: "127.0.0.1:1", ping_interval: "90s", ping_max: 1 }')
    limits = linkLimitsFrom(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max) == (30.0, 1)


def test_dialling() -> None:
    """A configured member is dialled until it answers."""
    cluster = Cluster(connect_retries=4, connect_backoff=True)
    assert backoffTerms(Settings(), cluster, True) == DialTerms(longest=30.0, retries=-1)
    assert backoffTerms(Settings(), cluster, False) == DialTerms(longest=30.0, retries=4)
    assert backoffTerms(Settings(), Cluster(), False) == DialTerms(retries=0)
