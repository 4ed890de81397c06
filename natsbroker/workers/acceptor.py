"""Accepted connections of the parent, handed to the workers in turn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from socket import socket
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol

from natsbroker.config.model import Settings
from natsbroker.workers.channel import Adopt
from natsbroker.workers.slots import WorkerSlot


class _Passed(Protocol):
    """Nothing happens to a connection here."""


class Acceptor(Factory):
    """While no worker is ready, connections wait to be accepted."""

    noisy = False
    protocol = _Passed

    def __init__(self, slots: Sequence[WorkerSlot], settings: Settings) -> None:
        self._slots = slots
        self._settings = settings
        self._port: Any = None
        # The other numbers are those that workers give out themselves.
        self._numbers = count(len(slots) + 1, len(slots) + 1)
        self._turn = 0

    def attend(self, port: Any) -> None:
        """Hand on what a listening port accepts, when a worker is ready."""
        self._port = port
        port.transport = self._pass
        port.stopReading()

    def use(self, settings: Settings) -> None:
        self._settings = settings

    def changed(self) -> None:
        """A worker has become ready, or ended."""
        if self._port is None or self._port.disconnected:
            return
        if any(slot.isReady for slot in self._slots):
            self._port.startReading()
        else:
            self._port.stopReading()

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        return _Passed()

    def _pass(
        self, accepted: socket, protocol: Any, client: Any, port: Any, number: int, reactor: Any
    ) -> None:
        cid = next(self._numbers)
        self._turn += 1
        ready = [slot for slot in self._slots if slot.isReady]
        if not ready:
            accepted.close()
            return
        slot = ready[self._turn % len(ready)]
        slot.connections[cid] = ""
        slot.send(Adopt(cid, (client[0], client[1])), [accepted])
