"""
Pull requests whose clients disconnect before a message is stored. The next client gets the message.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.cluster.members import Member, together
from tests.interop.gateways.worlds import Plan, Site
from tests.interop.jetstreams import storage
from tests.interop.leafnodes.brokers import Broker
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, OURS_PURE, PATIENCE, REAL, Flavour, Server

ACCOUNTS = """
    JS {
        users: [ {user: js, password: js} ], jetstream: enabled
        exports: [ {service: "$JS.API.>", response_type: stream}, {service: "$JS.ACK.>"} ]
    }
    APP {
        users: [ {user: app, password: app} ]
        imports: [
            {service: {account: JS, subject: "$JS.API.>"}}
            {service: {account: JS, subject: "$JS.ACK.>"}}
        ]
    }
"""

CLUSTER = (
    """
server_name: $NAME
$TOP
accounts {
    SYS { users: [ {user: sys, password: sys} ] }
"""
    + ACCOUNTS
    + """
}
system_account: SYS
cluster {
    name: C1, listen: "127.0.0.1:$PORT"
    authorization { user: u, password: p }
    routes: [ $ROUTES ]
}
"""
)


def ask(client: Client, subject: bytes, **body: Any) -> dict[str, Any]:
    """The answer to a request of the API."""
    inbox = b"answers.%d" % time.monotonic_ns()
    sid = client.subscribe(inbox)
    client.publish(b"$JS.API." + subject, json.dumps(body).encode(), inbox)
    (answer,) = client.take(sid, 1)
    client.unsubscribe(sid)
    document: dict[str, Any] = json.loads(answer)
    return document


def waiting(client: Client, count: int) -> None:
    """Wait until the consumer has this number of pull requests."""
    deadline = time.monotonic() + PATIENCE
    while ask(client, b"CONSUMER.INFO.Q.c").get("num_waiting") != count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def givesToTheLiving(here: Server, there: Server, user: str, isAsked: bool) -> None:
    """
    Send a pull request through one server and disconnect, and publish and pull in the stream's
    account at another.

    @param isAsked: whether to wait until C{num_waiting} shows that the request is gone.
    """
    owner = Client(here, "js")
    config = {"name": "Q", "subjects": ["q"], "storage": "memory"}
    assert "error" not in ask(owner, b"STREAM.CREATE.Q", **config)
    for policy in ("explicit", "none"):
        consumer = {"durable_name": "c", "ack_policy": policy, "ack_wait": 30 * 10**9}
        ask(owner, b"CONSUMER.DELETE.Q.c")
        ask(owner, b"STREAM.PURGE.Q")
        asked = {"stream_name": "Q", "config": consumer}
        assert "error" not in ask(owner, b"CONSUMER.CREATE.Q.c", **asked)
        gone = Client(there, user)
        gone.subscribe(b"gone.1")
        body = b'{"batch":1,"expires":60000000000}'
        gone.publish(b"$JS.API.CONSUMER.MSG.NEXT.Q.c", body, b"gone.1")
        gone.flush()
        waiting(owner, 1)
        gone.close()
        if isAsked:
            waiting(owner, 0)
        else:
            time.sleep(0.5)
        owner.publish(b"q", policy.encode())
        owner.flush()
        sid = owner.subscribe(b"living.%b" % policy.encode())
        reply = b"living.%b" % policy.encode()
        owner.publish(b"$JS.API.CONSUMER.MSG.NEXT.Q.c", b'{"batch":1,"no_wait":true}', reply)
        assert owner.take(sid, 1) == [policy.encode()]
    owner.close()


@pytest.mark.parametrize("flavour", [OURS_FAST, OURS_PURE, REAL], ids=lambda flavour: flavour.name)
def test_twoAccounts(flavour: Flavour, tmp_path: Path) -> None:
    """
    The pull request of a client in another account, which imports the API, ends with the client.
    """
    top = storage().replace("$DIR", str(tmp_path))
    server = Server(flavour, tmp_path, f"{top}\naccounts {{ {ACCOUNTS} }}").start()
    try:
        givesToTheLiving(server, server, "app", False)
    finally:
        server.stop()


@pytest.mark.parametrize("user", ["js", "app"])
def test_members(user: str, tmp_path: Path) -> None:
    """
    The pull request of a client at another member ends with the client, in the same account or in
    another.
    """
    members: list[Member] = []
    try:
        for place, top in enumerate((storage(), "")):
            home = tmp_path / f"n{place}"
            home.mkdir()
            routes = [member.routePort for member in members]
            made = Member(OURS_FAST, home, f"n{place}", routes, top=top, template=CLUSTER)
            members.append(made.start())
        members[1].waitForLog("Route connection created")
        givesToTheLiving(members[0], members[1], user, True)
    finally:
        together([member.stop for member in members])


@pytest.mark.parametrize("user", ["js", "app"])
def test_clusters(user: str, tmp_path: Path) -> None:
    """
    The pull request of a client in another cluster ends with the client, in the same account or in
    another.
    """
    sites: list[Site] = []
    try:
        for place, (name, top) in enumerate((("GA", storage()), ("GB", ""))):
            home = tmp_path / f"s{place}"
            home.mkdir()
            remotes = {"GA": sites[0].gatewayPort} if place else {}
            plan = Plan(OURS_FAST, name, top=top, accounts=ACCOUNTS)
            sites.append(Site(plan, home, f"s{place}", remotes, None).start())
        sites[0].waitForLog(
            "Inbound gateway connection .* registered|Outbound gateway connection to .* registered"
        )
        givesToTheLiving(sites[0], sites[1], user, True)
    finally:
        for site in sites:
            site.stop()


def test_leafnodes(tmp_path: Path) -> None:
    """The pull request of a client at a leafnode ends with the client."""
    hub = Broker(OURS_FAST, tmp_path, "hub", top=storage("hub"), accounts=ACCOUNTS).start()
    plain, top = "JS { users: [ {user: js, password: js} ] }", "default_js_domain { JS: hub }"
    remote = hub.remote("js", "JS")
    spoke = Broker(OURS_FAST, tmp_path, "spoke", remote, False, top, plain)
    try:
        spoke.start()
        spoke.waitForLog("Leafnode connection created")
        givesToTheLiving(hub, spoke, "js", True)
    finally:
        spoke.stop()
        hub.stop()
