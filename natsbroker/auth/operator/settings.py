"""
The settings of operator mode, spelled like the configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsbroker.config.tls import TLSSettings

MEMORY = "memory"
FULL = "full"
CACHE = "cache"
URL = "url"
GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Resolver:
    """
    @ivar type: L{MEMORY}, L{FULL}, L{CACHE}, L{URL}, or L{GIVEN} for the object of an embedder.
    @ivar url: of an account server, without the public key.
    @ivar dir: the folder of C{full} and C{cache}.
    @ivar limit: the most JWTs in the folder; 0 for any number, or for the default of C{cache}.
    @ivar interval: seconds between requests to other servers; 0 for the default.
    @ivar ttl: seconds for which C{cache} keeps an unused JWT; 0 for until it expires.
    @ivar timeout: seconds for a request to another server; 0 for the default.
    """

    type: str = MEMORY
    url: str = field(default="", repr=False)
    dir: str = ""
    allow_delete: bool = False
    hard_delete: bool = False
    limit: int = 0
    interval: float = 0.0
    ttl: float = 0.0
    timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class OperatorMode:
    """
    By default, there are no operators.

    @ivar resolver: C{None} where the operator's JWT has it.
    @ivar resolver_preload: JWTs of accounts by public key.
    @ivar resolver_pinned_accounts: the only accounts whose users may connect; C{None} for all.
    @ivar default_sentinel: the JWT of users that send none; empty for none.
    """

    operators: tuple[str, ...] = ()
    trusted_keys: tuple[str, ...] = ()
    resolver: Resolver | None = None
    resolver_tls: TLSSettings | None = None
    resolver_preload: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolver_pinned_accounts: tuple[str, ...] | None = None
    default_sentinel: str = field(default="", repr=False)

    @property
    def isOn(self) -> bool:
        return bool(self.operators or self.trusted_keys)
