"""
What a broker in operator mode is told, as frozen values.

This module promises plain, comparable, immutable data, spelled like the configuration file.
It must never know what a JWT says, or whether it is true.
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


@dataclass(frozen=True, slots=True)
class Resolver:
    """
    Where the JWTs of accounts are found.

    @ivar type: L{MEMORY}, L{FULL}, L{CACHE} or L{URL}.
    @ivar url: what stands before an account's public key.
    @ivar dir: the folder of C{full} and C{cache}.
    @ivar allow_delete: JWTs of the folder may be deleted.
    @ivar hard_delete: and not only renamed.
    @ivar limit: how many there may be; 0 for any number, or for the default of C{cache}.
    @ivar interval: seconds after which other servers are asked for what they have; 0 for the
        default.
    @ivar ttl: seconds that C{cache} keeps what nobody asks for; 0 for until it expires.
    @ivar timeout: seconds that another server has to answer; 0 for the default.
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
    Everything about operators. By default, there are none.

    @ivar operators: the texts that C{operator} names: JWTs, perhaps between lines of dashes.
    @ivar trusted_keys: public keys of operators, in place of their JWTs.
    @ivar resolver: L{None} where the operator's JWT says it.
    @ivar resolver_tls: for requests to other servers, or L{None}.
    @ivar resolver_preload: JWTs of accounts by public key.
    @ivar resolver_pinned_accounts: the only accounts that users may be of, or L{None} for all.
    @ivar default_sentinel: the JWT of a user that brings none; empty for nobody's.
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
        """
        Whether users need JWTs.
        """
        return bool(self.operators or self.trusted_keys)
