"""
The streams of one account that brokers share: taking them, handing them over, asking their leaders.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger

from natsbroker.errors import BrokerError
from natsbroker.interfaces import ILeasedStore
from natsbroker.interfaces.records import LeaseCensus, LeaseLost, NoSuchLog, StoreError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.cluster.peers import BrokerRequests
from natsbroker.jetstream.cluster.views import DirectViews
from natsbroker.jetstream.damage import Unreadable, lostState
from natsbroker.jetstream.model.documents import documentOf
from natsbroker.jetstream.model.members import JetStreamPeers, replicasOf
from natsbroker.jetstream.model.streamconfig import Placement, StreamConfig
from natsbroker.jetstream.statecopies import CopiedStates
from natsbroker.jetstream.storenames import logName, spaceName
from natsbroker.jetstream.streams.recovery import abandonStream, releaseStream, takeStream
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.runtime.deadlines import Deadline
from natsbroker.steps import finish
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.jetstream")

HELD = 5.0
"""The longest time, in seconds, that requests wait for the next leader of a stream."""

Shown = dict[str, Any]


class BrokerLeases(Protocol):
    """The part of the broker's leases that an account needs."""

    @property
    def store(self) -> ILeasedStore:
        """The store that is shared."""

    @property
    def requests(self) -> BrokerRequests:
        """Asks the other brokers."""

    @property
    def members(self) -> JetStreamPeers:
        """The brokers that share the store."""

    @property
    def isMeta(self) -> bool:
        """Whether this broker answers for whole accounts."""

    @property
    def isSilent(self) -> bool:
        """Whether the store takes requests and answers none."""

    async def refresh(self) -> LeaseCensus:
        """Learn which broker has which lease."""

    def target(self, placement: Placement | None) -> str:
        """The broker that takes over what this one leads."""

    async def tell(self, target: str, what: str, **fields: Any) -> None:
        """Ask another broker, if it is there."""


