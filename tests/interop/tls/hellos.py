"""
ClientHello messages with chosen versions.
"""

from __future__ import annotations

import ssl

import pytest

from tests.interop.tls.wire import contextFor

ANY = contextFor()


def hello(context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO, bytes]:
    """
    @return: a client in memory, the buffer that it reads from, and the first bytes of its
        handshake.
    """
    source, target = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(source, target, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return client, source, target.read()
