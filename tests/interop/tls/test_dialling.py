"""
Servers that natsbroker's client must not send anything to, and right ones.

The code that dials and checks certificates is the same for clients and for links between servers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.interop.servers import CHECKOUT, PATIENCE
from tests.interop.tls.authority import authority
from tests.interop.tls.dialled import CASES, CONNECTED
from tests.interop.tls.dialling import PASSWORD
from tests.interop.tls.impostors import Impostor

WILD: dict[str, Any] = {"names": ["*.b.example"]}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bytes]]:
    """The result of each attempt: the error of the client, and the log of the server."""
    place = tmp_path_factory.mktemp("dialling")
    # OpenSSL signs with any digest where the key is an RSA key; this one is nobody else's.
    ours, theirs = authority(bits=2056), authority("CN=another authority")
    ours.write(place, "ca")
    servers: dict[str, Impostor] = {}
    for name, case in CASES.items():
        made: list[Any] = [*case.make(ours, theirs)] or [None]
        servers[name] = Impostor(place, *made, **case.more)
    dialled = [f"{name}={servers[name].port}={case.host}" for name, case in CASES.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.tls.dialling", str(place / "ca.pem"), *dialled],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 3,
        check=False,
    )
    for server in servers.values():
        server.close()
    # Twisted writes there what was wrong with a name.
    assert done.returncode == 0, done.stderr
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    return {name: (said[name], server.told) for name, server in servers.items()}


@pytest.mark.parametrize("name", CASES)
def test_outcome(outcomes: dict[str, tuple[str, bytes]], name: str) -> None:
    """
    The client logs in to the right server only. It sends nothing to any other, in particular no
    password.
    """
    outcome, told = outcomes[name]
    assert outcome.startswith(CASES[name].outcome), outcome
    if CASES[name].outcome == CONNECTED:
        assert PASSWORD.encode() in told
    else:
        assert told == b""
