"""
A broker in an asyncio program.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from natsbroker.broker import Broker
from natsbroker.runtime.loops import LoopReactor


@asynccontextmanager
async def serving(broker: Broker) -> AsyncIterator[str]:
    """
    Start a broker that was made in a coroutine, and stop it at the end of the block::

        async with serving(Broker.fromText("listen: '127.0.0.1:-1'")) as url:
            client = await nats.connect(url)

    @return: the URL of its first listener for clients; an empty text if it has none.
    @raise natsbroker.errors.BrokerError: if the loop that runs does not run the broker's reactor.
    """
    loop, reactor = get_running_loop(), broker.reactor
    isOurs = isinstance(reactor, LoopReactor)
    if isOurs:
        reactor.startRunning(installSignalHandlers=False)
    try:
        broker.startService()
        try:
            await broker.whenReady().asFuture(loop)
            yield next(iter(broker.addresses()["nats"]), "")
        finally:
            await broker.stopService().asFuture(loop)
    finally:
        if isOurs:
            reactor.close()
