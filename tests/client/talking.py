"""
A program with the client and a real reactor: C{python -m tests.client.talking PORT [CA [NAME]]}.

It connects, receives its own message and prints that; or it prints what went wrong. With C{CA}
it wants TLS with a certificate of that authority for NAME.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.task import react

from natsbroker.client.client import Client
from natsbroker.client.connecting import connect
from natsbroker.wire.values import Message

_SIZE = 300_000


async def talk(client: Client) -> str:
    """Publish a message to oneself that is large enough for many packets."""
    heard: Deferred[Message] = Deferred()
    client.subscribe(b"myself", heard.callback)
    client.publish(b"myself", b"x" * _SIZE)
    message = await heard
    await client.drain()
    return f"heard {len(message.payload)} bytes, TLS {bool(client.info.get('tls_required'))}"


async def main(reactor: Any, port: str, authority: str = "", name: str = "localhost") -> None:
    """Connect, and exchange a message."""
    tls = None
    if authority:
        load: Any = Certificate.loadPEM
        tls = optionsForClientTLS(name, trustRoot=load(Path(authority).read_bytes()))
    endpoint: Any = TCP4ClientEndpoint
    try:
        client = await connect(endpoint(reactor, "127.0.0.1", int(port)), tls=tls, timeout=20)
        print(await talk(client))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    react(main, sys.argv[1:])
