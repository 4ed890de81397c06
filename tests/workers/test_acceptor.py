"""Accepting in the parent; its turns are tested with the supervisor."""

from __future__ import annotations

from natsbroker.config.model import Settings
from natsbroker.workers.acceptor import Acceptor
from tests.workers.support import Port, World


def test_nobody() -> None:
    """A connection that was accepted when no worker is left is closed."""
    world = World()
    acceptor = Acceptor(world.supervisor.slots, Settings())
    port = Port(acceptor)
    acceptor.attend(port)
    client = port.accept()
    assert client.recv(1) == b""
    client.close()


def test_closed() -> None:
    """A port that is closed does not accept again."""
    world = World()
    acceptor = Acceptor(world.supervisor.slots, Settings())
    acceptor.changed()
    port = Port(acceptor)
    acceptor.attend(port)
    port.stopListening()
    acceptor.changed()
    assert not port.isReading
