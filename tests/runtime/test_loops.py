"""
The choice of a reactor, with and without an asyncio loop that runs here.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

import pytest
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.testing import MemoryReactorClock
from twisted.internet.threads import deferToThreadPool

from natsbroker.errors import BrokerError
from natsbroker.runtime.loops import LoopReactor, currentReactor, requireRunning


class TestLoopReactor:
    def test_threads(self) -> None:
        """The reactor's thread pool works, and ends when the reactor is closed."""

        async def ask() -> int:
            reactor: Any = LoopReactor(asyncio.get_running_loop())
            reactor.startRunning(installSignalHandlers=False)
            answer = deferToThreadPool(reactor, reactor.getThreadPool(), threading.get_ident)
            ident: int = await answer.asFuture(asyncio.get_running_loop())
            reactor.close()
            return ident

        before = threading.enumerate()
        assert asyncio.run(ask()) != threading.get_ident()
        assert threading.enumerate() == before

    def test_close(self) -> None:
        """Closing the reactor leaves the asyncio loop running, and no file open."""

        async def close() -> tuple[int, int, bool]:
            before = openFiles()
            reactor: Any = LoopReactor(asyncio.get_running_loop())
            reactor.startRunning(installSignalHandlers=False)
            reactor.close()
            await asyncio.sleep(0)
            return before, openFiles(), reactor.running

        before, after, isRunning = asyncio.run(close())
        assert (after, isRunning) == (before, False)


class TestCurrentReactor:
    def test_global(self) -> None:
        """Without an asyncio loop, the current reactor is Twisted's global one."""
        from twisted.internet import reactor

        assert currentReactor() is reactor

    def test_onLoop(self) -> None:
        """Under an asyncio loop, the current reactor is a new one on that loop."""

        async def current() -> bool:
            reactor = currentReactor()
            return reactor._asyncioEventloop is asyncio.get_running_loop()

        assert asyncio.run(current())

    def test_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A global reactor that already uses the asyncio loop is the current one."""

        async def current() -> bool:
            installed: Any = AsyncioSelectorReactor(asyncio.get_running_loop())
            monkeypatch.setitem(sys.modules, "twisted.internet.reactor", installed)
            monkeypatch.setattr("twisted.internet.reactor", installed, raising=False)
            isTaken = currentReactor() is installed
            installed.removeReader(installed.waker)
            installed.waker.connectionLost(None)
            return isTaken

        assert asyncio.run(current())


class TestRequireRunning:
    def test_withoutLoop(self) -> None:
        """Without an asyncio loop, any reactor is accepted, because it may start later."""
        from twisted.internet import reactor

        requireRunning(reactor)

    def test_memory(self) -> None:
        """A reactor without sockets is accepted anywhere."""

        async def require() -> None:
            requireRunning(MemoryReactorClock())

        asyncio.run(require())

    def test_otherReactor(self) -> None:
        """A reactor that the loop does not run is refused with the cure."""
        from twisted.internet import reactor

        async def require() -> None:
            requireRunning(reactor)

        with pytest.raises(BrokerError, match=r"async with natsbroker\.serving\(broker\) as url"):
            asyncio.run(require())

    def test_started(self) -> None:
        """A reactor on the asyncio loop is accepted once it has started."""

        async def require() -> None:
            reactor: Any = currentReactor()
            with pytest.raises(BrokerError):
                requireRunning(reactor)
            reactor.startRunning(installSignalHandlers=False)
            requireRunning(reactor)
            reactor.close()

        asyncio.run(require())


def openFiles() -> int:
    return len(os.listdir("/dev/fd"))
