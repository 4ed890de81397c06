"""
The peer of a connection under test.
"""

from __future__ import annotations

from natsbroker.spark.nats.addresses import TLSOptions, readAddresses
from natsbroker.spark.nats.connection import ServerAccess
from natsbroker.spark.nats.credentials import Credentials
from tests.interop.servers import Server


def peerOf(
    server: Server, identity: Credentials | None = None, tls: TLSOptions | None = None
) -> ServerAccess:
    """
    @return: how to reach a server.
    """
    return ServerAccess(readAddresses(server.url), identity or Credentials(), tls or TLSOptions())
