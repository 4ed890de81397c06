"""
The identity of this server in INFO, and logins of peers.
"""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Cluster, Settings, TLSSettings
from natsbroker.links.identity import LinkIdentity, LinkLogin, identityAt, loginFor, loginToSay
from tests.auth.certificates import certificate
from tests.auth.hashes import blowfish

#: The hash of "bar".
BAR = blowfish("bar")

CHECKS = PasswordChecks(maybeDeferred)


def test_head() -> None:
    """Every INFO begins with the identity of its sender, and has no address for other peers."""
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
    """If a login is configured, user and password must be right. Otherwise both must be empty."""
    assert LinkLogin("u", "p").admits(CHECKS, user, password, None) is isRight
    assert LinkLogin().admits(CHECKS, user, password, None) is True


@pytest.mark.parametrize("password, isRight", [("bar", True), ("baz", False), (BAR, False)])
@pytest.mark.parametrize("user, isUser", [("u", True), ("v", False)])
def test_hash(user: str, isUser: bool, password: str, isRight: bool) -> None:
    """A hashed password is compared with its hash, and the hash itself is not accepted."""
    answer = LinkLogin("u", BAR).admits(CHECKS, user, password, None)
    assert isinstance(answer, Deferred)
    results: list[bool] = []
    answer.addCallback(results.append)
    assert results == [isUser and isRight]


def test_mapped() -> None:
    """A certificate names the user, and the user and password of CONNECT are ignored."""
    shown = certificate(names=["a.example.com", "b.example.com"])
    login = LinkLogin("b.example.com", "p", True)
    assert login.admits(CHECKS, "", "", shown) is True
    assert login.admits(CHECKS, "b.example.com", "p", None) is False
    assert login.admits(CHECKS, "b.example.com", "p", certificate(names=["c.example.com"])) is False
    assert LinkLogin("", "", True).admits(CHECKS, "", "", shown) is False
    assert LinkLogin().isOpen and not LinkLogin("", "", True).isOpen


def test_known() -> None:
    """The certificate names a host of the configured URLs, or the user if it may."""
    shown = certificate("CN=u", names=["a.example.com"])
    urls = [RemoteURL("h", 1), RemoteURL("A.example.com", 2)]
    tls = TLSSettings(verify_cert_and_check_known_urls=True)
    login = loginFor(Cluster(user="u", password="p", tls=tls), urls)
    assert login.admits(CHECKS, "", "", shown) is True
    assert login.admits(CHECKS, "u", "p", None) is False
    assert login.admits(CHECKS, "u", "p", certificate("CN=u", names=["u"])) is False
    assert not loginFor(Cluster(tls=tls), []).isOpen
    assert loginFor(Cluster(tls=tls), []).admits(CHECKS, "", "", shown) is False
    both = TLSSettings(verify_and_map=True, verify_cert_and_check_known_urls=True)
    login = loginFor(Cluster(user="u", tls=both), urls)
    assert login.admits(CHECKS, "", "", shown) is True
    assert login.admits(CHECKS, "", "", certificate(names=["u"])) is True
    assert login.admits(CHECKS, "", "", certificate(names=["v"])) is False
    assert loginFor(Cluster(user="u", tls=TLSSettings()), urls) == LinkLogin("u")


def test_toSay() -> None:
    """A hashed password cannot be sent to peers, but the URL of a peer may have the password."""
    urls = [RemoteURL("h", 1), RemoteURL("h", 2, "v", "q"), RemoteURL("h", 3, "w", "r")]
    assert loginToSay("u", "p", urls) == ("u", "p")
    assert loginToSay("u", BAR, urls) == ("v", "q")
    assert loginToSay("u", BAR, urls[:1]) == ("u", "")


def test_identity() -> None:
    """The name of a server without a name is its id."""
    identity = identityAt(Settings(), "ID", "h", 7, "h:7", "h:8")
    assert (identity.server_id, identity.server_name) == ("ID", "ID")
    assert (identity.host, identity.port) == ("h", 7)
    assert (identity.ip, identity.gateway_url) == ("h:7", "h:8")
    named = identityAt(Settings(server_name="n1"), "ID", "h", 7)
    assert isinstance(named, LinkIdentity) and named.server_name == "n1"
    assert (named.ip, named.gateway_url) == ("", "")