class AccountCluster:
    """
    An account's part in a JetStream that several brokers serve.

    @ivar account: its C{streams} are those that this broker leads.
    @ivar prefix: what the names of the account's logs begin with.
    @ivar handle: handles an API request, for another broker.
    @ivar show: a stream as lists show it.
    @ivar count: what the account uses in this broker.
    """

    handle: Callable[[Message], Awaitable[None]]
    show: Callable[[Stream], Awaitable[Shown]]
    count: Callable[[], Awaitable[Shown]]

    def __init__(self, leases: BrokerLeases, account: JetStreamAccount) -> None:
        self._leases = leases
        self.account = account
        self.prefix = logName(account.name, "")
        self._moving: set[str] = set()
        self._following: dict[str, list[Deferred[str]]] = {}
        # By request: how often it came, less how often the leader before has passed it on.
        self._received: Counter[int] = Counter()
        self._forgetting: Deadline | None = None
        self._configs: dict[bytes, StreamConfig] = {}
        self._views = DirectViews(account, leases.store, self.configs)

    @property
    def members(self) -> JetStreamPeers | None:
        """The brokers of the cluster; C{None} for a broker that is in none."""
        members = self._leases.members
        return members if members.cluster else None

    @property
    def own(self) -> str:
        """The name of this broker."""
        return self._leases.members.own

    @property
    def isMeta(self) -> bool:
        """Whether this broker answers for the whole account."""
        return self._leases.isMeta

    @property
    def isSilent(self) -> bool:
        """Whether the store takes requests and answers none."""
        return self._leases.isSilent

    def leads(self, name: str) -> bool:
        """Whether this broker serves a stream."""
        return name in self.account.streams and logName(self.account.name, name) not in self._moving

    def verify(self, name: str) -> Deferred[None] | None:
        store = self._leases.store
        return None if store.isSure else store.verify(self._logOf(name))

    # What the store has.

    async def configs(self) -> dict[str, StreamConfig]:
        """The configurations of all streams of the account, of all brokers."""
        prefix = spaceName(self.prefix)
        stored = await self._leases.store.peek(prefix, b"stream/")
        known, self._configs = self._configs, {}
        for values in stored.values():
            for value in values.values():
                config = known.get(value)
                if config is None:
                    config = finish(documentOf(json.loads(value)["config"], StreamConfig))
                self._configs[value] = config
        return {stream.name: stream for stream in self._configs.values()}

    async def exists(self, name: str) -> bool:
        """Whether there is a stream, on any broker."""
        space = spaceName(logName(self.account.name, name))
        return space in await self._leases.store.peek(space, b"stream/")

    async def leaders(self) -> dict[str, str | None]:
        """The leaders of the account's logs; C{None} for none."""
        logs = (await self._leases.refresh()).logs
        return {log: leader for log, leader in logs.items() if log.startswith(self.prefix)}

    async def refresh(self) -> None:
        """Learn which brokers there are. One that has just started counts."""
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
        """Answer nothing any more."""
        self._views.close()
        self._forget()

    # Taking and letting go.

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

    def _logOf(self, name: str) -> str:
        return logName(self.account.name, name)

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
        Whether a request was handled that comes both from its client and from the leader before.

        @param times: -1 for one that the leader before has passed on.
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

    async def stepDown(self, stream: Stream, placement: Placement | None) -> None:
        """
        Have another broker lead a stream.

        @raise natsbroker.jetstream.model.errors.JetStreamError: if there is none that may.
        """
        await self.handOver(stream, self._leases.target(placement))

    async def forgotten(self, name: str) -> None:
        """A stream is deleted: another broker may create one of its name."""
        await self._leases.store.giveUpStates(spaceName(self._logOf(name)))

    # Advisories.

    def elected(self, stream: Stream) -> None:
        """Report that this broker leads a stream, if it has several replicas."""
        members, replicas = self.members, stream.config.num_replicas
        if members is not None and replicas > 1:
            stream.advise(
                "LEADER_ELECTED",
                "stream_leader_elected",
                leader=members.own,
                replicas=members.group(replicas),
            )

    def consumerElected(self, consumer: Any) -> None:
        """The same for a consumer."""
        members, stream = self.members, consumer.stream
        replicas = replicasOf(stream.config, consumer.config)
        if members is not None and replicas > 1:
            consumer.core.advise(
                "LEADER_ELECTED",
                "consumer_leader_elected",
                leader=members.own,
                replicas=members.group(replicas),
            )

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

    # What other brokers know.

    async def apply(self, fields: dict[str, Any], body: bytes) -> None:
        """Handle an API request that another broker passed on."""
        subject, reply = (
            fields[name].encode("utf-8", "surrogateescape") for name in ("subject", "reply")
        )
        message = Message(subject, body, reply, fields["headers"])
        if not (fields.get("held") and self.isRepeated(message, -1)):
            await self.handle(message)

    async def passOn(self, leader: str, message: Message, isHeld: bool = False) -> None:
        """
        Have the leader of a stream handle an API request.

        @param isHeld: whether it may have received that itself.
        """
        await self._leases.requests.ask(
            leader,
            "apply",
            message.headers + message.payload,
            account=self.account.name,
            subject=message.subject.decode("utf-8", "surrogateescape"),
            reply=message.reply.decode("utf-8", "surrogateescape"),
            headers=len(message.headers),
            held=isHeld,
        )

    async def listed(self, names: Sequence[str]) -> dict[str, Shown]:
        """Those of some streams that this broker leads, by name."""
        streams = self.account.streams
        return {name: await self.show(streams[name]) for name in names if self.leads(name)}

    async def lists(self, names: Sequence[str]) -> tuple[list[Shown], list[str]]:
        """
        Streams of all brokers.

        @return: those that there are, in order, and the names of those whose leader does not
            answer.
        """
        leaders = await self.leaders()
        byLeader: dict[str, list[str]] = {}
        for name in names:
            byLeader.setdefault(leaders.get(self._logOf(name)) or "", []).append(name)
        own = self.own
        byLeader.pop("", None)
        infos = await self.listed(byLeader.pop(own, []))
        asked = [
            self._leases.requests.ask(leader, "list", account=self.account.name, names=theirs)
            for leader, theirs in byLeader.items()
        ]
        for answer in await _answers(asked):
            infos.update((stream["config"]["name"], stream) for stream in answer["streams"])
        return [infos[name] for name in names if name in infos], [
            name for name in names if name not in infos
        ]

    async def usage(self) -> Shown:
        """The account's usage in this broker."""
        return await self.count()

    async def usages(self) -> list[Shown]:
        """The account's usage in each broker that answers."""
        members = self._leases.members
        others = [peer for peer in members.alive if peer != members.own]
        asked = [
            self._leases.requests.ask(peer, "usage", account=self.account.name) for peer in others
        ]
        return [await self.usage(), *(await _answers(asked))]


async def _answers(asked: Sequence[Deferred[Shown]]) -> list[Shown]:
    for asking in asked:
        asking.addErrback(lambda failure: failure.trap(BrokerError) and None)
    answers = await gatherResults(asked)
    return [answer for answer in answers if answer is not None]
