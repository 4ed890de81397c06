"""
The subjects of a cluster, and valid names of clients and channels.

Channels are those of nats-streaming-server: tokens joined by full stops, without C{/}, C{*} and
C{>}. Spaces, control characters and names over L{LONGEST_CHANNEL} bytes are refused as well,
because permissions name channels in subjects.
"""

from __future__ import annotations

import re
from functools import lru_cache

from natsbroker.subjects.grammar import isValidSubject

#: In bytes of UTF-8. With a cluster id it must fit into the name of a log.
LONGEST_CHANNEL = 300
LONGEST_CLUSTER_ID = 64

_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]+")
_FORBIDDEN = re.compile(rb"[/*>]")


def isClientID(text: str) -> bool:
    return _CLIENT_ID.fullmatch(text) is not None


@lru_cache(1024)
def isChannel(name: bytes) -> bool:
    return len(name) <= LONGEST_CHANNEL and isValidSubject(name) and _FORBIDDEN.search(name) is None


class RequestSubjects:
    """
    The subjects of requests. C{unsubscribe} ends a subscription for good; C{subClose} keeps a
    durable one.
    """

    def __init__(self, clusterId: str, discoverPrefix: str = "_STAN.discover") -> None:
        """Raise C{ValueError} for a cluster id or a prefix that cannot stand in a subject."""
        encoded = clusterId.encode("utf-8", "surrogateescape")
        if not isChannel(encoded) or len(encoded) > LONGEST_CLUSTER_ID:
            raise ValueError(f'invalid cluster id "{clusterId}"')
        if not isChannel(discoverPrefix.encode("utf-8", "surrogateescape")):
            raise ValueError(f'invalid discover prefix "{discoverPrefix}"')
        self.discover = f"{discoverPrefix}.{clusterId}".encode()
        self.pings = self.discover + b".pings"
        self.publish = f"_STAN.pub.{clusterId}".encode()
        self.subscribe = f"_STAN.sub.{clusterId}".encode()
        self.unsubscribe = f"_STAN.unsub.{clusterId}".encode()
        self.subClose = f"_STAN.subclose.{clusterId}".encode()
        self.close = f"_STAN.close.{clusterId}".encode()
