"""
The peer of a connection under test.
"""

from __future__ import annotations

from natsbroker.spark.addresses import TLS, readAddresses
from natsbroker.spark.connection import Peer
from natsbroker.spark.identity import Identity
from tests.interop.servers import Server


def peerOf(server: Server, identity: Identity | None = None, tls: TLS | None = None) -> Peer:
    """
    @return: how to reach a server.
    """
    return Peer(readAddresses(server.url), identity or Identity(), tls or TLS())
