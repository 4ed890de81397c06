"""
The C{gateway} block as frozen values, with the defaults of nats-server 2.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.config.tls import TLSSettings


@dataclass(frozen=True, slots=True)
class RemoteGateway:
    """
    One of C{gateways}: another cluster.

    @ivar urls: where its members are.
    @ivar tls: for dialling them; C{None} for the TLS of the block.
    """

    name: str
    urls: tuple[str, ...] = field(default=(), repr=False)
    tls: TLSSettings | None = None


@dataclass(frozen=True, slots=True)
class InterestPolicy:
    """
    The C{interest} block.

    @ivar plugin: empty for the built-in policy.
    @ivar options: every other key of the block.
    """

    plugin: str = ""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Gateway:
    """
    A C{gateway} block.

    @ivar name: of our gateway, and so of our cluster.
    @ivar port: where gateways are listened for; 0 for nowhere, -1 for a random one.
    @ivar user: for gateways that connect here; empty for no login.
    @ivar timeout: seconds for the login; 0 for the default.
    @ivar advertise: C{host} or C{host:port} that is announced to others.
    @ivar connect_retries: further attempts to reach a cluster known from gossip.
    @ivar connect_backoff: the pause between attempts grows.
    @ivar gateways: the clusters that are dialled.
    @ivar reject_unknown_cluster: accept and dial no others.
    @ivar write_deadline: seconds; 0 for the clients'.
    @ivar insecure_listen: the operator accepts that anybody who reaches the port is a gateway.
    """

    name: str = ""
    host: str = "0.0.0.0"
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 0.0
    tls: TLSSettings | None = None
    advertise: str = ""
    connect_retries: int = 0
    connect_backoff: bool = False
    gateways: tuple[RemoteGateway, ...] = ()
    reject_unknown_cluster: bool = False
    write_deadline: float = 0.0
    insecure_listen: bool = False
    interest: InterestPolicy = field(default_factory=InterestPolicy)

    @property
    def isOn(self) -> bool:
        return bool(self.name and self.port)
