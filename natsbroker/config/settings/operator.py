"""
The settings of operator mode, spelled like the configuration file.
docs/reference/configuration.md has the meaning of each key.
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
