"""
INFO and the addresses of a broker without sockets.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from natsbroker import NATS_VERSION, __version__
from natsbroker.config.model import Settings
from natsbroker.server.info import ServerInfoPublisher, infoFrom
from tests.server.support import Host, settingsOf


class Scene:
    """The publisher of a broker's INFO, with prepared listeners, pages and links."""

    def __init__(self) -> None:
        self.host = Host("port: 4000, http_port: 8000").start()
        self.broker = self.host.broker
        self.listeners = SimpleNamespace(
            isOpen=False, firstAddress=lambda: ("10.0.0.1", 4711), urls=lambda: ["nats://a:1"]
        )
        self.pages = SimpleNamespace(scheme="http", address=None)
        self.cluster: dict[str, Any] = {}
        self.links = SimpleNamespace(
            clientInfo=lambda: self.cluster, addresses=lambda: {"cluster": ["nats://b:2"]}
        )

    def presence(self, pages: Any) -> ServerInfoPublisher:
        """The publisher of INFO."""
        parts: Any = (self.listeners, pages, self.links)
        return ServerInfoPublisher(self.broker.keys, self.broker.clientContext, *parts)


@pytest.fixture
def scene() -> Scene:
    """A scene."""
    return Scene()


def test_ports(scene: Scene) -> None:
    """Ports are those of the settings, until listeners have other ones."""
    settings = scene.broker.settings
    presence = scene.presence(scene.pages)
    assert presence.inUse(settings) == settings
    scene.listeners.isOpen = True
    scene.pages.address = SimpleNamespace(host="127.0.0.1", port=8222)
    names = presence.inUse(settings)
    assert (names.port, names.monitoring.http_port) == (4711, 8222)
    scene.pages.scheme = "https"
    names = presence.inUse(settings)
    assert (names.monitoring.http_port, names.monitoring.https_port) == (8000, 8222)
    assert scene.presence(None).inUse(settings).monitoring == settings.monitoring


def test_addresses(scene: Scene) -> None:
    """Addresses are listed by the name of the listener."""
    nowhere = {"nats": ["nats://a:1"], "monitoring": [], "cluster": ["nats://b:2"]}
    assert scene.presence(None).addresses() == nowhere
    assert scene.presence(scene.pages).addresses() == nowhere
    scene.pages.address = SimpleNamespace(host="127.0.0.1", port=8222)
    addresses = scene.presence(scene.pages).addresses()
    assert addresses == {**nowhere, "monitoring": ["http://127.0.0.1:8222"]}


def test_info(scene: Scene) -> None:
    """
    INFO has the address for clients, the name of the cluster, and whether the broker is in lame
    duck mode.
    """
    presence, context = scene.presence(None), scene.broker.clientContext
    scene.cluster = {"cluster": "east"}
    presence.refresh(Settings(host="0.0.0.0", port=4000), True)
    info = context.info
    assert (info.host, info.port, info.ldm, info.cluster) == ("0.0.0.0", 4000, True, "east")
    scene.listeners.isOpen = True
    presence.refresh(Settings(host="0.0.0.0", port=4000), False)
    info = context.info
    assert (info.host, info.port, info.ldm) == ("10.0.0.1", 4711, False)


def test_clusterChanged(scene: Scene) -> None:
    """Clients receive INFO when the cluster changes, and only then."""
    presence = scene.presence(None)
    client = scene.host.client(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
    scene.cluster = {"connect_urls": ("10.0.0.9:4222",)}
    presence.clusterChanged()
    assert b'"connect_urls":["10.0.0.9:4222"]' in client.receive()
    presence.clusterChanged()
    assert client.receive() == b""


class TestInfo:
    """INFO."""

    def test_versions(self) -> None:
        """The version is nats-server's, with our own beside it."""
        info = infoFrom(settingsOf("port: 4222"), "ID", "127.0.0.1", 4222, False)
        assert (info.version, info.natsbroker) == (NATS_VERSION, __version__)

    def test_serverName(self) -> None:
        """C{server_name} is the id of the server, unless the settings have a name."""
        assert infoFrom(settingsOf("port: 1"), "ID", "h", 1, False).server_name == "ID"
        named = infoFrom(settingsOf("server_name: n"), "ID", "h", 1, False)
        assert (named.server_id, named.server_name) == ("ID", "n")

    @pytest.mark.parametrize(
        ("advertise", "host", "port"),
        [
            ("", "127.0.0.1", 4000),
            ("example.com", "example.com", 4000),
            ("example.com:99", "example.com", 99),
            ("[::1]:99", "::1", 99),
            ("[::1]", "::1", 4000),
        ],
    )
    def test_address(self, advertise: str, host: str, port: int) -> None:
        """INFO has the address of the listener, or C{client_advertise}."""
        settings = settingsOf(f'client_advertise: "{advertise}"')
        info = infoFrom(settings, "ID", "127.0.0.1", 4000, False)
        assert (info.host, info.port) == (host, port)

    def test_authorization(self) -> None:
        """INFO states whether a login is required."""
        assert infoFrom(settingsOf("port: 1"), "ID", "h", 1, True).auth_required

    def test_exports(self) -> None:
        """INFO has the version of export frames if there are streams or channels."""
        assert infoFrom(settingsOf("port: 1"), "NID", "h", 1, False).nb_export == 0
        for text in ("streaming {}", "jetstream {}"):
            assert infoFrom(settingsOf(text), "NID", "h", 1, False).nb_export == 1
