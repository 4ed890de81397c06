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
from natsbroker.net.info import ServerInfo
from natsbroker.stats.formats import instant

__all__ = ["describing"]


def describing(info: Callable[[], ServerInfo], now: Callable[[], float]) -> Describe:
    """
    Make what describes a broker.

    @param info: tells what INFO says now.
    @param now: tells the time, in seconds since the epoch.
    """
    numbers = count(1)

    def describe() -> dict[str, Any]:
        known = info()
        return {
            "name": known.server_name,
            "host": known.host,
            "id": known.server_id,
            "ver": known.version,
            "jetstream": known.jetstream,
            "flags": 0,
            "seq": next(numbers),
            "time": instant(now()),
        }

    return describe
