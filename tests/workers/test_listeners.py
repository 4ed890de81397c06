"""The listeners of the parent, at ports in memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from natsbroker.config.model import Settings
from natsbroker.runtime.reload import ReloadError
from natsbroker.workers.messages import (
    Adopt,
    Closed,
    ReloadPlanned,
)
from natsbroker.workers.supervisor import Supervisor
from tests.server.support import logLines, settingsOf
from tests.workers.support import CHOSEN, World

SOCKETS = "websocket { listen: '127.0.0.1:-1', no_tls: true }\n"


def renewed(text: str) -> Settings:
    """The settings of a file for the same server."""
    return replace(settingsOf(f'listen: "127.0.0.1:4333"\n{text}'), workers=2)


@pytest.fixture
def world() -> Iterator[World]:
    """A server with WebSockets, whose workers are ready."""
    made = World(SOCKETS).start()
    try:
        yield made
    finally:
        made.close()


class TestOpen:
    def test_addresses(self, world: World) -> None:
        """
        Workers get the addresses of all ports in their settings, including a port that the kernel
        chose.
        """
        for process in world.started:
            start = process.said[0]
            assert start.addresses == {
                "client": ("127.0.0.1", 4333),
                "websocket": ("127.0.0.1", CHOSEN),
            }
            assert start.settings.websocket.port == CHOSEN
        assert [process.said[0].announces for process in world.started] == [True, False]

    def test_urls(self, world: World) -> None:
        """Each address is announced once, whatever the workers report."""
        world.supervisor.slots[0].addresses = {"websocket": ["ws://127.0.0.1:1"], "cluster": []}
        assert world.supervisor.addresses() == {
            "nats": ["nats://127.0.0.1:4333"],
            "websocket": [f"ws://127.0.0.1:{CHOSEN}"],
            "cluster": [],
        }

    def test_accepted(self, world: World) -> None:
        """A connection goes to a worker with the listener's name, and counts until it ends."""
        client = world.reactor.ports[1].accept()
        [(process, message)] = [
            (process, message)
            for process in world.started
            for message in process.read()
            if isinstance(message, Adopt)
        ]
        assert message.listener == "websocket"
        counts = [len(slot.connections) for slot in world.supervisor.slots]
        assert sorted(counts) == [0, 1]
        world.say(process, Closed(message.cid))
        assert not any(slot.connections for slot in world.supervisor.slots)
        client.close()

    def test_servers(self) -> None:
        """
        Other servers find no listener before the workers are ready, whose settings have its port
        already.
        """
        world = World("leafnodes { listen: '127.0.0.1:7422' }\n")
        world.supervisor.startService()
        assert [port.getHost().port for port in world.reactor.ports] == [4333]
        for process in world.started:
            world.ready(process)
            assert process.said[0].addresses["leafnodes"] == ("127.0.0.1", 7422)
        assert [port.getHost().port for port in world.reactor.ports] == [4333, 7422]
        assert world.reactor.ports[1].isReading
        world.close()

    def test_noneReady(self, world: World) -> None:
        """All ports stop accepting while there is no worker, and are closed at the end."""
        with logLines():
            for process in world.started:
                process.end("signal 9")
        assert [port.isReading for port in world.reactor.ports] == [False, False]
        world.close()
        assert all(port.disconnected for port in world.reactor.ports)


class TestReload:
    def test_same(self, world: World) -> None:
        """After a reload, a port that the kernel chose stays the same, also for later workers."""
        world.supervisor.reload(renewed(SOCKETS + "max_payload: 100"))
        for process in world.started:
            assert process.read()[0].settings.websocket.port == CHOSEN
            world.say(process, ReloadPlanned())
        with logLines():
            world.started[0].end("signal 9")
        world.reactor.advance(1)
        [start] = world.started[2].read()
        assert (start.settings.websocket.port, start.settings.max_payload) == (CHOSEN, 100)

    @pytest.mark.parametrize(("text", "port"), [("", 0), (SOCKETS.replace("-1", "9"), 9)])
    def test_ports(self, world: World, text: str, port: int) -> None:
        """A reload that changes ports is refused."""
        with pytest.raises(ReloadError) as raised:
            world.supervisor.reload(renewed(text))
        problem = f"config reload not supported for websocket: port {CHOSEN} to {port}"
        assert raised.value.problems == (problem,)

    def test_new(self) -> None:
        """A reload that adds a port is refused."""
        world = World().start()
        with pytest.raises(ReloadError) as raised:
            world.supervisor.reload(renewed(SOCKETS.replace("-1", "9")))
        assert raised.value.problems == ("config reload not supported for websocket: port 0 to 9",)
        world.close()


def test_unknownSocket() -> None:
    """A socket for an unknown listener is an error."""
    opened = socket.socket()
    settings = renewed("")
    with pytest.raises(ValueError, match="no parent's of workers: cluster"):
        Supervisor(settings, reactor=World().reactor, sockets={"cluster": opened})
    opened.close()
