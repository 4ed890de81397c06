"""
The C{gateway} block as frozen values, with the defaults of nats-server 2.15.
docs/reference/configuration.md has the meaning of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.config.settings.listeners import ListenerSettings
from natsbroker.config.tls import TLSSettings


@dataclass(frozen=True, slots=True)
class RemoteGateway:
    """
    @ivar tls: for dialling its members; C{None} for the TLS of the block.
    """

    name: str
    urls: tuple[str, ...] = field(default=(), repr=False)
    tls: TLSSettings | None = None


@dataclass(frozen=True, slots=True)
class InterestPolicy:
    plugin: str = ""
    options: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Gateway(ListenerSettings):
    gateways: tuple[RemoteGateway, ...] = ()
    reject_unknown_cluster: bool = False
    interest: InterestPolicy = field(default_factory=InterestPolicy)

    @property
    def isOn(self) -> bool:
        return bool(self.name and self.port)
