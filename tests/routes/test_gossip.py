"""
News of members.
"""

from __future__ import annotations

import pytest

from natsbroker.routes.gossip import isConfigured, isNews, modeFor, reachable, targetFrom
from natsbroker.routes.terms import RouteTarget
from natsbroker.wire.serverinfo import GossipMode, ServerDocument
from tests.routes.clusters import Node, target


@pytest.mark.parametrize(
    "isDialled, isConfiguredRoute, gossip, said, news",
    [
        (False, False, GossipMode.DEFAULT, 0, True),
        (False, False, GossipMode.DEFAULT, 1, False),
        (False, False, GossipMode.DEFAULT, 2, True),
        (True, True, GossipMode.DEFAULT, 0, True),
        (True, False, GossipMode.DEFAULT, 0, False),
        (True, False, GossipMode.DISABLED, 0, False),
        (True, False, GossipMode.OVERRIDE, 0, True),
        (True, False, GossipMode.OVERRIDE, 1, False),
    ],
)
def test_isNews(
    isDialled: bool, isConfiguredRoute: bool, gossip: GossipMode, said: int, news: bool
) -> None:
    """Who was told tells nobody, unless it shall; nobody tells what shall not be told."""
    node = Node()
    wire = (
        node.dialling(isConfigured=isConfiguredRoute, gossip=gossip)
        if isDialled
        else node.accepted()
    )
    assert isNews(wire.route, ServerDocument(gossip_mode=said)) is news


def test_modeFor() -> None:
    """Every combination of who dialled whom, and why."""
    node = Node()
    accepted, other = node.accepted().route, node.accepted().route
    configured, discovered = node.dialling().route, node.dialling(isConfigured=False).route
    assert modeFor(accepted, other) is GossipMode.DISABLED
    assert modeFor(accepted, configured) is GossipMode.OVERRIDE
    assert modeFor(accepted, discovered) is GossipMode.DISABLED
    assert modeFor(configured, other) is GossipMode.OVERRIDE
    assert modeFor(discovered, other) is GossipMode.DEFAULT
    assert modeFor(discovered, configured) is GossipMode.DEFAULT


@pytest.mark.parametrize(
    "document, host, ip",
    [
        (ServerDocument(port=7), "10.0.0.1", "nats-route://10.0.0.1:7/"),
        (ServerDocument(port=7), "::1", "nats-route://[::1]:7/"),
        (ServerDocument(port=7, ip="nats-route://a:1/"), "10.0.0.1", "nats-route://a:1/"),
        (ServerDocument(port=7), "", ""),
    ],
)
def test_reachable(document: ServerDocument, host: str, ip: str) -> None:
    """A member is where its connection came from, unless it says otherwise."""
    assert reachable(document, host).ip == ip


def test_targetFrom() -> None:
    """Whom to dial because of a news."""
    document = ServerDocument(ip="nats-route://h:1/", gossip_mode=2, route_account="A")
    assert targetFrom(document, "u", "p", "n") == RouteTarget(
        "h", 1, "", "", False, "A", GossipMode.OVERRIDE, "n"
    )
    asking = ServerDocument(ip="nats-route://[::1]:1/", auth_required=True, gossip_mode=9)
    assert targetFrom(asking, "u", "p", "") == RouteTarget("::1", 1, "u", "p", False)


@pytest.mark.parametrize("ip", ["", "x", "nats-route://h", "nats-route://h:x/", "//:1"])
def test_nowhere(ip: str) -> None:
    """A news must say where."""
    with pytest.raises(ValueError):
        targetFrom(ServerDocument(ip=ip), "", "", "")


def test_isConfigured() -> None:
    """A member is recognised by either of its addresses."""
    targets = [target(1), RouteTarget("Seed.Example", 2)]
    assert isConfigured(ServerDocument(host="127.0.0.1", port=1), targets)
    assert isConfigured(ServerDocument(host="0.0.0.0", port=1, ip="x://127.0.0.1:1/"), targets)
    assert isConfigured(ServerDocument(host="seed.EXAMPLE", port=2), targets)
    assert not isConfigured(ServerDocument(host="127.0.0.1", port=2), targets)
    assert not isConfigured(ServerDocument(host="127.0.0.1", port=1), [])
