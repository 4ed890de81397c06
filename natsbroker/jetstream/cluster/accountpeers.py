"""
An account in a JetStream that several brokers serve: the requests that its brokers pass on to each
other, and the lists and totals over all of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred, gatherResults, succeed

from natsbroker.errors import BrokerError
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.cluster.peers import BrokerRequests
from natsbroker.jetstream.model.documents import documentOf
from natsbroker.jetstream.model.members import JetStreamPeers, replicasOf
from natsbroker.jetstream.model.streamconfig import Placement, StreamConfig
from natsbroker.jetstream.requesters import PassedRequester, clientOf
from natsbroker.jetstream.storenames import logName
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.steps import finish
from natsbroker.wire.values import Message

Shown = dict[str, Any]

HEARING = 1.0
"""The longest time, in seconds, for which a request waits until its answer has a receiver."""

_GLANCE = 0.005


class PeerStreams(Protocol):
    """The brokers that serve the streams of accounts together."""

    @property
    def requests(self) -> BrokerRequests:
        """Asks the other brokers."""

    @property
    def members(self) -> JetStreamPeers:
        """The brokers."""

    def answersFor(self, account: str) -> bool:
        """Whether this broker answers for a whole account."""

    @property
    def isSilent(self) -> bool:
        """Whether the store accepts requests but does not answer."""


class AccountPeers(ABC):
    """
    An account's part in a JetStream that several brokers serve.

    @ivar account: its C{streams} are those that this broker leads.
    @ivar prefix: what the names of the account's logs begin with.
    @ivar handle: handles an API request, for another broker.
    @ivar show: gives a stream as lists show it.
    @ivar count: gives the account's usage in this broker.
    """

    handle: Callable[[Message], Awaitable[None]]
    show: Callable[[Stream], Awaitable[Shown]]
    count: Callable[[], Awaitable[Shown]]

    def __init__(self, peers: PeerStreams, account: JetStreamAccount) -> None:
        self._peers = peers
        self.account = account
        self.prefix = logName(account.name, "")
        self._configs: dict[bytes, StreamConfig] = {}

    @property
    def members(self) -> JetStreamPeers | None:
        """The brokers of the cluster; C{None} for a broker that is in none."""
        members = self._peers.members
        return members if members.cluster else None

    @property
    def own(self) -> str:
        """The name of this broker."""
        return self._peers.members.own

    @property
    def isMeta(self) -> bool:
        """Whether this broker answers for the whole account."""
        return self._peers.answersFor(self.account.name)

    @property
    def isSilent(self) -> bool:
        """Whether the store accepts requests but does not answer."""
        return self._peers.isSilent

    @abstractmethod
    def leads(self, name: str) -> bool:
        """Whether this broker serves a stream."""

    @abstractmethod
    async def configs(self) -> dict[str, StreamConfig]:
        """The configurations of all streams of the account, of all brokers."""

    @abstractmethod
    async def exists(self, name: str) -> bool:
        """Whether there is a stream, on any broker."""

    @abstractmethod
    async def leaders(self) -> dict[str, str | None]:
        """The leaders of the account's logs; C{None} for none."""

    @abstractmethod
    async def refresh(self) -> None:
        """Find out which brokers are running. A broker that has just started counts."""

    @abstractmethod
    def verify(self, name: str) -> Deferred[None] | None:
        """
        Whether this broker still leads a stream; C{None}, without asking, if no other broker can
        have taken it by now.
        """

    @abstractmethod
    async def stepDown(self, stream: Stream, placement: Placement | None) -> None:
        """
        Have another broker lead a stream.

        @raise natsbroker.jetstream.model.errors.JetStreamError: if there is none that may.
        """

    @abstractmethod
    async def forgotten(self, name: str) -> None:
        """Forget a deleted stream: another broker may create one of its name."""

    @abstractmethod
    def close(self) -> None:
        """Answer no more requests."""

    def fitting(self, placement: Placement | None) -> Sequence[str]:
        """The brokers that may lead a new stream."""
        members = self.members
        return [] if members is None else members.fitting(placement)

    def successor(self, name: str) -> Deferred[str]:
        """
        Wait for the broker to which a stream is being handed over.

        @return: empty if it is not, or not soon.
        """
        return succeed("")

    def isRepeated(self, message: Message, times: int = 1) -> bool:
        """
        Whether a request was handled before. A request can come twice, from its client and from the
        former leader.

        @param times: -1 for a request that the former leader has passed on.
        """
        return False

    def _decoded(self, values: Iterable[bytes]) -> dict[str, StreamConfig]:
        """Stored configurations. Known ones stay the same objects."""
        known, self._configs = self._configs, {}
        for value in values:
            config = known.get(value)
            if config is None:
                config = configOf(value)
            self._configs[value] = config
        return {stream.name: stream for stream in self._configs.values()}

    def _logOf(self, name: str) -> str:
        return logName(self.account.name, name)

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
        """Report that this broker leads a consumer, if it has several replicas."""
        members, stream = self.members, consumer.stream
        replicas = replicasOf(stream.config, consumer.config)
        if members is not None and replicas > 1:
            consumer.core.advise(
                "LEADER_ELECTED",
                "consumer_leader_elected",
                leader=members.own,
                replicas=members.group(replicas),
            )

    # The knowledge of other brokers.

    async def apply(self, fields: dict[str, Any], body: bytes) -> None:
        """Handle an API request that another broker passed on."""
        subject, reply = (
            fields[name].encode("utf-8", "surrogateescape") for name in ("subject", "reply")
        )
        origin = PassedRequester(self.account.name, fields.get("client", {}))
        message = Message(subject, body, reply, fields["headers"], origin)
        if not (fields.get("held") and self.isRepeated(message, -1)):
            await self._untilHeard(reply)
            await self.handle(message)

    async def _untilHeard(self, reply: bytes) -> None:
        """
        Wait for interest in an answer. It comes from the client's broker, and the request came from
        another one, so that either may be first.
        """
        bus, deadlines = self.account.bus, self.account.deadlines
        by = deadlines.now() + HEARING
        while not bus.hasInterest(reply, isRequest=False) and deadlines.now() < by:
            looking = Deferred[None]()
            deadlines.after(_GLANCE, partial(looking.callback, None))
            await looking

    async def passOn(self, leader: str, message: Message, isHeld: bool = False) -> None:
        """
        Have the leader of a stream handle an API request.

        @param isHeld: whether the leader may have received the request itself.
        """
        await self._peers.requests.ask(
            leader,
            "apply",
            message.headers + message.payload,
            account=self.account.name,
            subject=message.subject.decode("utf-8", "surrogateescape"),
            reply=message.reply.decode("utf-8", "surrogateescape"),
            headers=len(message.headers),
            client=clientOf(message, self.account.name),
            held=isHeld,
        )

    async def listed(self, names: Sequence[str]) -> dict[str, Shown]:
        """Those of the given streams that this broker leads, by name."""
        streams = self.account.streams
        return {name: await self.show(streams[name]) for name in names if self.leads(name)}

    async def lists(self, names: Sequence[str]) -> tuple[list[Shown], list[str]]:
        """
        Streams of all brokers.

        @return: the existing ones, in order, and the names of those whose leader does not answer.
        """
        leaders = await self.leaders()
        byLeader: dict[str, list[str]] = {}
        for name in names:
            byLeader.setdefault(leaders.get(self._logOf(name)) or "", []).append(name)
        own = self.own
        byLeader.pop("", None)
        infos = await self.listed(byLeader.pop(own, []))
        asked = [
            self._peers.requests.ask(leader, "list", account=self.account.name, names=theirs)
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
        return [await self.usage(), *(await self._othersUsages())]

    async def _othersUsages(self) -> list[Shown]:
        members = self._peers.members
        others = [peer for peer in members.alive if peer != members.own]
        asked = [
            self._peers.requests.ask(peer, "usage", account=self.account.name) for peer in others
        ]
        return await _answers(asked)


def configOf(stored: bytes) -> StreamConfig:
    """The configuration of a stream as its account's state has it."""
    return finish(documentOf(json.loads(stored)["config"], StreamConfig))


async def _answers(asked: Sequence[Deferred[Shown]]) -> list[Shown]:
    for asking in asked:
        asking.addErrback(lambda failure: failure.trap(BrokerError) and None)
    answers = await gatherResults(asked)
    return [answer for answer in answers if answer is not None]
