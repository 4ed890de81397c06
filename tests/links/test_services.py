"""
All services of a broker for links.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock
from zope.interface import directlyProvides

from natsbroker.broker import Broker
from natsbroker.interfaces import IConnectionKind
from natsbroker.links.services import Links
from natsbroker.runtime.pluginoptions import PluginOptionError
from natsbroker.server.configuration.build import buildText
from tests.routes.brokers import Member
from tests.routes.clusters import info
from tests.server.support import Host

ALL = """
    server_name: n1, listen: "127.0.0.1:4222"
    cluster { name: C1, listen: "127.0.0.1:6222" }
    leafnodes { listen: "127.0.0.1:7422" }
    gateway { name: C1, listen: "127.0.0.1:7222" }
    websocket { listen: "127.0.0.1:8080", no_tls: true }
"""

NOWHERE: dict[str, list[str]] = {
    "cluster": [],
    "leafnodes": [],
    "gateway": [],
    "websocket": [],
    "mqtt": [],
}


def links(text: str) -> Links:
    """
    The links of a broker that has started.
    """
    registry: Links = Host(text).start().broker.links
    return registry


def test_brokerWithoutLinks() -> None:
    """A broker without links has no listener for them, and its INFO shows none."""
    registry = links('listen: "127.0.0.1:4222"')
    assert (
        list(registry) == [] and [registry.find(kind.name) for kind in registry.kinds] == [None] * 5
    )
    assert registry.addresses() == NOWHERE
    assert (registry.clientInfo(), registry.countPeers()) == ({}, 0)


def test_everyKindListens() -> None:
    """Each configured kind of link listens, and is logged."""
    registry = links(f'{ALL}\nmqtt {{ listen: "127.0.0.1:1883" }}')
    assert {name: len(urls) for name, urls in registry.addresses().items()} == {
        "cluster": 1,
        "leafnodes": 1,
        "gateway": 1,
        "websocket": 1,
        "mqtt": 1,
    }
    assert registry.clientInfo()["cluster"] == "C1"


def test_location() -> None:
    """Accounts get the name of this cluster, and those of connected clusters, nearest first."""
    broker = Host(ALL).start().broker
    account = broker.accounts["$G"]
    assert account.location() == ("C1", ())
    gateways: Any = broker.links.find("gateway").gateways
    for name, roundTrip in (("far", 0.2), ("near", 0.1)):
        link: Any = SimpleNamespace(roundTrip=roundTrip)
        gateways.outbound[name] = link
    assert account.location() == ("C1", ("near", "far"))
    alone = Host('server_name: n1, listen: "127.0.0.1:4222"').start().broker
    assert alone.accounts["$G"].location() == ("", ())


def test_hub() -> None:
    """Links of every kind use the poller."""
    registry = links(ALL)
    hub: Any = object()
    registry.usePoller(hub)
    assert [service.context.poller for service in registry] == [hub] * 4


def test_neighbours() -> None:
    """Each other member is counted once, however many connections it has."""
    member = Member("pool_size: 3").start()
    member.peer(server_id="P1", server_name="p1")
    member.peer(server_id="P2", server_name="p2").send(info(server_id="P2", server_name="p2"))
    assert member.broker.links.countPeers() == 2


@pytest.mark.parametrize("page", ["/routez", "/gatewayz", "/leafz"])
def test_onThePages(page: str) -> None:
    """The monitoring pages show all kinds of links."""
    broker = Host(ALL).start().broker
    assert page in broker.monitoring.pages
    assert broker.monitoring.varz.contributions["cluster"]()["name"] == "C1"


def test_stops() -> None:
    """New connections are refused when the broker stops."""
    host = Host(ALL).start()
    host.broker.stopService()
    host.settle()
    assert host.broker.links.addresses() == NOWHERE


def test_kindRefusesItsOptions() -> None:
    """
    An error in the options of a third party's kind has their position and the name of the kind.
    """
    kind: Any = SimpleNamespace(
        name="lines",
        key="lines",
        dialect="lines",
        page="",
        reloadError="",
        isConfigured=lambda settings: True,
        accounts=lambda settings: (),
        makePage=lambda state: None,
        contribute=lambda service, monitoring: None,
    )

    def makeService(host: Any, links: Any) -> Any:
        raise PluginOptionError("port", "port must be a number")

    kind.makeService = makeService
    directlyProvides(kind, IConnectionKind)
    settings = buildText("services { lines { port: x } }", {}, "x.conf").settings
    text = r'^x\.conf:1:20: services\.lines\.port: connection kind "lines": port must be a number$'
    with pytest.raises(ValueError, match=text):
        Broker(settings, reactor=MemoryReactorClock(), connectionKinds=[kind])
