"""
Clients use the JetStream of a nats-server on the other side of a leafnode connection.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.jetstreams import hasNoJetStream, storage, usesJetStream
from tests.interop.leafnodes.brokers import Broker
from tests.interop.servers import OURS_FAST, OURS_PURE, REAL, Flavour

ONE_OF_OURS = pytest.mark.parametrize(
    "flavour", [OURS_FAST, OURS_PURE], ids=lambda flavour: flavour.name
)

ACCOUNT = "J { users: [ {user: j, password: j} ], jetstream: enabled }"
PLAIN = "J { users: [ {user: j, password: j} ] }"


def remote(hub: Broker) -> str:
    """A remote block for another server."""
    url = f"nats-leaf://j:j@127.0.0.1:{hub.leafPort}"
    return f'remotes: [ {{url: "{url}", account: J}} ]'


@ONE_OF_OURS
def test_ofTheHub(flavour: Flavour, tmp_path: Path) -> None:
    """
    A client of our spoke reaches the hub's JetStream by the domain, or by a default domain, and not
    otherwise.
    """
    hub = Broker(REAL, tmp_path, "hub", top=storage("hub"), accounts=ACCOUNT).start()
    spoke = Broker(flavour, tmp_path, "spoke", remote(hub), False, accounts=PLAIN)
    other = Broker(
        flavour, tmp_path, "other", remote(hub), False, "default_js_domain { J: hub }", PLAIN
    )
    try:
        spoke.start()
        other.start()
        usesJetStream(spoke, "one", "j", "hub")
        usesJetStream(other, "two", "j")
        hasNoJetStream(spoke, "j")
        assert spoke.complaints() + other.complaints() == []
    finally:
        for server in (other, spoke, hub):
            server.stop()


@ONE_OF_OURS
def test_ofTheSpoke(flavour: Flavour, tmp_path: Path) -> None:
    """A client of our hub reaches the JetStream of its spoke by the domain only."""
    hub = Broker(flavour, tmp_path, "hub", accounts=PLAIN).start()
    spoke = Broker(REAL, tmp_path, "spoke", remote(hub), False, storage("leaf"), ACCOUNT)
    try:
        spoke.start()
        usesJetStream(hub, "one", "j", "leaf")
        hasNoJetStream(hub, "j")
        assert hub.complaints() == []
    finally:
        spoke.stop()
        hub.stop()
