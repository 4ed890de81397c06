"""
A program that dials many servers with natsbroker's client: C{python -m tests.interop.tls.dialling
CA NAME=PORT=HOST...}.

For each server it prints a line of JSON with the name and the result. It sends a password, which a
wrong server must never see.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.task import react

from natsbroker.client.connecting import connect
from natsbroker.client.options import ConnectOptions

PASSWORD = "canary-5f3a"


async def dial(reactor: Any, authority: bytes, port: int, host: str) -> str:
    """Dial one server."""
    load: Any = Certificate.loadPEM
    endpoint: Any = TCP4ClientEndpoint
    try:
        client = await connect(
            endpoint(reactor, "127.0.0.1", port),
            ConnectOptions(user="me", password=PASSWORD),
            tls=optionsForClientTLS(host, trustRoot=load(authority)),
            timeout=20,
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    await client.drain()
    return "connected"


async def main(reactor: Any, authority: str, *servers: str) -> None:
    """Dial all servers, one after the other."""
    pem = Path(authority).read_bytes()
    for server in servers:
        name, port, host = server.split("=")
        outcome = await dial(reactor, pem, int(port), host)
        print(json.dumps([name, outcome]), flush=True)


if __name__ == "__main__":
    react(main, sys.argv[1:])
