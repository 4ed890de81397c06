"""
The choice of the broker that answers an API request, when several receive it.

Every broker of the cluster receives every request. The leader of a stream answers those for the
stream and its consumers. One broker, the meta leader, answers those for the whole account and those
for streams that do not exist; it also has streams created, changed and deleted one after the other,
each by its leader.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from natsbroker.errors import BrokerError, NoResponders
from natsbroker.jetstream.cluster.accountpeers import AccountPeers
from natsbroker.jetstream.model.streamconfig import Placement
from natsbroker.jetstream.storenames import logName
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

_DELETE: Final = "STREAM.DELETE.*"

CHANGES: Final = frozenset({"STREAM.CREATE.*", "STREAM.UPDATE.*", "STREAM.RESTORE.*", _DELETE})
"""
The routes whose requests must not overtake each other in an account. The meta leader alone has them
answered: another broker could find a stream gone that its leader has just deleted.
"""


class ApiRouter:
    """Decides whether this broker answers an API request of one account."""

    def __init__(self, cluster: AccountPeers, loads: Callable[[], dict[str, int]]) -> None:
        """The router; C{loads} gives the number of streams that each broker leads."""
        self._cluster = cluster
        self._loads = loads
        self._lock = DeferredLock()

    @property
    def isMeta(self) -> bool:
        """Whether this broker answers for the whole account."""
        return self._cluster.isMeta

    def refuses(self, pattern: str, names: tuple[str, ...]) -> bool:
        """
        Whether this broker should answer a request, but the store does not answer.

        @param pattern: that of the request, behind C{$JS.API.}.
        @param names: the tokens that its wildcards match.
        """
        cluster = self._cluster
        if not cluster.isSilent:
            return False
        return cluster.isMeta if pattern in CHANGES or not names else cluster.leads(names[0])

    async def route(
        self,
        pattern: str,
        names: tuple[str, ...],
        message: Message,
        handle: Callable[[], Awaitable[None]],
    ) -> None:
        """
        @param pattern: that of the request, behind C{$JS.API.}.
        @param names: the tokens that its wildcards match.
        @param handle: answers the request.
        """
        cluster = self._cluster
        if pattern in CHANGES:
            if cluster.isMeta:
                await self._change(pattern, names[0], message, handle)
        elif not names:
            if cluster.isMeta:
                await handle()
        elif cluster.leads(names[0]) or (cluster.isMeta and not await cluster.exists(names[0])):
            if not cluster.isRepeated(message):
                await handle()
        else:
            await self._follow(names[0], message)

    async def hasLeft(self, name: str, message: Message) -> bool:
        """
        Whether the stream of a request that waited here belongs to another broker now. That broker
        answers: it has received the request too, or the request follows the stream.
        """
        if self._cluster.leads(name) or not await self._cluster.exists(name):
            return False
        await self._follow(name, message)
        return True

    async def _follow(self, name: str, message: Message) -> None:
        """Pass a request on to the next leader of a stream that is being handed over."""
        leader = await self._cluster.successor(name)
        if leader:
            try:
                await self._cluster.passOn(leader, message, isHeld=True)
            except BrokerError as error:
                _log.warn("A request for {name} is lost: {why}", name=name, why=str(error))

    async def _change(
        self, pattern: str, name: str, message: Message, handle: Callable[[], Awaitable[None]]
    ) -> None:
        await self._lock.acquire()
        try:
            leaders = await self._leadersOf(name)
            if leaders is None:
                leaders = [self._cluster.own] if pattern == _DELETE else self._places(message)
            for leader in leaders:
                if leader == self._cluster.own:
                    await handle()
                    return
                try:
                    await self._cluster.passOn(leader, message)
                    return
                except NoResponders:
                    continue  # It has just stopped.
            _log.warn("Stream {name} was not changed: its leader is not there", name=name)
        except BrokerError as error:
            _log.warn("Stream {name} was not changed: {why}", name=name, why=str(error))
        finally:
            self._lock.release()

    async def _leadersOf(self, name: str) -> list[str] | None:
        """The leader of a stream, if it has one now; C{None} if there is no such stream."""
        cluster = self._cluster
        logs = await cluster.leaders()
        log = logName(cluster.account.name, name)
        if log in logs and (logs[log] is not None or await cluster.exists(name)):
            return [leader] if (leader := logs[log]) else []
        return None

    def _places(self, message: Message) -> list[str]:
        """The brokers that may lead the new stream of a request, best first."""
        loads = self._loads()
        fitting = self._cluster.fitting(_placementIn(message.payload))
        fitting = sorted(fitting, key=lambda peer: loads.get(peer, 0)) or [self._cluster.own]
        loads[fitting[0]] = loads.get(fitting[0], 0) + 1  # Until streams are counted again.
        return fitting


def _placementIn(body: bytes) -> Placement | None:
    """The placement that a request asks for, if it is readable; the leader reports errors in it."""
    try:
        config: Any = json.loads(body)
        placement = config.get("config", config)["placement"]
        tags = tuple(map(str, placement.get("tags") or ()))
        return Placement(str(placement.get("cluster", "")), tags)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
