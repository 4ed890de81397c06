"""
A hub and a spoke, natsbroker and nats-server mixed. Every message is accounted for, and
nats-servers log no warnings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.interop.cluster.proxies import Proxy
from tests.interop.conftest import showLogs
from tests.interop.leafnodes.brokers import Broker, Ends, remoteTo
from tests.interop.servers import OLD, OURS_FAST, OURS_PURE, PATIENCE, REAL, Flavour

#: The hub, and the spoke, which dials it.
PAIRS = [
    (OURS_FAST, OURS_PURE),
    (REAL, OURS_FAST),
    (OURS_FAST, REAL),
    (OLD, OURS_FAST),
    (OURS_PURE, OLD),
]

COUNT = 200
HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


class Pair:
    """
    A hub and a spoke whose account B is the hub's A, with a proxy between them.

    @ivar ends: a client of each in these accounts, the hub's first.
    """

    def __init__(self, hub: Broker, spoke: Broker, proxy: Proxy) -> None:
        self.hub, self.spoke, self.proxy = hub, spoke, proxy
        self.ends = Ends([(hub, "a"), (spoke, "b")])

    def check(self) -> None:
        """Check that everything passes exactly once, in order, in both directions."""
        self.ends.form()
        ears = [client.subscribe(b"check.*") for client in self.ends.clients]
        members = [client.subscribe(b"check.>", b"q") for client in self.ends.clients]
        self.ends.sync()
        for number in range(COUNT):
            for place, client in enumerate(self.ends.clients):
                client.publish(b"check.%d" % place, b"%d %d" % (place, number))
        self.ends.sync()
        chosen = []
        for place, client in enumerate(self.ends.clients):
            heard = client.arrived(ears[place])
            for sender in range(2):
                own = [body for body in heard if body.startswith(b"%d " % sender)]
                assert own == [b"%d %d" % (sender, number) for number in range(COUNT)]
            taken = client.arrived(members[place])
            assert taken == [b"%d %d" % (place, number) for number in range(COUNT)]
            chosen += taken
            client.unsubscribe(ears[place])
            client.unsubscribe(members[place])
        assert len(chosen) == len(set(chosen)) == 2 * COUNT
        self.ends.sync()


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-".join(x.name for x in pair))
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """
    The pair.
    """
    flavours: tuple[Flavour, Flavour] = request.param
    directory = tmp_path_factory.mktemp("pair")
    impatient = 'ping_interval: "1s", ping_max: 2'
    hub = Broker(flavours[0], directory, "hub", top=impatient)
    spoke: Broker | None = None
    try:
        hub.start()
        with Proxy(hub.leafPort) as proxy:
            # What the hub tells of itself would lead past the proxy.
            own = "ignore_discovered_servers: true" if flavours[1] is not OLD else ""
            remote = remoteTo(proxy.port, more=own)
            spoke = Broker(flavours[1], directory, "spoke", remote, False, impatient)
            spoke.start()
            pair = Pair(hub, spoke, proxy)
            pair.ends.form()
            yield pair
            pair.ends.close()
    finally:
        for server in (hub, spoke):
            if server is not None:
                server.stop()


@pytest.fixture
def pair(running: Pair, request: pytest.FixtureRequest) -> Pair:
    """
    The pair, whose logs are shown if the test fails.
    """
    for server in (running.hub, running.spoke):
        showLogs(request.node, server)
    return running


def test_messages(pair: Pair) -> None:
    """
    Messages pass in both directions, once and in order, and each group gets each message once, at a
    local member.
    """
    pair.check()


def test_allPayloads(pair: Pair) -> None:
    """Headers, reply subjects, and payloads of any size pass."""
    for sender, receiver in ((0, 1), (1, 0)):
        client = pair.ends.clients[receiver]
        ear = client.subscribe(b"all.>")
        pair.ends.sync()
        bodies = [b"", b"x", b"\r\n", b"y" * 70_000, b"z" * 900_000]
        for body in bodies:
            pair.ends.clients[sender].publish(b"all.a.b", body, b"rep", HEADERS)
            pair.ends.clients[sender].publish(b"all.a.b", body)
        pair.ends.sync()
        got = client.messages(ear, 2 * len(bodies))
        assert got[::2] == [(b"rep", HEADERS, body) for body in bodies]
        assert got[1::2] == [(b"", b"", body) for body in bodies]
        client.unsubscribe(ear)


def test_groups(pair: Pair) -> None:
    """A group with members only on the other side gets each message at one of them."""
    for sender, receiver in ((0, 1), (1, 0)):
        client = pair.ends.clients[receiver]
        members = [client.subscribe(b"group.*", b"g") for _ in range(3)]
        other = client.subscribe(b"group.1", b"h")
        pair.ends.sync()
        for number in range(COUNT):
            pair.ends.clients[sender].publish(b"group.1", b"%d" % number, b"rep")
        pair.ends.sync()
        got = [body for member in members for body in client.arrived(member)]
        assert sorted(got, key=int) == [b"%d" % number for number in range(COUNT)]
        assert client.arrived(other) == [b"%d" % number for number in range(COUNT)]
        for peer in (*members, other):
            client.unsubscribe(peer)
        pair.ends.sync()


def test_requests(pair: Pair) -> None:
    """
    A request is answered over the link, and without responders the requestor is notified at once.
    """
    for asks, answers in ((0, 1), (1, 0)):
        client, server = pair.ends.clients[asks], pair.ends.clients[answers]
        service, inbox = server.subscribe(b"service", b"s"), client.subscribe(b"_INBOX.x.*")
        pair.ends.sync()
        client.publish(b"service", b"?", b"_INBOX.x.1", HEADERS)
        ((reply, headers, body),) = server.messages(service, 1)
        assert (reply, headers, body) == (b"_INBOX.x.1", HEADERS, b"?")
        server.publish(reply, b"!", b"", HEADERS)
        assert client.messages(inbox, 1) == [(b"", HEADERS, b"!")]
        server.unsubscribe(service)
        pair.ends.sync()
        client.publish(b"service", b"?", b"_INBOX.x.2")
        ((_, headers, _),) = client.messages(inbox, 1)
        assert headers.startswith(b"NATS/1.0 503")
        client.unsubscribe(inbox)


def test_accounts(pair: Pair) -> None:
    """Other accounts receive no messages over the link."""
    strangers = Ends([(pair.hub, "b"), (pair.spoke, "a")])
    ears = [client.subscribe(b"closed.>") for client in strangers.clients]
    for client in (*pair.ends.clients, *strangers.clients):
        client.publish(b"closed.x", b"1")
        client.flush()
    pair.ends.sync()
    for client, ear in zip(strangers.clients, ears, strict=True):
        assert client.arrived(ear) == [b"1"]
    strangers.close()


def test_counts(pair: Pair) -> None:
    """A subscription with a maximum gets exactly that many messages."""
    hub, spoke = pair.ends.clients
    ear = spoke.subscribe(b"some")
    spoke.unsubscribe(ear, 3)
    pair.ends.sync()
    for number in range(6):
        hub.publish(b"some", b"%d" % number)
    pair.ends.sync()
    assert spoke.arrived(ear) == [b"0", b"1", b"2"]


def test_cut(pair: Pair) -> None:
    """
    The interest of a side whose link breaks is removed, and all messages pass when the link is
    restored.
    """
    far = pair.ends.clients[1].subscribe(b"far")
    pair.ends.sync()
    pair.proxy.cut(refuse=True)
    deadline = time.monotonic() + PATIENCE
    client = pair.ends.clients[0]
    inbox = client.subscribe(b"_INBOX.cut")
    while True:
        client.publish(b"far", b"", b"_INBOX.cut")
        client.flush()
        if any(
            b"503" in headers for _, headers, _ in client.messages(inbox, len(client.got[inbox]))
        ):
            break
        assert time.monotonic() < deadline, "what is cut still counts as interest"
        time.sleep(0.05)
    pair.proxy.heal()
    pair.check()
    client.unsubscribe(inbox)
    pair.ends.clients[1].unsubscribe(far)


def test_silentLink(pair: Pair) -> None:
    """A link without traffic is closed, and opened again."""
    if OLD in (pair.hub.flavour, pair.spoke.flavour):
        pytest.skip("it never gives up a link that is half open, at times")
    accepted = pair.proxy.accepted
    pair.proxy.silence()
    deadline = time.monotonic() + PATIENCE
    while pair.proxy.accepted == accepted:
        assert time.monotonic() < deadline, "a link that is half open is still taken for one"
        for client in pair.ends.clients:
            client.flush()
        time.sleep(0.1)
    pair.proxy.heal()
    pair.check()


@pytest.mark.parametrize("place", [0, 1])
def test_restart(pair: Pair, place: int) -> None:
    """After a restart of either side all messages pass again."""
    (pair.hub, pair.spoke)[place].restart()
    for index in range(2):
        # The other one may not have been able to answer a PING meanwhile.
        pair.ends.connect(index)
    pair.check()


def test_quietLogs(pair: Pair) -> None:
    """After all these tests, the logs report only lost connections."""
    lost = ("Stale Connection", "i/o timeout", "connection reset", "Leafnode connection closed")
    assert [line for server in (pair.hub, pair.spoke) for line in server.complaints(lost)] == []
