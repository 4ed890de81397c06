"""The brokers that share a JetStream: the places of a stream, and its leader in infos."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.consumerconfig import ConsumerConfig
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.wire.timestamps import formatTime

_NO_PEERS = "no suitable peers for placement"


def peerId(name: str) -> str:
    """The id of a server in infos: 8 characters that its name determines."""
    return sha256(name.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class JetStreamPeer:
    """A broker that was known to be alive C{age} seconds ago, with its C{server_tags}."""

    name: str
    age: float = 0.0
    isAlive: bool = True
    tags: tuple[str, ...] = ()

    def hasTags(self, tags: Collection[str]) -> bool:
        """Whether it has all of some tags, and none of those with C{!}."""
        own = {tag.lower() for tag in self.tags}
        return all(
            (tag[1:].lower() not in own) if tag[:1] == "!" else tag.lower() in own for tag in tags
        )


@dataclass(frozen=True)
class JetStreamPeers:
    """
    The brokers that share a JetStream.

    @ivar own: the name of this broker.
    @ivar meta: the name of the broker that answers for whole accounts; empty for none.
    """

    cluster: str
    own: str
    members: Mapping[str, JetStreamPeer] = field(default_factory=dict)
    meta: str = ""

    @property
    def alive(self) -> list[str]:
        """The names of the brokers that are alive, sorted."""
        return sorted(name for name, peer in self.members.items() if peer.isAlive)

    def knows(self, peer: str) -> bool:
        """Whether a name or an id is that of a broker."""
        return bool(self.nameOf(peer))

    def nameOf(self, peer: str) -> str:
        """The name of a broker, from its name or its id; empty for an unknown one."""
        return next((name for name in self.members if peer in (name, peerId(name))), "")

    def fitting(self, placement: Placement | None) -> list[str]:
        """The names of the brokers that are alive and that a placement permits."""
        if placement is None:
            return self.alive
        if placement.cluster not in ("", self.cluster):
            return []
        return [peer for peer in self.alive if self.members[peer].hasTags(placement.tags)]

    def check(self, config: StreamConfig) -> None:
        """Raise L{errors.JetStreamError} if there are not enough brokers for a stream."""
        placement = config.placement
        if len(self.fitting(placement)) >= config.num_replicas:
            return
        text = _NO_PEERS
        if placement is not None and placement.tags and placement.cluster in ("", self.cluster):
            tags = " ".join(f"'{tag}'" for tag in placement.tags)
            text = f"{_NO_PEERS}, tags not matched [{tags}]"
        raise errors.CLUSTER_NO_PEERS(err=text)

    def replacement(
        self, placement: Placement | None, leader: str, loads: Mapping[str, int]
    ) -> str:
        """
        The broker that takes over from a leader that steps down; C{loads} are the numbers of
        streams that each leads.

        @raise errors.JetStreamError: if there is none.
        """
        wanted = placement or Placement()
        if wanted.preferred == leader:
            text = f'preferred server "{leader}" is already leader'
            raise errors.CLUSTER_NO_PEERS(err=text)
        fitting = [peer for peer in self.fitting(placement) if peer != leader]
        if wanted.preferred:
            if wanted.preferred not in self.alive:
                text = f'preferred server "{wanted.preferred}" not known'
                raise errors.CLUSTER_NO_PEERS(err=text)
            fitting = [peer for peer in fitting if peer == wanted.preferred]
        if not fitting:
            raise errors.CLUSTER_NO_PEERS(err="no replacement peer connected")
        return min(fitting, key=lambda peer: loads.get(peer, 0))

    def taker(self, log: str) -> str:
        """
        The broker that takes a log without a leader first. All brokers compute the same one, which
        spreads the logs.
        """
        return min(
            self.alive, key=lambda peer: sha256(f"{peer} {log}".encode()).digest(), default=self.own
        )

    def shownStream(self, config: StreamConfig, since: int) -> dict[str, Any]:
        """The C{cluster} in the info of a stream that this broker leads since a time."""
        kind = "F" if config.storage is StorageType.FILE else "M"
        return self._shown(
            f"S-R{config.num_replicas}{kind}", config.name, config.num_replicas, since
        )

    def shownConsumer(
        self, stream: StreamConfig, name: str, config: ConsumerConfig, since: int
    ) -> dict[str, Any]:
        """The C{cluster} in the info of a consumer."""
        replicas = replicasOf(stream, config)
        kind = "F" if stream.storage is StorageType.FILE and not config.mem_storage else "M"
        return self._shown(f"C-R{replicas}{kind}", f"{stream.name}.{name}", replicas, since)

    def _shown(self, kind: str, name: str, replicas: int, since: int) -> dict[str, Any]:
        if replicas < 2:
            return {"name": self.cluster, "leader": self.own}
        return {
            "name": self.cluster,
            "raft_group": f"{kind}-{peerId(name)}",
            "leader": self.own,
            "leader_since": formatTime(since),
            "replicas": self.replicas(replicas),
        }

    def replicas(self, count: int) -> list[dict[str, Any]]:
        """
        The other brokers among the replicas of an asset that this broker leads. Those that are
        alive come first. Their data is current, because it is in the database.
        """
        others = sorted(
            (member for member in self.members.values() if member.name != self.own),
            key=lambda member: (not member.isAlive, member.name),
        )
        return [
            _replica(other) for other in sorted(others[: count - 1], key=lambda member: member.name)
        ]

    def metaCluster(self) -> dict[str, Any]:
        """The cluster in C{/jsz}. One broker is enough, because the database has the quorum."""
        leader = {"leader": self.meta, "peer": peerId(self.meta)} if self.meta else {}
        return {
            "name": self.cluster,
            **leader,
            "replicas": self.replicas(len(self.members)),
            "cluster_size": len(self.members),
            "quorum_needed": 1,
            "pending": 0,
            "pending_requests": 0,
            "pending_infos": 0,
        }

    def group(self, count: int) -> list[dict[str, Any]]:
        """All replicas of an asset that this broker leads, as advisories show them."""
        return [_replica(JetStreamPeer(self.own)), *self.replicas(count)]


def _replica(member: JetStreamPeer) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": member.name, "current": member.isAlive}
    if not member.isAlive:
        shown["offline"] = True
    shown["active"] = round(member.age * 1e9)
    shown["peer"] = peerId(member.name)
    return shown


def replicasOf(stream: StreamConfig, config: ConsumerConfig) -> int:
    """
    The number of replicas of a consumer. Without its own number, a durable consumer has that of its
    stream.
    """
    if config.num_replicas:
        return config.num_replicas
    return stream.num_replicas if config.durable_name else 1


class SharedAccount(Protocol):
    """The part of an account in a JetStream that several brokers serve."""

    @property
    def members(self) -> JetStreamPeers | None:
        """The brokers of the cluster; C{None} for a broker that is in none."""

    def verify(self, name: str) -> Deferred[None] | None:
        """
        Ask whether this broker still leads a stream, as L{ILeasedStore.verify} does; C{None} if no
        other broker can have taken it by now.
        """

    async def refresh(self) -> None:
        """Look at the brokers again."""

    async def configs(self) -> dict[str, StreamConfig]:
        """The configurations of all streams of the account, of all brokers."""

    async def lists(self, names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """
        Streams as lists show them, sorted, and the names of those whose leader does not answer.
        """

    async def usages(self) -> list[dict[str, Any]]:
        """The account's usage in each broker."""

    def countElsewhere(self) -> None:
        """Count again what other brokers store, where limits hold for all together."""

    def reservedElsewhere(self, storage: StorageType) -> int:
        """
        The bytes that streams of other brokers reserve, where limits hold for all together.
        """

    async def stepDown(self, stream: Any, placement: Placement | None) -> None:
        """Have another broker lead a stream."""

    async def forgotten(self, name: str) -> None:
        """Forget a deleted stream: another broker may create one of its name."""

    def elected(self, stream: Any) -> None:
        """Report that this broker leads a stream."""

    def consumerElected(self, consumer: Any) -> None:
        """Report that this broker leads a consumer."""
