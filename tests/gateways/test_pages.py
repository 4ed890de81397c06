"""
What the monitoring pages tell of gateways; key sets are held against nats-server's elsewhere.
"""

from __future__ import annotations

from natsbroker.config.model import TLSSettings
from natsbroker.gateways.pages import GatewayPages, LinkPage
from natsbroker.gateways.settings import Gateway
from tests.gateways.gatewaypeers import Joined, remote
from tests.monitoring.staging import Stage


def test_link() -> None:
    """A connection that we dialled knows what is wanted over there."""
    node = Joined("A", 1, [remote("B", 7777)])
    page = LinkPage(node.reached("B").link, 7)
    assert page.isConfigured and page.switchAfter == 7
    assert page.countInterest() == 3 and page.peerId == "PEER"
    assert list(page.interests("A")) == [(b"foo", b"")] and "A" in page.accounts()


def test_otherLink() -> None:
    """One that others dialled knows nothing of that; one that is not agreed on knows nothing."""
    node = Joined()
    page = LinkPage(node.arrived().link, 7)
    assert not page.isConfigured and page.countInterest() == 0
    assert list(page.interests("A")) == [] and "A" in page.accounts()
    page = LinkPage(node.dialling("C").link, 7)
    assert page.accounts() == {} and list(page.interests("A")) == [] and page.peerId == ""


def test_pages() -> None:
    """All connections are there, under the names of the clusters."""
    node = Joined("A", 1)
    node.reached("B"), node.arrived(gateway="C", server_name="c")
    pages = GatewayPages(node.gateways, 7)
    assert (pages.name, pages.host, pages.port) == ("A", "127.0.0.1", 1)
    assert [name for name, _ in pages.outbound()] == ["B"]
    assert [name for name, _ in pages.inbound()] == ["C"]


def test_varz() -> None:
    """The settings, with the places of other clusters as they are known by now."""
    node = Joined(
        "A",
        5,
        [remote("A", 1), remote("B", 6)],
        block=Gateway(
            "A",
            "127.0.0.1",
            -1,
            user="u",
            password="canary",
            tls=TLSSettings(timeout=3.0),
            reject_unknown_cluster=True,
        ),
    )
    node.gateways.learned("B", ["127.0.0.1:7"])
    pages = GatewayPages(node.gateways, 7)
    assert pages.varz() == {
        "name": "A",
        "host": "127.0.0.1",
        "port": 5,
        "auth_timeout": 4,
        "tls_timeout": 3,
        "tls_required": True,
        "tls_verify": True,
        "gateways": [
            {"name": "A", "urls": ["127.0.0.1:5"]},
            {"name": "B", "urls": ["127.0.0.1:7", "127.0.0.1:6"]},
        ],
        "reject_unknown": True,
    }


def test_shown() -> None:
    """The pages have it, and what becomes of connections."""
    node = Joined()
    stage = Stage()
    GatewayPages(node.gateways, 7).contribute(stage.model)
    node.gateways.ended["Stale Connection"] += 2
    assert stage.page("/gatewayz")["name"] == "A"
    page = stage.page("/varz")
    assert page["gateway"]["tls_timeout"] == 2
    assert page["stale_connection_stats"]["gateways"] == 2
