"""
The streams that this broker leads, of those that brokers share in one store.

The lease of a stream's log makes a broker its leader; the lease of the log L{META} makes it the one
that answers for whole accounts. All brokers look regularly at who has which lease, and take what is
free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from natsbroker.errors import BrokerError
from natsbroker.interfaces import ILeasedStore, IMessageBus
from natsbroker.interfaces.records import LeaseCensus, LeaseLost, StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.cluster.accountcluster import AccountCluster
from natsbroker.jetstream.cluster.balancing import LeaderBalance, Move, movable
from natsbroker.jetstream.cluster.peers import BrokerRequests
from natsbroker.jetstream.cluster.reach import StoreReach
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.members import JetStreamPeer, JetStreamPeers
from natsbroker.jetstream.model.streamconfig import Placement
from natsbroker.runtime.deadlines import Deadline, Deadlines

_log = Logger(namespace="natsbroker.jetstream")

META = "jetstream"
"""The log whose lease makes a broker the one that answers for whole accounts."""

_INTRODUCED = "jetstream "
"""The prefix of the names of these brokers: NATS Streaming may share the store too."""

MOVING = 30.0
"""Seconds for a broker to hand several streams over."""

LOOKS = 3
"""The number of searches for free leases in the duration of a lease."""


class ClusterLeadership:
    """
    The leases of one broker.

    @ivar bus: that of the system account.
    @ivar channel: asks the other brokers.
    @ivar clusters: the accounts' parts, by account.
    @ivar members: the brokers that share the store, as they were seen last.
    @ivar isMeta: whether this broker answers for whole accounts.
    @ivar loads: the number of streams that each broker leads.
    """

    def __init__(
        self,
        store: ILeasedStore,
        cluster: str,
        name: str,
        tags: Sequence[str],
        bus: IMessageBus,
        deadlines: Deadlines,
    ) -> None:
        """
        The leases of the broker C{name} with its C{server_tags}, in a C{cluster}, empty without
        one; C{bus} is that of the system account.
        """
        self.store = store
        self.bus = bus
        self.requests = BrokerRequests(bus, name, deadlines)
        self.clusters: dict[str, AccountCluster] = {}
        self.members = JetStreamPeers(cluster, name, {name: JetStreamPeer(name, tags=tuple(tags))})
        self.isMeta = False
        self.loads: Counter[str] = Counter()
        self._tags = {name: tuple(tags)}
        self._deadlines = deadlines
        self._timer: Deadline | None = None
        self._free: set[str] = set()
        self._forgotten: set[str] = set()
        self._isLeaving = False
        self._isClosed = False
        self._looking: Deferred[None] | None = None
        self._balance = LeaderBalance()
        self._moving: Deferred[None] | None = None
        self._reach = StoreReach(deadlines, store.lease, self._quorumLost)
        self.requests.handlers = {
            "apply": self._apply,
            "describe": self._describe,
            "list": self._list,
            "look": self._lookNow,
            "forget": self._forget,
            "meta": self._takeMeta,
            "shed": self._shed,
            "take": self._take,
            "usage": self._usage,
        }

    @property
    def trouble(self) -> str:
        """The reason why the shared store is out of reach; empty while it can be reached."""
        return self._reach.trouble

    @property
    def isSilent(self) -> bool:
        """Whether the shared store accepts requests but does not answer."""
        return self._reach.isSilent

    def _quorumLost(self) -> None:
        for cluster in self.clusters.values():
            cluster.quorumLost()

    @property
    def own(self) -> str:
        return self.members.own

    def join(self, account: JetStreamAccount) -> AccountCluster:
        """This broker's part of an account."""
        part = self.clusters[account.name] = AccountCluster(self, account)
        return part

    def answersFor(self, account: str) -> bool:
        """Whether this broker answers for a whole account: one answers for all."""
        return self.isMeta

    async def start(self) -> None:
        """Take free leases, and continue to look for them."""
        await self.store.introduce(_INTRODUCED + self.own)
        self.requests.open()
        await self.look()
        self._later()

    def _later(self) -> None:
        if not self._isClosed:
            self._timer = self._deadlines.after(self.store.lease / LOOKS, self._due)

    def _due(self) -> None:
        looking = ensureDeferred(self.look())
        looking.addErrback(self._unseen).addCallback(lambda _: self._later())

    def lookAgain(self) -> Deferred[None]:
        """
        Look for free leases at once. If the store is out of reach, the next regular look does this.
        """
        return ensureDeferred(self.look()).addErrback(self._unseen)

    def _unseen(self, failure: Failure) -> None:
        if not failure.check(StoreError):
            _log.failure("Looking for free streams failed", failure)

    async def look(self) -> None:
        """Read the holders of leases, and take those that are free."""
        census = await self.refresh()
        if self._isLeaving:
            return
        if census.logs.get(META) is None:
            await self.leadMeta()
        free = {log for log, holder in census.logs.items() if holder is None and log != META}
        for log in sorted(free):
            cluster = self._clusterOf(log)
            # A lease that its preferred taker has not taken until the second look is for every
            # broker.
            isDue = log in self._free or self.members.taker(log) == self.own
            if cluster is not None and isDue and not self._isLeaving:
                await cluster.take(log)
        self._free = free
        for cluster in list(self.clusters.values()):
            await cluster.follow(census.logs)
        move = self._balance.seen(self.members, self.loads)
        if move is not None and self.isMeta and self._moving is None:
            # Free leases are still looked for meanwhile.
            self._moving = ensureDeferred(self._move(move)).addBoth(self._moved)

    def _moved(self, result: Failure | None) -> None:
        self._moving = None
        if isinstance(result, Failure):
            _log.failure("Streams were not moved", result)

    async def _move(self, move: Move) -> None:
        """Have a broker hand streams over to another."""
        try:
            answer = await self.requests.ask(
                move.source, "shed", patience=MOVING, to=move.target, count=move.count
            )
        except BrokerError as error:
            _log.warn("Broker {name} does not answer: {why}", name=move.source, why=str(error))
            return
        if answer["moved"]:
            text = "{count} streams moved from broker {source} to {target}"
            _log.info(text, count=answer["moved"], source=move.source, target=move.target)
        else:
            self._balance.settled()

    async def refresh(self) -> LeaseCensus:
        self._reach.asked()
        try:
            answer = await self.store.census(META)
        except StoreError as error:
            self._reach.failed(str(error))
            raise
        self._reach.answered()
        holders = {
            name.removeprefix(_INTRODUCED): holder
            for name, holder in answer.holders.items()
            if name.startswith(_INTRODUCED)
        }
        logs = {
            log: None if holder is None else holder.removeprefix(_INTRODUCED)
            for log, holder in answer.logs.items()
        }
        census = LeaseCensus(holders, logs)
        self._seen(census)
        return census

    def _seen(self, census: LeaseCensus) -> None:
        self.loads = Counter(
            holder for log, holder in census.logs.items() if holder is not None and log != META
        )
        self._forgotten -= {name for name, holder in census.holders.items() if holder.isAlive}
        members = {
            name: JetStreamPeer(name, holder.age, holder.isAlive, self._tags.get(name, ()))
            for name, holder in census.holders.items()
            if name not in self._forgotten
        }
        members[self.own] = JetStreamPeer(self.own, tags=self._tags[self.own])
        meta = census.logs.get(META) or ""
        self.members = JetStreamPeers(self.members.cluster, self.own, members, meta)
        for name, member in members.items():
            if member.isAlive and name not in self._tags:
                asking = self.requests.ask(name, "describe")
                asking.addCallbacks(self._described, _noAnswer, callbackArgs=(name,))

    def _described(self, answer: dict[str, Any], name: str) -> None:
        self._tags[name] = tuple(answer["tags"])

    def _clusterOf(self, log: str) -> AccountCluster | None:
        for cluster in self.clusters.values():
            if log.startswith(cluster.prefix):
                return cluster
        return None

    async def leadMeta(self) -> bool:
        """Become the broker that answers for whole accounts, if no other one is."""
        try:
            await self.store.open(META)
        except LeaseLost:
            return False
        if not self.isMeta:
            self.isMeta = True
            _log.info("This broker leads JetStream")
        return True

    def lost(self, log: str) -> None:
        """Stop answering for a log whose lease another broker has now."""
        if log == META:
            self.isMeta = False
            return
        cluster = self._clusterOf(log)
        if cluster is not None:
            cluster.lost(log)

    # Releasing.

    def target(self, placement: Placement | None) -> str:
        """
        The broker that takes over what this one leads.

        @raise natsbroker.jetstream.model.errors.JetStreamError: if there is none.
        """
        return self.members.replacement(placement, self.own, self.loads)

    async def stepDown(self, target: str) -> None:
        """Have another broker answer for whole accounts."""
        self.isMeta = False
        await self.store.giveUp(META)
        await self.tell(target, "meta")

    async def tell(self, target: str, what: str, **fields: Any) -> None:
        """Send a request to another broker, if it is running."""
        try:
            await self.requests.ask(target, what, **fields)
        except BrokerError as error:
            _log.warn("Broker {name} does not answer: {why}", name=target, why=str(error))

    async def leave(self) -> None:
        """Hand all leases over to other brokers, and take no more."""
        if self._isLeaving:
            return
        self._isLeaving = True
        others = [peer for peer in self.members.alive if peer != self.own]
        if not others:
            return
        self.loads[self.own] = 0
        for cluster in list(self.clusters.values()):
            for stream in list(cluster.account.streams.values()):
                target = min(others, key=lambda peer: self.loads[peer], default="")
                self.loads[target] += 1
                await cluster.handOver(stream, target)
        if not self.isMeta:
            return
        try:
            await self.stepDown(others[0])
        except StoreError as error:
            # The lease will expire, and the broker still stops normally.
            _log.error("The lead of JetStream is not handed over: {why}", why=str(error))

    def close(self) -> None:
        """Stop looking for leases, and answer no other broker."""
        self._isClosed = True
        if self._timer is not None:
            self._timer.cancel()
        self._reach.close()
        for cluster in self.clusters.values():
            cluster.close()
        self.requests.close()

    async def remove(self, peer: str) -> str:
        """
        Forget a broker that is dead.

        @param peer: its name or its id.
        @return: its name.
        @raise natsbroker.jetstream.model.errors.JetStreamError: if it is unknown, or if it is
            alive, because no other broker can take over its leases.
        """
        await self.refresh()
        name = self.members.nameOf(peer)
        if not name:
            raise errors.CLUSTER_SERVER_NOT_MEMBER()
        if name in self.members.alive:
            raise errors.PEER_REMAP()
        self._forgotten.add(name)
        for member in self.members.alive:
            if member != self.own:
                await self.tell(member, "forget", name=name)
        await self.refresh()
        return name

    # The requests of other brokers.

    async def _apply(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        await self.clusters[fields["account"]].apply(fields, body)
        return {}

    async def _describe(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        return {"tags": self._tags[self.own], "accepts": not self._isLeaving}

    async def _forget(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        self._forgotten.add(fields["name"])
        return {}

    async def _shed(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        """Hand streams over to a broker that has joined, if it takes any."""
        target, moved = fields["to"], 0
        try:
            accepts = (await self.requests.ask(target, "describe"))["accepts"]
        except BrokerError:
            accepts = False
        if accepts and not self._isLeaving:
            streams = [
                (cluster, stream)
                for cluster in self.clusters.values()
                for stream in cluster.account.streams.values()
            ]
            chosen = movable([stream for _, stream in streams], self.members, target)
            for cluster, stream in streams:
                if stream in chosen[: fields["count"]]:
                    await cluster.handOver(stream, target)
                    moved += 1
        return {"moved": moved}

    async def _list(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        shown = await self.clusters[fields["account"]].listed(fields["names"])
        return {"streams": list(shown.values())}

    async def _lookNow(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        await self.look()
        return {}

    async def _take(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        cluster = self._clusterOf(fields["log"])
        if cluster is not None and not self._isLeaving:
            await cluster.take(fields["log"])
        return {}

    async def _takeMeta(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        if not self._isLeaving:
            await self.leadMeta()
        return {}

    async def _usage(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        return await self.clusters[fields["account"]].usage()


def _noAnswer(failure: Failure) -> None:
    """Ignore that a broker does not answer: it is asked again."""
    failure.trap(BrokerError)
