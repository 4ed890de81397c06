"""
A broker's part in a cluster, on a reactor in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from natsbroker.accounts.registry import LinkBuses
from natsbroker.config.model import AccountLimits
from natsbroker.links.tls import LinkTLS
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.reload import ReloadError
from natsbroker.wire.values import Kind
from tests.interop.certificates import writeCertificates
from tests.links.linkhosts import occupy
from tests.routes.brokers import CLUSTER, Member
from tests.routes.clusters import info
from tests.server.support import Host, logLines, settingsOf


class TestListening:
    """Beginning."""

    def test_start(self) -> None:
        """The service listens for clients, then for members, and logs that before it is ready."""
        with logLines(False) as lines:
            host = Member().start()
        assert [server[0] for server in host.reactor.tcpServers] == [4222, 6222]
        assert lines[-4:] == [
            "[INF] Listening for client connections on 0.0.0.0:4222",
            "[INF] Cluster name is C1",
            "[INF] Listening for route connections on 0.0.0.0:6222",
            "[INF] Server is ready",
        ]
        assert host.broker.addresses()["cluster"] == ["nats-route://127.0.0.1:6222"]
        assert host.membership.port == 6222

    def test_nameMadeUp(self) -> None:
        """A generated cluster name causes a warning."""
        with logLines(False) as lines:
            Host('cluster { listen: "127.0.0.1:6222" }').start()
        assert "[WRN] Cluster name was dynamically generated, consider setting one" in lines

    def test_classicAccounts(self) -> None:
        """Accounts that classic routes do not carry cause a warning."""
        warning = "[WRN] Only messages of the global account pass over classic routes"
        block = 'cluster { name: C, listen: "127.0.0.1:6222", dialect: %s }'
        for text, isTold in (
            (block % "classic", False),
            ("accounts { A {} }, " + block % "classic", True),
            ("accounts { A {} }, " + block % "auto", False),
        ):
            with logLines(False) as lines:
                Host(text).start()
            assert (warning in lines) is isTold

    def test_portInUse(self) -> None:
        """A port in use is an error with nats-server's text, and nothing runs."""
        host = Member()
        occupy(host.reactor, 6222)
        with pytest.raises(StartError) as raised:
            host.start()
        assert str(raised.value) == (
            "Error listening on router port: 6222 - "
            "listen tcp 127.0.0.1:6222: bind: address already in use"
        )

    def test_noPort(self) -> None:
        """A block without a port is no cluster."""
        assert Host("cluster { name: C1 }").broker.membership is None


