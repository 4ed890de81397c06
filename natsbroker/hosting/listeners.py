"""
All places where clients can connect, as one.

Promises: either all of them listen or none; closing them leaves the connections alone.
Must never know: what is spoken there, or why they are closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twisted.internet.defer import inlineCallbacks
from twisted.internet.error import CannotListenError

from natsbroker.hosting.start import cannotListen
from natsbroker.net.fast import Hub
from natsbroker.net.listen import Listener

__all__ = ["Listeners"]


class Listeners:
    """
    The client listeners of one broker.
    """

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = list(listeners)

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    @inlineCallbacks
    def open(self, hub: Hub | None) -> Any:
        """
        Listen everywhere.

        @param hub: takes the connections of plain TCP ports; C{None} for Twisted's own transports.
        @return: a Deferred that fires when all listen.
        @raise StartError: if one cannot; none listens then.
        """
        try:
            for listener in self._listeners:
                yield listener.open()
                if hub is not None:
                    listener.accelerate(hub)
        except CannotListenError as error:
            yield self.close()
            raise cannotListen(error) from error

    @inlineCallbacks
    def close(self) -> Any:
        """
        Listen nowhere any more.
        """
        for listener in self._listeners:
            yield listener.close()

    @property
    def isOpen(self) -> bool:
        """
        Whether anybody can connect.
        """
        return any(listener.port is not None for listener in self._listeners)

    def firstAddress(self) -> tuple[str, int]:
        """
        Host and port of the first one; a UNIX socket's path and 0.

        @raise ValueError: if there is none that listens.
        """
        for listener in self._listeners:
            address = listener.address
            if address is not None:
                name = getattr(address, "name", None)
                return (address.host, address.port) if name is None else (str(name), 0)
        raise ValueError("the broker does not listen for clients")
