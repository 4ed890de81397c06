"""
Tests for L{natsbroker.websocket.context}.
"""

from __future__ import annotations

from dataclasses import replace

from natsbroker.config.model import changed
from natsbroker.config.settings.websocket import Websocket
from natsbroker.config.tls import TLSSettings
from natsbroker.interfaces import IAuthorizer
from natsbroker.websocket.context import WebSocketClients
from tests.support import Doorkeeper, World


def test_limits() -> None:
    """The block's own timeout and interval are in force; other limits are those of all clients."""
    world = World()
    general = world.context.settings
    clients = WebSocketClients(world.context, Websocket(), lambda: None)
    context = clients.context
    assert context.settings == general
    clients.block = Websocket(timeout=7.0, ping_interval=8.0)
    expected = changed(replace(general, ping_interval=8.0), "authorization.timeout", 7.0)
    assert context.settings == expected
    assert context.settings is context.settings
    world.context.settings = replace(general, max_payload=3)
    assert context.settings.max_payload == 3
    assert context.connections is world.context.connections


def test_authorizer() -> None:
    """The authorizer is made again when that of all clients changes."""
    world = World()
    made: list[IAuthorizer] = []

    def make() -> IAuthorizer:
        made.append(Doorkeeper())
        return made[-1]

    clients = WebSocketClients(world.context, Websocket(user="u"), make)
    context = clients.context
    assert context.authorizer is context.authorizer is made[0]
    world.context.authorizer = Doorkeeper()
    assert context.authorizer is made[1]
    assert len(made) == 2


def test_sameAuthorizer() -> None:
    """If the block has no logins, the authorizer of all clients decides."""
    world = World()
    clients = WebSocketClients(world.context, Websocket(), lambda: None)
    context = clients.context
    assert context.authorizer is world.context.authorizer


def test_info() -> None:
    """INFO has the listener's address, its TLS, and the addresses for WebSocket."""
    world = World()
    world.context.info = world.context.info.changed(
        connect_urls=("a:1",), ws_connect_urls=("b:2",), ldm=True
    )
    clients = WebSocketClients(world.context, Websocket(tls=TLSSettings()), lambda: None)
    context = clients.context
    clients.port = 9
    info = context.info
    assert (info.host, info.port, info.connect_urls, info.ldm) == ("0.0.0.0", 9, ("b:2",), True)
    assert info.tls_required
    assert info.tls_available
    assert not info.auth_required
    clients.block = Websocket(no_auth_user="u")
    assert context.info.auth_required
    line = info.line(1, "127.0.0.1")
    assert b'"connect_urls":["b:2"]' in line
    assert b"ws_connect_urls" not in line


def test_sameInfo() -> None:
    """All clients share the lines of one INFO until it changes."""
    world = World()
    clients = WebSocketClients(world.context, Websocket(), lambda: None)
    context = clients.context
    first = context.info
    assert context.info is first
    clients.port = 7
    assert context.info.port == 7
    world.context.info = world.context.info.changed(ldm=True)
    assert context.info.ldm
    clients.block = Websocket(host="::1")
    assert context.info.host == "::1"
