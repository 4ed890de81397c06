"""
How this server introduces itself to others, and how they log in.
"""

from __future__ import annotations

import pytest

from natsbroker.config.model import Settings
from natsbroker.links.identity import LinkIdentity, identityAt, isLogin


def test_head() -> None:
    """Every INFO begins with who says it, and never with where others are to dial."""
    head = LinkIdentity("ID", "n1", "0.0.0.0", 6222, "nats-route://a:1/").head(7)
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


def test_identity() -> None:
    """A server without a name is called by its id."""
    identity = identityAt(Settings(), "ID", "h", 7, "h:7", "h:8")
    assert (identity.server_id, identity.server_name) == ("ID", "ID")
    assert (identity.host, identity.port) == ("h", 7)
    assert (identity.ip, identity.gateway_url) == ("h:7", "h:8")
    named = identityAt(Settings(server_name="n1"), "ID", "h", 7)
    assert isinstance(named, LinkIdentity) and named.server_name == "n1"
    assert (named.ip, named.gateway_url) == ("", "")
