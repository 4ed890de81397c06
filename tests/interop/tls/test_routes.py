"""
Servers that must not become members of a cluster: nats-server and natsbroker dial impostors as
routes.

The certificates are those of L{tests.interop.tls.test_dialling}; on routes, TLS is there before
anything is said.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, PATIENCE, REAL, Flavour
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.impostors import Impostor
from tests.interop.tls.test_dialling import CASES, CONNECTED

#: What is on this machine, and shows a certificate.
DIALLED = {
    name: case
    for name, case in CASES.items()
    if case.host in ("localhost", "127.0.0.1") and "greeting" not in case.more
}

#: What nats-server takes: Go has nothing against RSA keys of 1024 bits.
TAKEN_BY_REAL = {"short key"}

CONFIG = """
cluster {{
    name: c
    listen: "127.0.0.1:-1"
    tls {{ cert_file: "{0}/member.pem", key_file: "{0}/member-key.pem", ca_file: "{0}/ca.pem"
           timeout: 5 }}
    routes: [ {1} ]
}}
"""


def wait(impostors: dict[str, Impostor]) -> None:
    """
    Wait until each was dialled: until it was told something, or has lost its caller.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if all(each.told or each.isOver for each in impostors.values()):
            return
        time.sleep(0.05)


@pytest.mark.parametrize("flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name)
def test_routes(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """Only who shows a certificate for the name that was dialled, and of the right authority, is
    told anything."""
    ours, theirs = authority(bits=2056), authority("CN=another authority")
    ours.write(tmp_path, "ca")
    issue(ours, "CN=member", names=["localhost"]).write(tmp_path, "member")
    impostors: dict[str, Impostor] = {}
    # At an address nats-server is content with the name of another route, sometimes.
    cases = {
        name: case
        for name, case in DIALLED.items()
        if flavour is not REAL or case.host == "localhost"
    }
    for name, case in cases.items():
        made = case.make(ours, theirs)
        impostors[name] = Impostor(tmp_path, made[0], *made[1:], greeting=b"", **case.more)
    routes = [f'"nats://{DIALLED[name].host}:{impostors[name].port}"' for name in impostors]
    server = startServer(flavour, CONFIG.format(tmp_path, ", ".join(routes)))
    try:
        wait(impostors)
    finally:
        server.stop()
        for impostor in impostors.values():
            impostor.close()
    told = {name for name, impostor in impostors.items() if impostor.told}
    expected = {name for name, case in cases.items() if case.outcome == CONNECTED}
    assert told == (expected | TAKEN_BY_REAL if flavour is REAL else expected)
