"""
Clients use the JetStream of nats-servers in another cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.gateways.worlds import Plan, Site
from tests.interop.jetstreams import storage, usesJetStream
from tests.interop.servers import OURS_FAST, OURS_PURE, REAL, Flavour

ACCOUNT = "J { users: [ {user: j, password: j} ], jetstream: enabled }"


@pytest.mark.parametrize("flavour", [OURS_FAST, OURS_PURE], ids=lambda flavour: flavour.name)
def test_behindAGateway(flavour: Flavour, tmp_path: Path) -> None:
    """
    A JetStream behind a gateway can be used beside servers that count our gateway among the voters
    for a leader, and that have no stream yet.
    """
    sites: list[Site] = []
    real = Plan(REAL, "GB", top=storage(), accounts=ACCOUNT)
    try:
        for place, plan in enumerate((Plan(flavour, "GA", accounts=ACCOUNT), real, real)):
            home = tmp_path / f"s{place}"
            home.mkdir()
            # A server with JetStream wants to be told of another member, be it there or not.
            routes = [sites[1].routePort if place == 2 else 1] if place else None
            remotes = {"GA": sites[0].gatewayPort} if place else {}
            sites.append(Site(plan, home, f"s{place}", remotes, routes).start())
        usesJetStream(sites[0], "one", "j")
        usesJetStream(sites[1], "two", "j")
        assert sites[0].complaints() == []
    finally:
        for site in sites:
            site.stop()
