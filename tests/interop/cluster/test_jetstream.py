"""
Clients of our member use the JetStream of the nats-servers in its cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.cluster.members import Member, together
from tests.interop.jetstreams import storage, usesJetStream
from tests.interop.servers import OURS_FAST, OURS_PURE, REAL, Flavour

CONFIG = """
server_name: $NAME
$TOP
accounts {
    SYS { users: [ {user: sys, password: sys} ] }
    A { users: [ {user: a, password: a} ], jetstream: enabled }
}
system_account: SYS
cluster {
    name: C1, listen: "127.0.0.1:$PORT"
    authorization { user: u, password: p }
    routes: [ $ROUTES ]
}
"""


@pytest.mark.parametrize("flavour", [OURS_FAST, OURS_PURE], ids=lambda flavour: flavour.name)
def test_mixed(flavour: Flavour, tmp_path: Path) -> None:
    """Streams, both kinds of consumers, acknowledgements and buckets work as on nats-server."""
    members: list[Member] = []
    try:
        for place, kind in enumerate((flavour, REAL, REAL)):
            home = tmp_path / f"n{place}"
            home.mkdir()
            top = storage() if kind is REAL else ""
            routes = [member.routePort for member in members]
            member = Member(kind, home, f"n{place}", routes, top=top, template=CONFIG)
            members.append(member.start())
        for place, member in enumerate(members):
            usesJetStream(member, f"s{place}")
        assert members[0].complaints() == []
    finally:
        together([member.stop for member in members])
