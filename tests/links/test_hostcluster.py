"""
Brokers that are one server on one machine, with routes over Unix sockets.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.broker import Broker
from natsbroker.config.model import AccountLimits
from natsbroker.connections.polledtransport import PolledTransport
from natsbroker.links.hostcluster import HostCluster
from natsbroker.routes.terms import HOST
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.identity import ServerKeys
from natsbroker.wire.serverinfo import GossipMode
from natsbroker.wire.values import Kind, Message
from tests.connections.realreactor import POLLED, RealReactor
from tests.server.support import Host, logLines, settingsOf
from tests.support import Recorder

TWO = """
    accounts {
        A { users: [{ user: a, password: a }], exports: [{ stream: "out.>" }] }
        B { users: [{ user: b, password: b }], imports: [
            { stream: { account: A, subject: "out.>" } }
        ] }
    }
    no_auth_user: a
"""


class Caller:
    """A client with a socket that never blocks."""

    def __init__(
        self, street: Street, number: int, address: tuple[str, int] | None = None, **options: Any
    ) -> None:
        self._street = street
        self.socket = socket.create_connection(address or street.brokers[number].clientAddress())
        self.socket.setblocking(False)
        self.data = b""
        line = json.dumps({"verbose": False, "protocol": 1, "headers": True, **options})
        self.info = json.loads(self._input(b"\r\n")[5:])
        self.say(b"CONNECT %b\r\n" % line.encode("ascii"))

    def say(self, data: bytes) -> bytes:
        """Send a line, and return the output until the answer to a PING."""
        self.socket.send(data + b"PING\r\n")
        return self.upTo(b"PONG\r\n").removesuffix(b"PONG\r\n")

    def upTo(self, end: bytes) -> bytes:
        """The input up to an ending, without later INFO lines."""
        return re.sub(rb"(?m)^INFO [^\n]*\n", b"", self._input(end))

    def _input(self, end: bytes) -> bytes:
        while end not in self.data:
            self._street.until(self._reads)
        data, end, self.data = self.data.partition(end)
        return data + end

    def _reads(self) -> bool:
        try:
            more = self.socket.recv(1 << 20)
        except BlockingIOError:
            return False
        self.data += more
        return True


class Street(RealReactor):
    """Brokers that are one server, by their numbers."""

    def __init__(self, directory: Path, text: str = "") -> None:
        super().__init__()
        self.directory = directory
        self.settings = settingsOf(text)
        self.keys = ServerKeys()
        self.brokers: dict[int, Broker] = {}
        self.callers: list[Caller] = []

    def begin(self, *numbers: int) -> None:
        """Start brokers, and wait for their routes."""
        for number in numbers:
            broker = self.brokers[number] = Broker(
                self.settings,
                reactor=self.reactor,
                keys=self.keys,
                random=Random(number),
                endpoints=["tcp:0:interface=127.0.0.1"],
                hostCluster=HostCluster(str(self.directory), number, 2),
            )
            broker.startService()
        self.until(lambda: all(self._isJoined(broker) for broker in self.brokers.values()))

    def _isJoined(self, broker: Broker) -> bool:
        routes = broker.membership
        return routes is not None and len(routes.cluster.members) == len(self.brokers) - 1

    def finish(self, number: int) -> None:
        """Stop a broker."""
        ended: list[object] = []
        self.brokers.pop(number).stopService().addBoth(ended.append)
        self.until(lambda: ended)

    def call(self, number: int, **options: Any) -> Caller:
        """A client of a broker."""
        caller = Caller(self, number, **options)
        self.callers.append(caller)
        return caller

    def interestOf(self, number: int) -> int:
        """The interest of other brokers that a broker knows."""
        membership = self.brokers[number].membership
        assert membership is not None
        traffics: list[Any] = [route.traffic for route in membership.cluster]
        return sum(len(traffic.interest) for traffic in traffics)

    def stop(self) -> None:
        """Stop all brokers."""
        for caller in self.callers:
            caller.socket.close()
        for number in list(self.brokers):
            self.finish(number)
        self.end()


@pytest.fixture
def street(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Street]:
    """Two brokers with a route between them."""
    made = Street(tmp_path, getattr(request, "param", ""))
    try:
        made.begin(1, 2)
        yield made
    finally:
        made.stop()


class TestRoutes:
    """Brokers with real sockets."""

    pytestmark = POLLED

    def test_publish(self, street: Street) -> None:
        """A message reaches subscribers at both brokers, over sockets of the poller."""
        near, far = street.call(1), street.call(2)
        before = street.interestOf(1)
        far.say(b"SUB foo 1\r\n")
        street.until(lambda: street.interestOf(1) == before + 1)
        said = near.say(b"SUB foo 7\r\nPUB foo 2\r\nhi\r\n")
        assert said == b"MSG foo 7 2\r\nhi\r\n"
        assert far.upTo(b"hi\r\n") == b"MSG foo 1 2\r\nhi\r\n"
        for broker in street.brokers.values():
            assert broker.membership is not None
            (route,) = broker.membership.cluster
            peer: Any = route.peer
            assert type(peer._stream) is PolledTransport
            assert not route.compression.isOn

    def test_request(self, street: Street) -> None:
        """A request is answered by a client of the other broker."""
        near, far = street.call(1), street.call(2)
        before = street.interestOf(1)
        far.say(b"SUB ask 1\r\n")
        street.until(lambda: street.interestOf(1) == before + 1)
        near.say(b"SUB inbox.* 1\r\nPUB ask inbox.1 1\r\n?\r\n")
        assert far.upTo(b"?\r\n") == b"MSG ask 1 inbox.1 1\r\n?\r\n"
        far.say(b"PUB inbox.1 1\r\n!\r\n")
        assert near.upTo(b"!\r\n") == b"MSG inbox.1 1 1\r\n!\r\n"

    @pytest.mark.parametrize("street", [TWO], indirect=True)
    def test_accounts(self, street: Street) -> None:
        """Accounts are separate over the route, except for their imports."""
        near, same = street.call(1), street.call(2, user="a", **{"pass": "a"})
        other = street.call(2, user="b", **{"pass": "b"})
        before = street.interestOf(1)
        same.say(b"SUB > 1\r\n")
        other.say(b"SUB > 2\r\n")
        street.until(lambda: street.interestOf(1) >= before + 2)
        near.say(b"PUB in.x 1\r\n1\r\nPUB out.x 1\r\n2\r\n")
        assert same.upTo(b"2\r\n") == b"MSG in.x 1 1\r\n1\r\nMSG out.x 1 1\r\n2\r\n"
        assert other.upTo(b"2\r\n") == b"MSG out.x 2 1\r\n2\r\n"

    @pytest.mark.parametrize("street", ["fast_lane: true", "fast_lane: false"], indirect=True)
    def test_queueGroup(self, street: Street) -> None:
        """
        Every member of a queue group gets the same share, at either broker, and plain subscribers
        get all messages.
        """
        first, second = street.call(1), street.call(2)
        before = street.interestOf(1)
        first.say(b"".join(b"SUB q g %d\r\n" % sid for sid in range(3)))
        second.say(b"SUB q g 7\r\nSUB q 8\r\n")
        street.until(lambda: street.interestOf(1) == before + 2)
        here = first.say(b"PUB q 1\r\nx\r\n" * 1200).count(b"MSG q ")
        street.call(1).say(b"PUB q 4\r\nlast\r\n")
        there = second.upTo(b" 8 4\r\nlast\r\n") + second.say(b"")
        assert there.count(b"MSG q 8 ") == 1201
        assert here + there.count(b"MSG q 7 ") in (1200, 1201)
        # Five standard deviations.
        assert 300 - 75 < there.count(b"MSG q 7 ") < 300 + 75

    def test_queueGroupElsewhere(self, street: Street) -> None:
        """A group without a local member is served by members at the other broker."""
        first, second = street.call(1), street.call(2)
        before = street.interestOf(1)
        second.say(b"SUB q g 7\r\n")
        street.until(lambda: street.interestOf(1) == before + 1)
        first.say(b"PUB q 1\r\nx\r\n" * 5)
        assert second.upTo(b"MSG q 7 1\r\nx\r\n" * 5)

    @pytest.mark.parametrize("street", ["max_payload: 1000, max_pending: 1000"], indirect=True)
    def test_maxPending(self, street: Street) -> None:
        """
        The limit of pending bytes for a client does not close a route, which all clients share.
        """
        for broker in street.brokers.values():
            assert broker.membership is not None
            (route,) = broker.membership.cluster
            broker.reload(settingsOf("max_payload: 1000, max_pending: 2000"))
            assert route.outbox.limit == 1 << 26

    def test_laterAccount(self, street: Street) -> None:
        """
        An account that is created later, when its JWT arrives, is announced to the other broker.
        """
        for broker in street.brokers.values():
            broker.accounts.include("LATER", AccountLimits())
        near, far = (
            street.brokers[number].accounts["LATER"].busFor(Kind.INTERNAL) for number in (1, 2)
        )
        recorder = Recorder()
        far.subscribe(b"foo", recorder)
        street.until(lambda: near.hasInterest(b"foo"))
        near.publish(Message(b"foo", b"hi"))
        street.until(lambda: recorder.got)

    def test_oneServer(self, street: Street) -> None:
        """Clients see one server, although its brokers have identities of their own."""
        first, second = street.call(1), street.call(2)
        for info in (first.info, second.info):
            assert info["server_id"] == street.keys.id
            assert not {"cluster", "connect_urls", "cluster_dynamic"} & set(info)
        assert first.info["client_id"] % 3 == 1 and second.info["client_id"] % 3 == 2
        ids = set()
        for number, broker in street.brokers.items():
            assert broker.membership is not None
            ids.add(broker.membership.cluster.identity.server_id)
            assert broker.addresses()["cluster"] == []
            varz = broker.monitoring.pages["/varz"]({})
            assert b"neighbours" not in json.dumps(varz, default=str).encode("ascii")
            path = street.directory / f"worker-{number}"
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert len(ids | {street.keys.id}) == 3

    def test_restarted(self, street: Street) -> None:
        """
        The interest of a broker that ends is removed, and the broker is connected again after a
        restart.
        """
        near, far = street.call(1), street.call(2)
        before = street.interestOf(2)
        near.say(b"SUB foo 1\r\n")
        street.until(lambda: street.interestOf(2) == before + 1)
        street.finish(1)
        street.until(lambda: not street.interestOf(2))
        # One that was killed leaves its socket behind.
        left = street.directory / "worker-1"
        assert not left.exists()
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(left))
        street.begin(1)
        back = street.call(1)
        back.say(b"SUB foo 1\r\n")
        street.until(lambda: street.interestOf(2) == before + 1)
        far.say(b"PUB foo 2\r\nhi\r\n")
        assert back.upTo(b"hi\r\n") == b"MSG foo 1 2\r\nhi\r\n"

    def test_cluster(self, tmp_path: Path) -> None:
        """With a cluster, both brokers have routes to each other and to another member."""
        made = Street(tmp_path, 'cluster { name: C, listen: "127.0.0.1:-1", pool_size: 2 }')
        try:
            made.begin(1, 2)
            first = made.brokers[1].membership
            assert first is not None
            text = f"""cluster {{ name: C, listen: "127.0.0.1:-1", pool_size: 2,
                routes: ["nats-route://127.0.0.1:{first.port}"] }}"""
            member = Broker(
                settingsOf(text), reactor=made.reactor, endpoints=["tcp:0:interface=127.0.0.1"]
            )
            made.brokers[3] = member
            member.startService()
            made.until(lambda: all(made._isJoined(broker) for broker in made.brokers.values()))
            assert member.membership is not None
            names = {link.remoteId for link in member.membership.cluster}
            assert len(names) == 2 and made.keys.id not in names
            near = [len([*one]) for one in first.cluster.members.values()]
            made.until(
                lambda: sorted(len([*one]) for one in first.cluster.members.values())[0] == 1
            )
            assert 1 in near
        finally:
            made.stop()

    def test_routeBetween(self, tmp_path: Path) -> None:
        """Brokers whose settings have a route to one of them have no second route."""
        made = Street(tmp_path, 'cluster { name: C, listen: "127.0.0.1:-1" }')
        try:
            made.begin(1)
            first = made.brokers[1].membership
            assert first is not None
            made.settings = settingsOf(
                f"""cluster {{ name: C, listen: "127.0.0.1:-1",
                routes: ["nats-route://127.0.0.1:{first.port}"] }}"""
            )
            with logLines() as lines:
                made.begin(2)
                made.until(lambda: any("route to self" in line for line in lines))
            for broker in made.brokers.values():
                assert broker.membership is not None
                [member] = broker.membership.cluster.members.values()
                assert [route.isNeighbour for route in member] == [True]
        finally:
            made.stop()


class TestSettings:
    """Brokers in memory."""

    def test_listens(self) -> None:
        """
        A broker without a cluster listens on its Unix socket, dials lower numbers, and logs nothing
        about it.
        """
        with logLines(False) as lines:
            host = Host("", hostCluster=HostCluster("/neighbours", 3, 3)).start()
        assert [server[0] for server in host.reactor.unixServers] == ["/neighbours/worker-3"]
        assert [server[0] for server in host.reactor.tcpServers] == [4222]
        host.reactor.advance(0)
        dialled = [client[0] for client in host.reactor.unixClients]
        assert dialled == ["/neighbours/worker-1", "/neighbours/worker-2"]
        assert not [line for line in lines if "luster" in line or "route " in line]

    def test_names(self) -> None:
        """The brokers of a named server have names of their own in a cluster."""
        host = Host("server_name: N", hostCluster=HostCluster("/neighbours", 3, 3))
        assert host.broker.membership is not None
        cluster = host.broker.membership.cluster
        assert (cluster.identity.server_name, cluster.identity.ip) == ("N-3", "")
        assert HostCluster("/neighbours", 3, 3).memberName("") == ""

    def test_announced(self) -> None:
        """Other members get an address at which they can dial each broker."""
        text = """server_name: N
            cluster { name: C, listen: "10.0.0.9:6222", authorization { user: u, password: p } }"""
        host = Host(text, hostCluster=HostCluster("/neighbours", 1, 2)).start()
        assert host.broker.membership is not None
        cluster = host.broker.membership.cluster
        document = cluster.document("", 0, GossipMode.DEFAULT, isNeighbour=True)
        assert document["ip"].startswith("nats-route://") and document["auth_required"]
        assert (document["route_pool_size"], document[HOST]) == (0, host.broker.serverId)

    @pytest.mark.parametrize(
        ("before", "after", "way"),
        [
            ("", 'cluster { name: C, listen: "127.0.0.1:6222" }', "joined"),
            ('cluster { name: C, listen: "127.0.0.1:6222" }', "", "left"),
        ],
    )
    def test_reloadRefused(self, before: str, after: str, way: str) -> None:
        """A reload that adds or removes the cluster is refused."""
        host = Host(before, hostCluster=HostCluster("/neighbours", 1, 2)).start()
        with pytest.raises(ReloadError, match=f"it cannot be {way}"):
            host.reload(after)

    def test_reload(self) -> None:
        """A reload keeps the routes between brokers of one server."""
        host = Host("debug: false", hostCluster=HostCluster("/neighbours", 2, 2)).start()
        host.reload("debug: true")
        assert host.broker.membership is not None
        assert [str(target) for target in host.broker.membership.cluster.terms.targets] == [
            "/neighbours/worker-1"
        ]
