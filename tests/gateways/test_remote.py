"""
The addresses of another cluster.
"""

from __future__ import annotations

from random import Random
from typing import cast

from OpenSSL import SSL

from natsbroker.config.addresses import RemoteURL
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway, RemoteGateway
from natsbroker.gateways.remote import Remote
from natsbroker.gateways.terms import GatewayTerms
from natsbroker.links.tls import LinkTLS
from tests.gateways.gatewaypeers import remote

NO_CONTEXTS = cast(tuple[SSL.Context, SSL.Context], (None, None))


def test_places() -> None:
    """Configured addresses are kept, learned ones are replaced, and each address counts once."""
    peer = Remote("B", remote("B", 1, 2))
    assert not peer.isImplicit
    peer.update(["127.0.0.1:2", "127.0.0.1:3"])
    assert sorted(peer.addresses) == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
    peer.update(["nats://[::1]:4"])
    assert sorted(peer.addresses) == ["127.0.0.1:1", "127.0.0.1:2", "[::1]:4"]
    peer.update([])
    assert "[::1]:4" in peer.addresses
    peer.learn(["h:5", "nonsense"])
    assert len(peer.addresses) == 4


def test_settingsWin() -> None:
    """The configured user of an address is kept if a peer announces the same address."""
    peer = Remote("B", RemoteGateway("B", ("nats://u:p@127.0.0.1:1",)))
    peer.update(["127.0.0.1:1"])
    assert peer.targets == [RemoteURL("127.0.0.1", 1, "u", "p")]


def test_shuffled() -> None:
    """Addresses are tried in a random order."""
    peer = Remote("B", remote("B", *range(1, 9)))
    orders = {tuple(url.port for url in peer.shuffled(Random(seed))) for seed in range(5)}
    assert len(orders) > 1 and all(sorted(order) == list(range(1, 9)) for order in orders)


def test_certified() -> None:
    """
    A peer that is dialled by an IP address may have a certificate for a host name of its cluster.
    """
    peer = Remote("B", None)
    peer.learn(["127.0.0.1:1"])
    (address,) = peer.targets
    assert peer.certified(address) == "127.0.0.1"
    peer.learn(["b.example:1"])
    assert peer.certified(address) == "b.example"
    assert peer.certified(peer.targets[1]) == "b.example"


def test_tls() -> None:
    """A cluster known from gossip only is dialled with the TLS settings for all clusters."""
    ours, theirs = LinkTLS(*NO_CONTEXTS), LinkTLS(*NO_CONTEXTS)
    terms = GatewayTerms(Settings(), Gateway(name="A"), ours, {"C": theirs})
    assert Remote("B", None).tls(terms) is ours
    assert Remote("C", remote("C", 1)).tls(terms) is theirs
