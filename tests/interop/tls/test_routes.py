"""
Impostors that nats-server and natsbroker dial as members of their cluster, as hubs of their
leafnodes, and as other clusters.

The certificates are those of L{tests.interop.tls.test_dialling}, and TLS begins before anything is
sent.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.conftest import StartServer
from tests.interop.servers import OURS_FAST, REAL, Flavour
from tests.interop.tls.authority import authority, issue
from tests.interop.tls.dialled import CONNECTED
from tests.interop.tls.impostors import Impostor
from tests.interop.tls.links import DIALLED, TAKEN_BY_REAL, wait

ROUTES = """
cluster {{
    name: c
    listen: "127.0.0.1:-1"
    tls {{ cert_file: "{0}/member.pem", key_file: "{0}/member-key.pem", ca_file: "{0}/ca.pem"
           timeout: 5 }}
    routes: [ {1} ]
}}
"""

LEAFNODES = """
leafnodes {{
    remotes: [ {1} ]
}}
"""

#: One of these. Its CA is the file's, and what it shows is the member's.
REMOTE = """
    {{ url: "{url}", tls {{ cert_file: "{0}/member.pem", key_file: "{0}/member-key.pem"
       ca_file: "{0}/ca.pem", timeout: 5, handshake_first: true }} }},
"""


GATEWAYS = """
gateway {{
    name: here
    listen: "127.0.0.1:-1"
    tls {{ cert_file: "{0}/member.pem", key_file: "{0}/member-key.pem", ca_file: "{0}/ca.pem"
           timeout: 5 }}
    gateways: [ {1} ]
}}
"""


def routes(place: Path, addresses: list[str]) -> str:
    """Settings of a server that dials members of a cluster."""
    return ROUTES.format(place, ", ".join(f'"nats://{address}"' for address in addresses))


def remotes(place: Path, addresses: list[str]) -> str:
    """Settings of a server that dials hubs."""
    every = (REMOTE.format(place, url=f"tls://{address}") for address in addresses)
    return LEAFNODES.format(place, "".join(every).strip(", \n"))


def gateways(place: Path, addresses: list[str]) -> str:
    """Settings of a server that dials other clusters."""
    every = (
        f'{{ name: "there{number}", url: "nats://{address}" }}'
        for number, address in enumerate(addresses)
    )
    return GATEWAYS.format(place, ", ".join(every))


#: What an impostor, by its number, sends to its victim: a peer that dials a hub or another
#: cluster waits for that.
_SAID: dict[Callable[[Path, list[str]], str], str] = {
    routes: "",
    remotes: 'INFO {"server_id":"S","server_name":"S","version":"2.15.1","proto":1,"headers":true,'
    '"tls_required":true,"max_payload":1000,"client_id":1,"leafnode_urls":["127.0.0.1:1"]} \r\n',
    gateways: 'INFO {"server_id":"S%d","server_name":"S%d","version":"2.15.1","proto":3,'
    '"headers":true,"tls_required":true,"max_payload":1000,"host":"127.0.0.1","port":1,'
    '"gateway":"there%d","gateway_url":"127.0.0.1:1","gateway_nrp":true} \r\n',
}


@pytest.mark.parametrize("settings", (routes, remotes, gateways))
@pytest.mark.parametrize("flavour", (REAL, OURS_FAST), ids=lambda flavour: flavour.name)
def test_routes(
    flavour: Flavour,
    settings: Callable[[Path, list[str]], str],
    startServer: StartServer,
    tmp_path: Path,
) -> None:
    """
    A server sends something only to a peer with a certificate of the right authority for the
    dialled name.
    """
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
    for number, (name, case) in enumerate(cases.items()):
        made = case.make(ours, theirs)
        said = _SAID[settings].replace("%d", str(number)).encode()
        impostors[name] = Impostor(
            tmp_path, made[0], *made[1:], greeting=b"", inside=said, **case.more
        )
    addresses = [f"{DIALLED[name].host}:{impostors[name].port}" for name in impostors]
    server = startServer(flavour, settings(tmp_path, addresses))
    try:
        wait(impostors)
    finally:
        server.stop()
        for impostor in impostors.values():
            impostor.close()
    told = {name for name, impostor in impostors.items() if impostor.told}
    expected = {name for name, case in cases.items() if case.outcome == CONNECTED}
    assert told == (expected | TAKEN_BY_REAL if flavour is REAL else expected)
