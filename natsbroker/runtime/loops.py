"""Reactors, and the asyncio loop that runs here, if there is one."""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop, _get_running_loop
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.base import ReactorBase

from natsbroker.errors import BrokerError


class LoopReactor(AsyncioSelectorReactor):
    """
    A reactor on a loop that others run and end. It is never the global reactor: there is one of
    those for a process, and a process may run many loops, such as one for each test.
    """

    def installWaker(self) -> None:
        """Open no pipe: calls from other threads wake the loop."""

    def crash(self) -> None:
        # The inherited method also stops the loop, which is not ours to stop.
        ReactorBase.crash(self)

    def close(self) -> None:
        """Close its connections and end its threads."""
        self.fireSystemEvent("shutdown")


def currentReactor() -> Any:
    """
    @return: the global reactor; where asyncio runs a loop that is not the global reactor's, a new
        one on that loop.
    """
    loop = _get_running_loop()
    if loop is not None and not _isOn(sys.modules.get("twisted.internet.reactor"), loop):
        return LoopReactor(loop)
    from twisted.internet import reactor

    return reactor


def requireRunning(reactor: Any) -> None:
    """
    Accept a reactor without sockets, for tests, in any case.

    @raise BrokerError: if the asyncio loop that runs here does not run the reactor.
    """
    loop = _get_running_loop()
    if loop is None or not isinstance(reactor, ReactorBase):
        return
    if not reactor.running or not _isOn(reactor, loop):
        raise BrokerError(
            "the asyncio loop that runs here does not run the broker's reactor, so nobody would be"
            " served: make the broker inside a coroutine, without a reactor, and start it with"
            " `async with natsbroker.serving(broker) as url`"
        )


def _isOn(reactor: Any, loop: AbstractEventLoop) -> bool:
    return getattr(reactor, "_asyncioEventloop", None) is loop
