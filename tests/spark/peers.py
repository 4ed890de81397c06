"""
The peer of a connection under test.
"""

from __future__ import annotations

from typing import Any

from natsbroker.spark.nats.addresses import ServerAccess, readAddresses
from tests.interop.servers import Server


def peerOf(server: Server, **options: Any) -> ServerAccess:
    """
    @return: how to reach a server.
    """
    return ServerAccess(readAddresses(server.url), **options)
