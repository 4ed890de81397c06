"""
What messages of the broker say about the broker.

Promises: the members of nats-server's C{ServerInfo}; each description has the next number.
Must never know: who is told, or what else a message says.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from natsbroker.auth.answering import Describe
from natsbroker.clients.info import ServerInfo
from natsbroker.config.model import Settings
from natsbroker.wire.instants import instant

__all__ = ["describing", "identifying"]


def describing(info: Callable[[], ServerInfo], now: Callable[[], float]) -> Describe:
    """
    Make what describes a broker.

    @param info: tells what INFO says now.
    @param now: tells the time, in seconds since the epoch.
    """
    numbers = count(1)

    def describe() -> dict[str, Any]:
        known = info()
        cluster = {"cluster": known.cluster} if known.cluster else {}
        return {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            **cluster,
            "ver": known.version,
            "jetstream": known.jetstream,
            "flags": 0,
            "seq": next(numbers),
            "time": instant(now()),
        }

    return describe


def identifying(info: Callable[[], ServerInfo], settings: Callable[[], Settings]) -> Describe:
    """
    Make what names a broker to auth callout services.

    @param info: tells what INFO says now.
    @param settings: tells the settings in force.
    """

    def identify() -> dict[str, Any]:
        known, tags = info(), settings().server_tags
        named = {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            "version": known.version,
        }
        return {**named, "tags": list(tags)} if tags else named

    return identify
