"""
What the settings say of the JetStream of nats-servers in the same cluster, or beyond gateways and
leafnodes. There is none here: requests of clients go to those servers.

This module promises frozen values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["JetStream"]


@dataclass(frozen=True, slots=True)
class JetStream:
    """
    What is said of JetStream.

    @ivar domain: the domain that this broker belongs to; empty for none.
    @ivar will_extend: without a domain, leafnodes may belong to the same JetStream.
    @ivar default_domains: by account: the domain behind a leafnode that answers requests that name
        none; an empty one takes the barrier between the two away.
    """

    domain: str = ""
    will_extend: bool = False
    default_domains: Mapping[str, str] = field(default_factory=dict)

    @property
    def isSaid(self) -> bool:
        """
        Whether anything is.
        """
        return self != JetStream()
