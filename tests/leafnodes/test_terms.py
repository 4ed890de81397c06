"""
What is said of leafnodes.
"""

from __future__ import annotations

from natsbroker.leafnodes.terms import (
    LeafRemoteTerms,
    LeafTerms,
    LeafURL,
    connectOptions,
    infoDocument,
)
from natsbroker.routes.terms import LinkIdentity

IDENTITY = LinkIdentity("ID", "n", "2.15.1", "0.1", "h", 7422, "h:7422")


def test_info() -> None:
    """INFO says how leafnodes connect."""
    said = infoDocument(IDENTITY, LeafTerms(hasTLS=True), "C1", client_id=4)
    assert (said["cluster"], said["client_id"], said["ip"]) == ("C1", 4, "h:7422")
    assert said["tls_required"] and not said["tls_verify"] and said["auth_required"]


def test_connect() -> None:
    """CONNECT says who we are and what we do not want."""
    url = LeafURL("h", 1, "u", "p")
    remote = LeafRemoteTerms((url,), "A", isHub=True, denyImports=(b"x",), wantsIsolation=True)
    said = connectOptions(IDENTITY, LeafTerms(), "C1", remote, url)
    assert (said["user"], said["pass"], said["auth_token"]) == ("u", "p", "")
    assert said["is_hub"] and said["deny_pub"] == ["x"] and said["isolate"]


def test_domain() -> None:
    """The JetStream domain is said on both ends, if there is one."""
    terms = LeafTerms(domain="hub")
    remote, url = LeafRemoteTerms((), "A"), LeafURL("h", 1)
    assert infoDocument(IDENTITY, terms, "C1")["domain"] == "hub"
    assert connectOptions(IDENTITY, terms, "C1", remote, url)["domain"] == "hub"
    assert not infoDocument(IDENTITY, LeafTerms(), "C1")["domain"]


def test_secrets() -> None:
    """No password shows."""
    url = LeafURL("::1", 1, "u", "p4ss")
    assert "p4ss" not in repr(LeafRemoteTerms((url,), "A")) and str(url) == "[::1]:1"


def test_version() -> None:
    """A least version has a text."""
    assert LeafTerms(minVersion=(2, 10, 1)).minVersionText == "2.10.1"
    assert LeafTerms().minVersionText == ""
