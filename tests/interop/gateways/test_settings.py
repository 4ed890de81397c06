"""
The keys of a C{gateway} block, between natsbroker and nats-server, and the errors for refused
peers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.certificates import writeCertificates
from tests.interop.conftest import showLogs
from tests.interop.gateways.wires import FakeGateway, connect, info
from tests.interop.gateways.worlds import Plan, Site, World, formed, started, until
from tests.interop.monitored import AskingClient, readBy
from tests.interop.pages import placesOf
from tests.interop.readers import GATEWAYS
from tests.interop.servers import OURS_FAST, REAL, Flavour

BOTH = pytest.mark.parametrize("flavour", [REAL, OURS_FAST], ids=lambda flavour: flavour.name)


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    """The cluster that the test plays."""
    with FakeGateway("GB") as gateway:
        yield gateway


class Started:
    """Starts servers that are stopped after the test."""

    def __init__(self, request: pytest.FixtureRequest, directory: Path) -> None:
        self._request = request
        self._directory = directory
        self.sites: list[Site] = []

    def __call__(self, *plans: Plan, ports: dict[str, int] | None = None) -> list[Site]:
        """Start servers."""
        home = self._directory / f"h{len(self.sites)}"
        home.mkdir()
        made = started(plans, home, ports)
        self.sites += made
        for site in made:
            showLogs(self._request.node, site)
        return made


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Started]:
    """
    A function that starts servers.
    """
    starter = Started(request, tmp_path)
    yield starter
    for site in starter.sites:
        site.stop()


#: What is said to a gateway that lets in a few only, and the errors that it answers.
REFUSED = [
    (b'CONNECT {"lang":"go","verbose":false}\r\n', [b"'Authorization Violation'"]),
    (b'CONNECT {"user":"u","pass":"p"}\r\n', [b"'attempted to connect to gateway port'"]),
    (b"PING\r\n", [b"'Authorization Violation'"]),
    (b"RS+ A b\r\n", [b"'Authorization Violation'"]),
    (connect("GB", user="x"), [b"'Authorization Violation'"]),
    (connect("GX"), [b"'Connection to gateway \"GA\" rejected'"]),
    (b"CONNECT {\r\n", []),
    (connect("GB") + b"INFO {\r\n", []),
    (connect("GB") + info("GB", 1, server_name="ga-0"), []),
    (connect("GB") + info("GB", 1) + b"RS+ A foo\r\n", []),
    (connect("GB") + info("GB", 1) + b"BOGUS A foo\r\n", [b"'Unknown Protocol Operation'"]),
]


@BOTH
def test_rejectedPeerGetsNatsServersError(
    flavour: Flavour, start: Started, fake: FakeGateway
) -> None:
    """A refused peer gets the same error as from nats-server, and is disconnected."""
    ports = {"GB": fake.port}
    (site,) = start(Plan(flavour, "GA", ["GB"], more="reject_unknown: true"), ports=ports)
    for said, errors in REFUSED:
        wire = fake.knock(site.gatewayPort)
        wire.say(said)
        wire.until(lambda wire=wire: wire.closed, "the end")
        told = [frame.strip().partition(b" ")[2] for frame in wire.heard(b"-ERR")]
        assert told == errors, said


@BOTH
def test_wrongGateway(flavour: Flavour, start: Started, fake: FakeGateway) -> None:
    """A server that dials a cluster with another name than expected reports that."""
    start(Plan(flavour, "GA", ["GC"]), ports={"GC": fake.port})
    wire = fake.answer()
    wire.say(info("GB", fake.port))
    wire.until(lambda: wire.heard(b"-ERR"), "an error")
    wanted = b'-ERR \'Connection from "GA" rejected, wanted to connect to "GC", this is "GB"\'\r\n'
    assert wire.heard(b"-ERR") == [wanted]


@pytest.mark.parametrize(
    "pair",
    [(OURS_FAST, REAL), (REAL, OURS_FAST), (OURS_FAST, OURS_FAST)],
    ids=lambda pair: "-".join(flavour.name for flavour in pair),
)
def test_tls(pair: tuple[Flavour, Flavour], tmp_path: Path, start: Started) -> None:
    """Connections are encrypted, and both ends send certificates."""
    writeCertificates(tmp_path)
    block = (
        f"tls {{ cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem', "
        f"ca_file: '{tmp_path}/ca.pem' }}"
    )
    world = World(start(Plan(pair[0], "GA", more=block), Plan(pair[1], "GB", ["GA"], more=block)))
    world.sync()
    for client in world.clients:
        client.close()
    assert world.complaints() == []


@pytest.mark.parametrize("dialled", [OURS_FAST, REAL], ids=lambda flavour: flavour.name)
def test_otherName(dialled: Flavour, tmp_path: Path, start: Started) -> None:
    """A peer with the certificate of another host is refused."""
    writeCertificates(tmp_path)
    block = "tls {{ cert_file: '{0}/{1}.pem', key_file: '{0}/{1}-key.pem', ca_file: '{0}/ca.pem' }}"
    one, two = start(
        Plan(dialled, "GA", more=block.format(tmp_path, "client")),
        Plan(OURS_FAST, "GB", ["GA"], more=block.format(tmp_path, "server")),
    )
    two.waitForLog("TLS handshake error: certificate is not valid for 127.0.0.1")
    assert "registered" not in two.log()
    assert one.gatewayPort


def test_unknown(start: Started) -> None:
    """A cluster that is not configured is neither accepted nor dialled, even after gossip."""
    strict, other = start(
        Plan(OURS_FAST, "GA", more="reject_unknown_cluster: true"), Plan(REAL, "GB", ["GA"])
    )
    other.waitForLog(r"Gateway Error 'Connection to gateway \"GA\" rejected'")
    assert strict.modes() == {} and "registered" not in strict.log()


def test_implicitForgotten(start: Started) -> None:
    """A cluster from gossip that has stopped for good is not dialled for ever."""
    one, two = start(Plan(OURS_FAST, "GA"), Plan(OURS_FAST, "GB", ["GA"]))
    until(lambda: one.modes(), "it is dialled back")
    two.stop()
    one.waitForLog("Gateway connection closed")
    time.sleep(0.5)
    since = one.logLength()
    time.sleep(1.5)
    assert "gateway" not in one.log(since).lower()


#: The objects whose keys are the names of clusters and of features.
NAMES = ("outbound_gateways", "inbound_gateways", "feature_flags", "http_req_stats")


def keysOf(page: Any) -> set[str]:
    """The paths of all keys of a page, without that of the worker of a connection."""
    places = {place.partition(":")[0] for place in placesOf(page, NAMES)}
    return places - {"connections.worker"}


#: What only ours shows, since it says what a policy has decided.
EXTRA = {"switches", "last_switch"}


def answered(site: Site) -> Any:
    """The statistics of a server."""
    asker = AskingClient(site, "s")
    number = site.monitor("/varz")["server_id"]
    stats = asker.answers(f"$SYS.REQ.SERVER.{number}.STATSZ")["statsz"]
    asker.close()
    return stats


def test_pages(tmp_path: Path) -> None:
    """The pages have nats-server's keys, and the same settings."""
    system = "$SYS { users: [ {user: s, password: s} ] }"
    plans = [
        Plan(OURS_FAST, "GA", ["GB"], accounts=system),
        Plan(REAL, "GB", ["GA"], accounts=system),
    ]
    world = formed(plans, tmp_path)
    try:
        ours, real = world.sites
        for client in world.clients:
            client.subscribe(b"some.*")
            client.subscribe(b"some.*", b"g")
        world.sync()
        for query in ("", "?accs=1", "?acc_name=A&subs=1", "?acc_name=A&subs=detail"):
            mine, theirs = (keysOf(site.monitor(f"/gatewayz{query}")) for site in (ours, real))
            optional = {"no_interest_count", "num_subs", "num_queue_subs", *EXTRA}
            strip = {place for place in mine | theirs if place.rpartition(".")[2] in optional}
            assert mine - strip == theirs - strip
        for expected in GATEWAYS:
            assert [expected.problems(readBy(site, expected)) for site in (ours, real)] == [[], []]
        stats = [keysOf(answered(site)) for site in (ours, real)]
        assert stats[0] == stats[1] >= {"gateways.gwid", "gateways.inbound_connections"}
        for path in ("/connz?auth=1", "/accountz?acc=A", "/accstatz", "/routez", "/leafz"):
            assert keysOf(ours.monitor(path)) == keysOf(real.monitor(path))
        shown: Any = [site.monitor("/varz")["gateway"] for site in (ours, real)]
        told = {"gateways", "gateways.name", "gateways.urls"}  # ours was told of nobody
        mine, theirs = (keysOf(document) for document in shown)
        assert mine - told == theirs - told
        page: Any = ours.monitor("/gatewayz?acc_name=A&subs=1")
        wanted = page["outbound_gateways"]["GB"]["accounts"][0]["subscriptions_list"]
        assert sorted(subject for subject in wanted if subject.startswith("some")) == ["some.*"] * 2
    finally:
        world.close()


def test_reload(start: Started) -> None:
    """A reload may add an account, while a change of gateways needs a restart."""
    one, two = start(Plan(OURS_FAST, "GA"), Plan(OURS_FAST, "GB", ["GA"]))
    world = World([one, two])
    world.sync()
    added = "    C { users: [ {user: c, password: c} ] }\n}"
    for site in (one, two):
        config = site._config or ""
        text = re.sub(
            r"(user: b, password: b\} \] \})\s*\n\}", lambda match: f"{match[1]}\n{added}", config
        )
        site.writeConfig(text)
        site.signal("HUP")
        site.waitForLog("Reloaded server configuration")
    clients = [world.client(place, "c") for place in range(2)]
    world.sync(clients)
    site = two
    since = site.logLength()
    site.writeConfig((site._config or "").replace("gateway {", "gateway { connect_retries: 7,"))
    site.signal("HUP")
    site.waitForLog("config reload not supported for Gateway", since)
    world.sync()
    for client in [*world.clients, *clients]:
        client.close()
