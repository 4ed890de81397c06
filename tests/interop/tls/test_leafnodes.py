"""
TLS between hubs and spokes: impostors to which spokes must send nothing, and natsbroker and
nats-server with each other.

The certificates are those of L{tests.interop.tls.test_dialling}. The handshake comes after INFO,
unless both sides have it first. Impostors with the handshake first are dialled in
L{tests.interop.tls.test_routes}.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.leafnodes.brokers import Ends
from tests.interop.servers import OURS_FAST, REAL, Flavour
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.dialled import CONNECTED
from tests.interop.tls.impostors import Impostor
from tests.interop.tls.links import DIALLED, TAKEN_BY_REAL, wait

INFO = (
    b"INFO %b\r\n"
    % json.dumps(
        {
            "server_id": "IMPOSTOR",
            "server_name": "impostor",
            "client_id": 1,
            "nonce": "x",
            "tls_required": True,
            "leafnode_urls": ["127.0.0.1:1"],
            "info_on_connect": True,
        }
    ).encode()
)

SPOKE = """
server_name: spoke
leafnodes {{ remotes: [ {1} ] }}
"""

REMOTE = """{{
    url: "tls://u:secret@{1}:{2}", ignore_discovered_servers: true
    tls {{ ca_file: "{0}/ca.pem", timeout: 5 }}
}}"""


@pytest.mark.parametrize("flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name)
def test_impostors(flavour: Flavour, startServer: StartServer, tmp_path: Path) -> None:
    """
    A spoke sends something only to a hub with a certificate of the right authority for the dialled
    name.
    """
    ours, theirs = authority(bits=2056), authority("CN=another authority")
    ours.write(tmp_path, "ca")
    impostors: dict[str, Impostor] = {}
    for name, case in DIALLED.items():
        made = case.make(ours, theirs)
        impostors[name] = Impostor(tmp_path, made[0], *made[1:], greeting=INFO, **case.more)
    remotes = [
        REMOTE.format(tmp_path, DIALLED[name].host, impostors[name].port) for name in impostors
    ]
    server = startServer(flavour, SPOKE.format("", ", ".join(remotes)))
    try:
        wait(impostors)
    finally:
        server.stop()
        for impostor in impostors.values():
            impostor.close()
    told = {name for name, impostor in impostors.items() if impostor.told}
    expected = {name for name, case in DIALLED.items() if case.outcome == CONNECTED}
    assert told == (expected | TAKEN_BY_REAL if flavour is REAL else expected)


def test_downgrade(startServer: StartServer, tmp_path: Path) -> None:
    """A remote that requires TLS sends nothing in clear text to a hub without TLS."""
    authority(bits=2056).write(tmp_path, "ca")
    greeting = INFO.replace(b'"tls_required": true', b'"tls_required": false')
    impostor = Impostor(tmp_path, None, greeting=greeting)
    try:
        remote = REMOTE.format(tmp_path, "localhost", impostor.port)
        server = startServer(OURS_FAST, SPOKE.format("", remote))
        wait({"downgrade": impostor})
        server.stop()
    finally:
        impostor.close()
    assert impostor.told.startswith(b"\x16") and b"secret" not in impostor.told


HUB = """
server_name: hub
accounts {{ A {{ users: [ {{user: a, password: a}} ] }} }}
leafnodes {{
    listen: "127.0.0.1:-1"
    tls {{ cert_file: "{0}/hub.pem", key_file: "{0}/hub-key.pem", ca_file: "{0}/ca.pem"
           verify: true
           {1} }}
}}
"""

MUTUAL = """
server_name: spoke
accounts {{ A {{ users: [ {{user: a, password: a}} ] }} }}
leafnodes {{
    remotes: [ {{
        url: "tls://a:a@localhost:{2}", account: A
        tls {{ cert_file: "{0}/spoke.pem", key_file: "{0}/spoke-key.pem", ca_file: "{0}/ca.pem"
              {1} }}
    }} ]
}}
"""


@pytest.mark.parametrize("first", ["", "handshake_first: true"], ids=["after INFO", "first"])
@pytest.mark.parametrize(
    "hub, spoke",
    [(OURS_FAST, REAL), (REAL, OURS_FAST), (OURS_FAST, OURS_FAST)],
    ids=lambda flavour: flavour.name,
)
def test_mutual(
    hub: Flavour, spoke: Flavour, first: str, startServer: StartServer, tmp_path: Path
) -> None:
    """Hub and spoke both send a certificate, before INFO or after it, and messages pass."""
    ours = authority(bits=2056)
    ours.write(tmp_path, "ca")
    issue(ours, "CN=hub", names=["localhost"]).write(tmp_path, "hub")
    issue(ours, "CN=spoke", names=["spoke"]).write(tmp_path, "spoke")
    above = startServer(hub, HUB.format(tmp_path, first))
    port = above.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1]
    below = startServer(spoke, MUTUAL.format(tmp_path, first, port))
    ends = Ends([(above, "a"), (below, "a")])
    ends.form()
    ends.close()


def test_noCertificate(startServer: StartServer, tmp_path: Path) -> None:
    """A remote without a certificate is refused by a hub that requires one."""
    ours = authority(bits=2056)
    ours.write(tmp_path, "ca")
    issue(ours, "CN=hub", names=["localhost"]).write(tmp_path, "hub")
    above = startServer(OURS_FAST, HUB.format(tmp_path, ""))
    port = above.waitForLog(r"Listening for leafnode connections on \S+:(\d+)")[1]
    startServer(REAL, SPOKE.format("", REMOTE.format(tmp_path, "localhost", port)))
    above.waitForLog("TLS handshake error")
    above.waitForLog("Leafnode connection closed: TLS Handshake Failure")
