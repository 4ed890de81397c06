"""
The settings of routes, and the INFO and CONNECT that follow from them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.config.model import Settings
from natsbroker.config.settings.routes import Cluster
from natsbroker.links.dialling import DialTerms
from natsbroker.links.identity import LinkIdentity, LinkLogin
from natsbroker.links.settingsmapper import backoffTerms
from natsbroker.routes.dialects import RouteDialect
from natsbroker.routes.terms import (
    ClusterTerms,
    RouteTarget,
    connectOptions,
    identityFrom,
    infoDocument,
    routeSettings,
    termsFrom,
)
from natsbroker.wire.compression import Compression
from natsbroker.wire.connect import infoLine
from natsbroker.wire.serverinfo import parseDocument
from tests.server.support import settingsOf

IDENTITY = LinkIdentity("ID", "n1", "0.0.0.0", 6222, "nats-route://a:1/")


def test_info() -> None:
    """INFO has nats-server's members, then those of natsbroker, and no password."""
    terms = ClusterTerms(
        "C1",
        login=LinkLogin("u", "canary"),
        shownPermissions={"import": {"allow": ["a"]}},
        hasTLS=True,
    )
    document = infoDocument(IDENTITY, terms, connect_urls=["h:1"], route_pool_idx=2)
    assert list(document)[-1] == "natsbroker"
    line = infoLine(document)
    assert b"canary" not in line
    parsed = parseDocument(line[5:])
    assert (parsed.ip, parsed.port, parsed.cluster) == ("nats-route://a:1/", 6222, "C1")
    assert parsed.auth_required and parsed.tls_required and parsed.tls_verify
    assert (parsed.route_pool_size, parsed.route_pool_idx) == (3, 2)
    assert parsed.permitImport == {"allow": ("a",)} and parsed.permitExport is None
    assert parsed.connect_urls == ("h:1",)


def test_noPool() -> None:
    """Without a pool, INFO has no members about one."""
    line = infoLine(infoDocument(IDENTITY, ClusterTerms("C1", poolSize=-1), route_pool_idx=0))
    assert b"route_pool" not in line


def test_classic() -> None:
    """In the classic dialect only the fields that old servers know, and our identity, are sent."""
    terms = ClusterTerms("C1", poolSize=-1, dialect=RouteDialect.CLASSIC, hasTLS=True)
    terms = replace(terms, login=LinkLogin("u"))
    document = infoDocument(IDENTITY, terms, connect_urls=["h:1"], route_pool_idx=0, ldm=True)
    parsed = parseDocument(infoLine(document)[5:])
    assert (parsed.proto, parsed.cluster, parsed.headers, parsed.lnoc) == (1, "", False, False)
    assert (parsed.server_id, parsed.port, parsed.ip) == ("ID", 6222, "nats-route://a:1/")
    assert parsed.auth_required and parsed.tls_required and parsed.raw["ssl_required"]
    assert parsed.connect_urls == ("h:1",) and parsed.ldm and "natsbroker" in parsed.raw
    options = connectOptions(IDENTITY, terms, RouteTarget("h", 1, "u", "p"))
    login = ["echo", "verbose", "pedantic", "user", "pass", "tls_required", "name"]
    assert list(options) == login


def test_auto() -> None:
    """INFO has C{classic} only if both dialects are spoken."""
    auto, modern = (
        infoDocument(IDENTITY, ClusterTerms("C1", dialect=dialect))
        for dialect in (RouteDialect.AUTO, RouteDialect.MODERN)
    )
    assert {**modern, "classic": True} == auto
    assert b'"classic"' not in infoLine(modern)


def test_connect() -> None:
    """CONNECT identifies this broker to the dialled peer."""
    options = connectOptions(IDENTITY, ClusterTerms("C1"), RouteTarget("h", 1, "u", "p"))
    assert (options["user"], options["pass"], options["name"]) == ("u", "p", "ID")
    assert options["verbose"] is options["pedantic"] is options["tls_required"] is False


def test_secrets() -> None:
    """The C{repr} of settings and targets shows no passwords."""
    assert "canary" not in repr(ClusterTerms("C1", user="u", password="canary"))
    assert "canary" not in repr(RouteTarget("h", 1, "u", "canary"))
    assert str(RouteTarget("h", 1)) == "h:1" and str(RouteTarget("::1", 1)) == "[::1]:1"


