"""
What is said of leafnodes.
"""

from __future__ import annotations

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import JetStream, Settings, TLSSettings
from natsbroker.leafnodes.settings import Leafnodes, RemoteLeaf
from natsbroker.leafnodes.terms import connectOptions, infoDocument
from natsbroker.routes.terms import LinkIdentity

IDENTITY = LinkIdentity("ID", "n", "h", 7422, "h:7422")


def test_info() -> None:
    """INFO says how leafnodes connect."""
    settings = Settings(leafnodes=Leafnodes(tls=TLSSettings()))
    said = infoDocument(IDENTITY, settings, "C1", client_id=4)
    assert (said["cluster"], said["client_id"], said["ip"]) == ("C1", 4, "h:7422")
    assert said["tls_required"] and not said["tls_verify"] and said["auth_required"]
    assert said["headers"] and said["max_payload"] == Settings().max_payload


def test_connect() -> None:
    """CONNECT says who we are and what we do not want."""
    url = RemoteURL("h", 1, "u", "p")
    remote = RemoteLeaf(("h:1",), hub=True, deny_imports=("x",), request_isolation=True)
    said = connectOptions(IDENTITY, Settings(), "C1", remote, url, "off")
    assert (said["user"], said["pass"], said["auth_token"]) == ("u", "p", "")
    assert said["is_hub"] and said["deny_pub"] == ["x"] and said["isolate"]
    assert (said["remote_account"], said["compress_mode"]) == ("$G", "off")


def test_domain() -> None:
    """The JetStream domain is said on both ends, if there is one."""
    settings = Settings(jetstream=JetStream(domain="hub"))
    remote, url = RemoteLeaf(("h:1",)), RemoteURL("h", 1)
    assert infoDocument(IDENTITY, settings, "C1")["domain"] == "hub"
    assert connectOptions(IDENTITY, settings, "C1", remote, url, "")["domain"] == "hub"
    assert not infoDocument(IDENTITY, Settings(), "C1")["domain"]
