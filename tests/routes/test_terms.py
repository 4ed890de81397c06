"""
The settings of routes, and the INFO and CONNECT that follow from them.
"""

from __future__ import annotations

import pytest

from natsbroker.routes.dialects import RouteDialect
from natsbroker.routes.terms import (
    ClusterTerms,
    LinkIdentity,
    RouteTarget,
    connectOptions,
    infoDocument,
    isLogin,
)
from natsbroker.wire.serverinfo import infoLine, parseDocument

IDENTITY = LinkIdentity("ID", "n1", "0.0.0.0", 6222, "nats-route://a:1/")


def test_info() -> None:
    """INFO has nats-server's members, in its order, and ours at the end."""
    terms = ClusterTerms(
        "C1",
        user="u",
        password="canary",
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


def test_head() -> None:
    """Every INFO begins with who says it, and never with where others are to dial."""
    head = IDENTITY.head(7)
    assert list(head) == ["server_id", "server_name", "version", "proto", "go", "host", "port"]
    assert list(head.values()) == ["ID", "n1", "2.15.1", 7, "", "0.0.0.0", 6222]


@pytest.mark.parametrize(
    "user, password, isRight",
    [
        ("u", "p", True),
        ("u", "", False),
        ("", "p", False),
        ("u", "P", False),
        ("ü", "p", False),
        ("\ud800", "\udc80", False),
    ],
)
def test_login(user: str, password: str, isRight: bool) -> None:
    """Both must be right where something is wanted, and nothing where nothing is."""
    assert isLogin(("u", "p"), user, password) is isRight
    assert isLogin(("", ""), user, password)


def test_noPool() -> None:
    """Without a pool nothing is said of it, as by old servers."""
    line = infoLine(infoDocument(IDENTITY, ClusterTerms("C1", poolSize=-1), route_pool_idx=0))
    assert b"route_pool" not in line


def test_classic() -> None:
    """In the classic dialect nothing is said but what old servers know, and who we are."""
    terms = ClusterTerms("C1", poolSize=-1, dialect=RouteDialect.CLASSIC, hasTLS=True, user="u")
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
    """Who speaks both dialects says so, and else what the modern one says."""
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
    """Passwords are in nobody's text."""
    assert "canary" not in repr(ClusterTerms("C1", user="u", password="canary"))
    assert "canary" not in repr(RouteTarget("h", 1, "u", "canary"))
    assert str(RouteTarget("h", 1)) == "h:1" and str(RouteTarget("::1", 1)) == "[::1]:1"


def test_forAccount() -> None:
    """The same place, for an account's own connection."""
    goal = RouteTarget("h", 1, "u", "p")
    assert goal.forAccount("A").account == "A"
    assert goal.forAccount("A").forAccount("") == goal