class TestClients:
    """The INFO of clients."""

    def test_info(self) -> None:
        """INFO names the cluster, and the addresses of members if there is more than one."""
        host = Member().start()
        client = host.dial()
        told = client.receive()
        assert b'"cluster":"C1"' in told and b"connect_urls" not in told
        client.ask(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
        peer = host.peer(connect_urls=["127.0.0.1:4333"])
        assert b'"connect_urls":["127.0.0.1:4222","127.0.0.1:4333"]' in client.receive()
        again = host.peer(server_id="P2", server_name="p2")
        assert client.receive() == b""
        peer.hangUp()
        assert b'"connect_urls":["127.0.0.1:4222"]' in client.receive()
        assert again.connected

    def test_beforePing(self) -> None:
        """
        A client that has not yet sent PING gets no INFO about new members before its first PONG.
        """
        host = Member().start()
        client = host.client(b'CONNECT {"protocol":1,"verbose":false}\r\n')
        host.peer(connect_urls=["127.0.0.1:4333"])
        assert client.receive() == b""
        assert b"127.0.0.1:4333" in client.ask(b"PING\r\n")

    def test_messages(self) -> None:
        """Messages pass in both directions."""
        host = Member().start()
        client = host.client()
        peer = host.peer()
        peer.take()
        client.ask(b"SUB foo 1\r\n")
        assert peer.take() == b"RS+ $G foo\r\n"
        peer.send(b"RMSG $G foo rep 2\r\nhi\r\nRS+ $G bar\r\n")
        assert client.receive() == b"MSG foo 1 rep 2\r\nhi\r\n"
        client.ask(b"PUB bar 2\r\nho\r\n")
        assert peer.take() == b"RMSG $G bar 2\r\nho\r\n"

    def test_noResponders(self) -> None:
        """A request with a subscriber on another member does not get "no responders"."""
        host = Member().start()
        client = host.client(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB r 1\r\n'
        )
        peer = host.peer()
        assert b"503" in client.ask(b"PUB svc r 0\r\n\r\n")
        peer.send(b"RS+ $G svc q 1\r\n")
        assert client.ask(b"PUB svc r 0\r\n\r\n") == b""

    def test_lameDuck(self) -> None:
        """
        In lame duck mode, members get an INFO without addresses, and clients one with those of the
        other members.
        """
        host = Member().start()
        client = host.client(b'CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
        peer = host.peer(connect_urls=["127.0.0.1:4333"])
        client.receive()
        peer.take()
        host.broker.lameDuck()
        host.settle()
        said = peer.take()
        assert b'"ldm":true' in said and b"connect_urls" not in said
        assert b'"connect_urls":["127.0.0.1:4333"],"ldm":true' in client.receive()


class TestDialling:
    """The configured members."""

    ROUTES = 'routes: ["nats-route://127.0.0.1:7001", "nats-route://127.0.0.1:7002"]'

    def test_dials(self) -> None:
        """Each configured member is dialled once the service listens, without parallel attempts."""
        host = Member(self.ROUTES).start()
        host.settle()
        assert sorted(host.dialled()) == [("127.0.0.1", 7001), ("127.0.0.1", 7002)]
        host.reactor.advance(60)
        assert len(host.dialled()) == 2
        said = host.answered().take()
        assert said.startswith(b"CONNECT {") and b'"cluster":"C1"' in said

    def test_redialAfterRefusal(self) -> None:
        """A member that refuses is dialled again, a second later."""
        host = Member('routes: ["nats-route://127.0.0.1:7001"]').start()
        host.settle()
        with logLines() as lines:
            host.refuse()
        assert any("Error trying to connect to route 127.0.0.1:7001" in line for line in lines)
        host.reactor.advance(0.9)
        assert len(host.dialled()) == 1
        host.reactor.advance(0.3)
        assert len(host.dialled()) == 2

    def test_lostRoute(self) -> None:
        """A configured member whose route is lost is dialled again."""
        host = Member('routes: ["nats-route://127.0.0.1:7001"]').start()
        host.settle()
        transport = host.answered()
        transport.send(info())
        transport.hangUp()
        host.settle()
        host.reactor.advance(1.2)
        assert len(host.dialled()) == 2

    def test_discovered(self) -> None:
        """A discovered member is dialled once, or as often as C{connect_retries} says."""
        for text, count in (("", 1), ("connect_retries: 2", 3)):
            host = Member(text).start()
            host.peer().send(info(server_id="P2", ip="nats-route://127.0.0.1:7009/"))
            host.settle()
            for _ in range(5):
                if len(host.dialled()) <= count:
                    try:
                        host.refuse()
                    except AttributeError:
                        break
                host.reactor.advance(1.2)
            assert host.dialled() == [("127.0.0.1", 7009)] * count

    def test_hostNameIsResolved(self) -> None:
        """A name is looked up."""
        host = Member('routes: ["nats-route://seed.example:7001"]')
        names: list[str] = []
        host.reactor.nameResolver = _Resolver(names)
        host.start()
        host.settle()
        assert names == ["seed.example"]

    def test_stop(self) -> None:
        """A service that stops closes its routes and dials no more."""
        host = Member(self.ROUTES).start()
        host.settle()
        peer = host.peer()
        done: list[object] = []
        host.broker.stopService().addCallback(done.append)
        for _ in range(5):
            host.settle()
        assert not peer.connected and done == [None]
        host.reactor.advance(100)
        assert len(host.dialled()) == 2 and not host.reactor.getDelayedCalls()


class _Resolver:
    """A resolver that records the names, and finds none."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def resolveHostName(self, receiver: Any, name: str, *_: Any, **__: Any) -> Any:
        self._names.append(name)
        return receiver


class TestReload:
    """Settings that change while it runs."""

    def test_routes(self) -> None:
        """New routes are dialled. Others stay or are closed."""
        host = Member('routes: ["nats-route://127.0.0.1:7001"]').start()
        host.settle()
        transport = host.answered()
        transport.send(info())
        host.settle()
        host.broker.reload(settingsOf(CLUSTER % 'routes: ["nats-route://127.0.0.1:7002"]'))
        host.settle()
        assert not transport.connected
        assert host.dialled()[1:] == [("127.0.0.1", 7002)]
        host.reactor.advance(0.5)
        host.broker.reload(settingsOf(CLUSTER % ""))
        host.reactor.advance(60)
        assert len(host.dialled()) == 2

    def test_accounts(self) -> None:
        """The interest of new accounts is sent to members."""
        host = Member().start()
        peer = host.peer()
        peer.send(b"RS+ B foo\r\n")
        host.settle()
        host.broker.reload(settingsOf((CLUSTER % "").replace("A {}", "A {}, B {}")))
        host.settle()
        bus = host.broker.accounts["B"].busFor(Kind.CLIENT)
        assert bus.hasInterest(b"foo")

    def test_firstMessage(self) -> None:
        """The first message of an account whose JWT has come reaches a member that waits for it."""
        host = Member().start()
        peer = host.peer()
        peer.send(b"RS+ B foo\r\n")
        host.settle()
        host.broker.accounts.include("B", AccountLimits())
        assert host.broker.bus("B").hasInterest(b"foo")

    def test_permissions(self) -> None:
        """Permissions apply to existing routes."""
        host = Member().start()
        client, peer = host.client(), host.peer()
        client.ask(b"SUB foo 1\r\n")
        peer.take()
        host.broker.reload(settingsOf(CLUSTER % "permissions { import: { deny: foo } }"))
        host.settle()
        assert b"RS- $G foo\r\n" in peer.take()

    @pytest.mark.parametrize(
        "before, after, problem",
        [
            (CLUSTER % "", "", "config reload not supported for cluster: it cannot be left"),
            ("", CLUSTER % "", "config reload not supported for cluster: it cannot be joined"),
            (
                CLUSTER % "",
                (CLUSTER % "").replace("C1", "C2"),
                "config reload not supported for cluster name: old=C1, new=C2",
            ),
            (
                CLUSTER % "",
                (CLUSTER % "").replace("6222", "6223"),
                "config reload not supported for cluster port: old=6222, new=6223",
            ),
        ],
    )
    def test_reloadRefused(self, before: str, after: str, problem: str) -> None:
        """A change that needs a restart is reported, and nothing changes."""
        base = 'server_name: n1, listen: "127.0.0.1:4222", accounts { A {} }'
        host = Host(before or base).start()
        settings = host.broker.settings
        with pytest.raises(ReloadError) as raised:
            host.broker.reload(settingsOf(after or base))
        assert problem in raised.value.problems
        assert host.broker.settings == settings

    def test_tls(self, tmp_path: Path) -> None:
        """Certificates are read again. Unreadable ones change nothing."""
        writeCertificates(tmp_path)
        block = (
            f"tls {{ cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem', "
            f"ca_file: '{tmp_path}/ca.pem' }}"
        )
        host = Member(block).start()
        factory = host.factory(6222)
        before = factory.tls
        assert isinstance(before, LinkTLS)
        new = settingsOf(CLUSTER % block)
        (tmp_path / "server.pem").rename(tmp_path / "gone.pem")
        with pytest.raises(ReloadError, match="cert_file"):
            host.broker.reload(new)
        (tmp_path / "gone.pem").rename(tmp_path / "server.pem")
        host.broker.reload(new)
        assert factory.tls is not before


def test_doors() -> None:
    """Every account has a bus for routes. An unknown account has none."""
    host = Member()
    buses = LinkBuses(host.broker.accounts, Kind.ROUTE)
    assert set(buses.names()) == {"$G", "$SYS", "A"}
    bus = buses.busOf("A")
    assert bus is not None and bus.account == "A"
    assert buses.busOf("nope") is None
