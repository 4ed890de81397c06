"""
The streams of one account that brokers share: taking them, handing them over, and asking their
leaders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from natsbroker.interfaces import ILeasedStore
from natsbroker.interfaces.records import LeaseCensus, LeaseLost, NoSuchLog, StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.cluster.accountpeers import AccountPeers, PeerStreams
from natsbroker.jetstream.cluster.views import DirectViews
from natsbroker.jetstream.damage import Unreadable, lostState
from natsbroker.jetstream.model.members import replicasOf
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.storenames import logName, spaceName
from natsbroker.jetstream.streams.recovery import abandonStream, releaseStream, takeStream
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.runtime.deadlines import Deadline
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

HELD = 5.0
"""The longest time, in seconds, that requests wait for the next leader of a stream."""


class BrokerLeases(PeerStreams, Protocol):
    """The part of the broker's leases that an account needs."""

    @property
    def store(self) -> ILeasedStore:
        """The store that is shared."""

    async def refresh(self) -> LeaseCensus:
        """Read which broker has which lease."""

    def target(self, placement: Placement | None) -> str:
        """The broker that takes over what this one leads."""

    async def tell(self, target: str, what: str, **fields: Any) -> None:
        """Send a request to another broker, if it is running."""


class AccountCluster(AccountPeers):
    """The streams of an account in a store that brokers share."""

    def __init__(self, leases: BrokerLeases, account: JetStreamAccount) -> None:
        super().__init__(leases, account)
        self._leases = leases
        self._moving: set[str] = set()
        self._following: dict[str, list[Deferred[str]]] = {}
        # By request: how often it came, minus how often the former leader has passed it on.
        self._received: Counter[int] = Counter()
        self._forgetting: Deadline | None = None
        self._views = DirectViews(account, leases.store, self.configs)

    def leads(self, name: str) -> bool:
        """Whether this broker serves a stream."""
        return name in self.account.streams and logName(self.account.name, name) not in self._moving

    def verify(self, name: str) -> Deferred[None] | None:
        store = self._leases.store
        return None if store.isSure else store.verify(self._logOf(name))

    # The content of the store.

    async def configs(self) -> dict[str, StreamConfig]:
        prefix = spaceName(self.prefix)
        stored = await self._leases.store.peek(prefix, b"stream/")
        return self._decoded(value for values in stored.values() for value in values.values())

    async def exists(self, name: str) -> bool:
        space = spaceName(logName(self.account.name, name))
        return space in await self._leases.store.peek(space, b"stream/")

    async def leaders(self) -> dict[str, str | None]:
        """The leaders of the account's logs; C{None} for none."""
        logs = (await self._leases.refresh()).logs
        return {log: leader for log, leader in logs.items() if log.startswith(self.prefix)}

    async def refresh(self) -> None:
        await self._leases.refresh()

    async def follow(self, leaders: Mapping[str, str | None]) -> None:
        """
        Answer direct get for streams that this broker does not lead.

        @param leaders: the leaders of all logs.
        """
        await self._views.follow(
            {log: leader for log, leader in leaders.items() if log.startswith(self.prefix)}
        )

    def close(self) -> None:
        """Answer no more requests."""
        self._views.close()
        self._forget()

    # Taking streams and handing them over.

    async def take(self, log: str) -> None:
        """Lead a stream, if its lease is free."""
        if log in self._moving or any(
            log == self._logOf(stream) for stream in self.account.streams
        ):
            return
        self._moving.add(log)
        try:
            await self._take(log)
        except (LeaseLost, NoSuchLog):
            pass  # Another broker was faster, or the stream is gone.
        except StoreError as error:
            _log.error("A stream cannot be taken over: {why}", why=str(error))
        finally:
            self._moving.discard(log)

    async def _take(self, log: str) -> None:
        store, space = self._leases.store, spaceName(log)
        opened = await store.open(log, create=False)
        try:
            with lostState(store) as lost:
                values = await CopiedStates(store.states(space)).load()
            stream = await takeStream(self.account, opened, values)
            if stream is None and lost.isIn(space):
                raise Unreadable(f"the configuration of {log} is lost")
            if stream is None:
                # Its creation or its deletion was interrupted.
                await store.drop(log)
        except BaseException:
            await store.giveUpStates(space)
            await store.giveUp(log)
            raise
        if stream is None:
            await store.giveUpStates(space)
            return
        self._forget()
        self._forgetting = self.account.deadlines.after(HELD, self._forget)
        self._moving.discard(log)
        self.elected(stream)
        for consumer in stream.consumers.values():
            self.consumerElected(consumer)

    def lost(self, log: str) -> None:
        """Stop serving a stream whose lease another broker has."""
        for stream in list(self.account.streams.values()):
            if self._logOf(stream.name) == log:
                abandonStream(stream)
                self.account.streams.pop(stream.name, None)
                self.account.run(self._leases.store.giveUpStates(spaceName(log)))

    async def handOver(self, stream: Stream, target: str) -> None:
        """
        Stop serving a stream, and have another broker serve it.

        @param target: empty for any broker that finds it.
        """
        log, store = self._logOf(stream.name), self._leases.store
        self._moving.add(log)
        self._following[log] = []
        holding = self.account.deadlines.after(HELD, partial(self._follow, log, ""))
        try:
            await releaseStream(stream)
            self.account.streams.pop(stream.name, None)
            await store.giveUpStates(spaceName(log))
            await store.giveUp(log)
        except StoreError as error:
            self.account.streams.pop(stream.name, None)
            _log.error("A stream is not handed over: {why}", why=str(error))
        finally:
            self._moving.discard(log)
        if target:
            await self._leases.tell(target, "take", log=log)
        holding.cancel()
        self._follow(log, target)

    def _follow(self, log: str, leader: str) -> None:
        for waiter in self._following.pop(log, ()):
            waiter.callback(leader)

    def successor(self, name: str) -> Deferred[str]:
        """
        Wait for the broker to which a stream is being handed over.

        @return: empty if it is not, or not soon.
        """
        waiting = self._following.get(self._logOf(name))
        if waiting is None:
            return succeed("")
        waiting.append(Deferred())
        return waiting[-1]

    def isRepeated(self, message: Message, times: int = 1) -> bool:
        """
        Whether a request was handled before. A request can come twice, from its client and from the
        former leader.

        @param times: -1 for a request that the former leader has passed on.
        """
        if self._forgetting is None:
            return False
        key = hash((message.subject, message.reply, message.body))
        before = self._received[key]
        self._received[key] += times
        return before * times < 0

    def _forget(self) -> None:
        self._received.clear()
        forgetting, self._forgetting = self._forgetting, None
        if forgetting is not None:
            forgetting.cancel()

    def countElsewhere(self) -> None:
        """Nothing to do: a broker checks limits against the streams that it leads."""

    def reservedElsewhere(self, storage: StorageType) -> int:
        """None counts: a broker checks limits against the streams that it leads."""
        return 0

    async def stepDown(self, stream: Stream, placement: Placement | None) -> None:
        """
        Have another broker lead a stream.

        @raise natsbroker.jetstream.model.errors.JetStreamError: if there is none that may.
        """
        await self.handOver(stream, self._leases.target(placement))

    async def forgotten(self, name: str) -> None:
        """Forget a deleted stream: another broker may create one of its name."""
        await self._leases.store.giveUpStates(spaceName(self._logOf(name)))

    def quorumLost(self) -> None:
        """
        Report that streams and consumers that this broker leads cannot be written, if they have
        several replicas.
        """
        members = self.members
        for stream in self.account.streams.values() if members is not None else ():
            self._quorumLost(stream, {"stream": stream.name}, stream.config.num_replicas)
            for consumer in stream.consumers.values():
                fields = {"stream": stream.name, "consumer": consumer.name}
                self._quorumLost(stream, fields, replicasOf(stream.config, consumer.config))

    def _quorumLost(self, stream: Stream, fields: dict[str, str], replicas: int) -> None:
        members, kind = self.members, list(fields)[-1]
        if members is not None and replicas > 1:
            self.account.advise(
                f"ADVISORY.{kind.upper()}.QUORUM_LOST.{'.'.join(fields.values())}",
                f"advisory.v1.{kind}_quorum_lost",
                lambda: {**fields, "replicas": members.group(replicas)},
            )