def test_forAccount() -> None:
    """A target for the connection of an account differs only in the account."""
    goal = RouteTarget("h", 1, "u", "p")
    assert goal.forAccount("A").account == "A"
    assert goal.forAccount("A").forAccount("") == goal


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
    """The terms of the broker's part in a cluster."""

    def test_allSettings(self) -> None:
        """The terms have the name, the permissions, and the targets with their logins."""
        settings = settingsOf(TEXT)
        terms = termsFrom(settings, blockOf(settings), "made-up")
        assert (terms.name, terms.isDynamic, terms.user, terms.password) == ("C1", False, "u", "p")
        assert terms.targets == (RouteTarget("h", 1, "u", "p"), RouteTarget("i", 2, "x", "y"))
        assert terms.dedicated == ("A", "SYS") and terms.poolSize == 3
        assert terms.permissions.mayImport(b"a.b") and not terms.permissions.mayImport(b"b")
        assert terms.shownPermissions == {"import": {"allow": ["a.>"]}, "export": {"deny": ["b"]}}
        assert terms.maxPayload == 5 and terms.advertises and terms.headers

    def test_hash(self) -> None:
        """If the password is stored as a hash, all routes use the password from a route's URL."""
        hashed = "$2a$11$" + 53 * "x"
        settings = settingsOf(
            f"cluster {{ listen: '127.0.0.1:1', authorization {{ user: u, password: '{hashed}' }}, "
            "routes: ['nats://h:1', 'nats://u:p@i:2'] }"
        )
        terms = termsFrom(settings, blockOf(settings), "")
        assert terms.login == LinkLogin("u", hashed) and (terms.user, terms.password) == ("u", "p")
        assert terms.targets == (RouteTarget("h", 1, "u", "p"), RouteTarget("i", 2, "u", "p"))

    def test_defaultSettings(self) -> None:
        """
        Without a configured name one is generated, and without a pool no account has its own
        connection.
        """
        settings = settingsOf('cluster { listen: "127.0.0.1:1", pool_size: -1 }')
        terms = termsFrom(settings, blockOf(settings), "made-up")
        assert (terms.name, terms.isDynamic) == ("made-up", True)
        assert terms.dedicated == () and terms.shownPermissions == {}

    @pytest.mark.parametrize(
        "dialect, size, dedicated",
        [("classic", -1, ()), ("auto", 3, ("$SYS",)), ("modern", 3, ("$SYS",))],
    )
    def test_dialects(self, dialect: str, size: int, dedicated: tuple[str, ...]) -> None:
        """In the classic dialect, there is one connection for all accounts."""
        settings = settingsOf(f'cluster {{ listen: "127.0.0.1:1", dialect: {dialect} }}')
        terms = termsFrom(settings, blockOf(settings), "")
        assert (terms.dialect.value, terms.poolSize, terms.dedicated) == (dialect, size, dedicated)

    @pytest.mark.parametrize(
        "more, mode",
        [("", "accept"), ("compression: best", "s2_best"), ("dialect: classic", "not supported")],
    )
    def test_compression(self, more: str, mode: str) -> None:
        """The mode of compression is that of the block, or off in the classic dialect."""
        settings = settingsOf(f'cluster {{ listen: "127.0.0.1:1", {more} }}')
        assert termsFrom(settings, blockOf(settings), "").compression == Compression(mode)

    def test_noSystemAccount(self) -> None:
        """Where there is no system account it needs no connection."""
        settings = settingsOf('no_system_account: true, cluster { listen: "127.0.0.1:1" }')
        assert termsFrom(settings, blockOf(settings), "").dedicated == ()


def test_identity() -> None:
    """The identity of this broker, and its addresses."""
    settings = settingsOf(TEXT)
    identity = identityFrom(settings, blockOf(settings), "ID", 6222)
    assert (identity.server_id, identity.server_name) == ("ID", "n1")
    assert (identity.host, identity.port, identity.ip) == ("127.0.0.1", 6222, "")
    settings = settingsOf('cluster { listen: "127.0.0.1:1", cluster_advertise: "pub:9" }')
    identity = identityFrom(settings, blockOf(settings), "ID", 1)
    assert (identity.host, identity.port, identity.ip) == ("pub", 9, "nats-route://pub:9/")
    assert identity.server_name == "ID"


def test_limits() -> None:
    """A limit that is not set for routes is that of clients, up to a maximum."""
    settings = settingsOf(TEXT)
    limits = routeSettings(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max, limits.max_pending) == (10.0, 7, 1000)
    assert (limits.authorization.timeout, limits.max_payload) == (2.0, 64 << 20)
    settings = settingsOf('cluster { listen: "127.0.0.1:1", ping_interval: "90s", ping_max: 1 }')
    limits = routeSettings(settings, blockOf(settings))
    assert (limits.ping_interval, limits.ping_max) == (30.0, 1)


def test_dialling() -> None:
    """A configured member is dialled until it answers."""
    cluster = Cluster(connect_retries=4, connect_backoff=True)
    assert backoffTerms(Settings(), cluster, True) == DialTerms(longest=30.0, retries=-1)
    assert backoffTerms(Settings(), cluster, False) == DialTerms(longest=30.0, retries=4)
    assert backoffTerms(Settings(), Cluster(), False) == DialTerms(retries=0)
