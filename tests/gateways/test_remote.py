"""
Where another cluster is.
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
    """What the settings say stays, what others say is replaced, and each place counts once."""
    found = Remote("B", remote("B", 1, 2))
    assert not found.isImplicit
    found.update(["127.0.0.1:2", "127.0.0.1:3"])
    assert sorted(found.addresses) == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
    found.update(["nats://[::1]:4"])
    assert sorted(found.addresses) == ["127.0.0.1:1", "127.0.0.1:2", "[::1]:4"]
    found.update([])
    assert "[::1]:4" in found.addresses
    found.learn(["h:5", "nonsense"])
    assert len(found.addresses) == 4


def test_settingsWin() -> None:
    """The user that the settings name for a place is not lost because a peer names the place."""
    found = Remote("B", RemoteGateway("B", ("nats://u:p@127.0.0.1:1",)))
    found.update(["127.0.0.1:1"])
    assert found.targets == [RemoteURL("127.0.0.1", 1, "u", "p")]


def test_shuffled() -> None:
    """Places are tried in any order."""
    found = Remote("B", remote("B", *range(1, 9)))
    orders = {tuple(each.port for each in found.shuffled(Random(seed))) for seed in range(5)}
    assert len(orders) > 1 and all(sorted(order) == list(range(1, 9)) for order in orders)


def test_certified() -> None:
    """Who is dialled by an address may have a certificate for a name of that cluster."""
    found = Remote("B", None)
    found.learn(["127.0.0.1:1"])
    (address,) = found.targets
    assert found.certified(address) == "127.0.0.1"
    found.learn(["b.example:1"])
    assert found.certified(address) == "b.example"
    assert found.certified(found.targets[1]) == "b.example"


def test_tls() -> None:
    """A cluster that only others named is dialled as our settings say for all."""
    ours, theirs = LinkTLS(*NO_CONTEXTS), LinkTLS(*NO_CONTEXTS)
    terms = GatewayTerms(Settings(), Gateway(name="A"), ours, {"C": theirs})
    assert Remote("B", None).tls(terms) is ours
    assert Remote("C", remote("C", 1)).tls(terms) is theirs
