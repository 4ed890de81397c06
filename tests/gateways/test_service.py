"""
The gateway service of a broker, on a reactor in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from natsbroker.accounts.registry import LinkBuses
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.reload import ReloadError
from natsbroker.wire.values import Kind
from tests.gateways.edges import GATEWAY, REMOTES, Edge
from tests.gateways.gatewaypeers import info
from tests.interop.certificates import writeCertificates
from tests.links.linkhosts import occupy
from tests.server.support import Host, logLines, settingsOf

CLUSTER = 'cluster { listen: "127.0.0.1:6222", pool_size: -1 }'


class TestListening:
    """The start of the service."""

    def test_start(self) -> None:
        """
        The gateway listener is opened and logged before that of routes, and members get its
        address.
        """
        with logLines(False) as lines:
            host = Edge(more=CLUSTER).start()
        assert [server[0] for server in host.reactor.tcpServers] == [4222, 7222, 6222]
        assert lines[-7:] == [
            "[INF] Listening for client connections on 0.0.0.0:4222",
            "[INF] Gateway name is A",
            "[INF] Listening for gateways connections on 0.0.0.0:7222",
            '[INF] Address for gateway "A" is 127.0.0.1:7222',
            "[INF] Cluster name is A",
            "[INF] Listening for route connections on 0.0.0.0:6222",
            "[INF] Server is ready",
        ]
        assert host.broker.addresses()["gateway"] == ["nats-gw://127.0.0.1:7222"]
        assert host.service.port == 7222
        assert b'"gateway_url":"127.0.0.1:7222"' in host.accepted(6222).take()

    def test_portInUse(self) -> None:
        """A port in use is reported with nats-server's error, and nothing is started."""
        host = Edge()
        occupy(host.reactor, 7222)
        with pytest.raises(StartError) as raised:
            host.start()
        assert str(raised.value) == (
            "Error listening on gateway port: 7222 - "
            "listen tcp 127.0.0.1:7222: bind: address already in use"
        )

    def test_clusterName(self) -> None:
        """A broker without a cluster block uses the name of its gateway as the cluster name."""
        host = Edge().start()
        assert b'"cluster":"A"' in host.dial().receive()

    def test_emptyBlock(self) -> None:
        """A broker with an empty gateway block has no gateways."""
        assert Host("gateway {}").broker.gateways is None

    def test_advertised(self) -> None:
        """The advertised address is announced instead of the listener's."""
        host = Edge('advertise: "gw.example:7"').start()
        said = host.accepted(7222).take()
        assert b'"host":"gw.example","port":7' in said
        assert b'"gateway_urls":["gw.example:7"],"gateway_url":"gw.example:7"' in said


class TestDialling:
    """The clusters in the settings, and those known from gossip."""

    def test_dials(self) -> None:
        """
        Gateways are dialled a second after the start, by one attempt at a time, except for
        ourselves.
        """
        host = Edge(REMOTES).start()
        host.settle()
        assert host.dialled() == []
        host.reactor.advance(1.0)
        assert host.dialled() == [("127.0.0.1", 7001)]
        host.reactor.advance(3)
        assert len(host.dialled()) == 1
        wire = host.answered()
        assert wire.take() == b""
        wire.send(info())
        host.settle()
        assert wire.take().startswith(b'CONNECT {"echo":false')

    def test_everyPlace(self) -> None:
        """All addresses of a cluster are tried before a pause."""
        host = Edge(
            'gateways: [ {name: B, urls: ["nats://127.0.0.1:1", "nats://127.0.0.1:2"]} ]'
        ).start()
        host.reactor.advance(1.0)
        with logLines() as lines:
            host.refuse()
            host.refuse()
        assert sorted(host.dialled()) == [("127.0.0.1", 1), ("127.0.0.1", 2)]
        assert [line for line in lines if "[ERR]" in line] == [
            '[ERR] Error trying to connect to explicit gateway "B" (attempt 1): '
            "Connection was refused by other side."
        ]
        host.reactor.advance(1.2)
        assert len(host.dialled()) == 3

    def test_lostGateway(self) -> None:
        """A gateway whose connection is lost is dialled again."""
        host = Edge(REMOTES).start()
        host.reactor.advance(1.0)
        wire = host.answered()
        wire.send(info())
        wire.hangUp()
        host.settle()
        host.reactor.advance(1.2)
        assert len(host.dialled()) == 2

    @pytest.mark.parametrize("text, count", [("", 1), ("connect_retries: 2", 3)])
    def test_gossipedGateway(self, text: str, count: int) -> None:
        """
        A gateway from gossip is dialled up to the configured number of attempts, and then
        forgotten.
        """
        host = Edge(text).start()
        peer = host.peer(gateway_urls=[])
        host.service.gateways.learned("C", ["127.0.0.1:7009"])
        host.settle()
        host.reactor.advance(0.1)
        for attempt in range(1, 5):
            if attempt <= count:
                host.refuse()
            host.reactor.advance(1.2)
        assert host.dialled() == [("127.0.0.1", 7009)] * count
        assert "C" not in host.service.gateways.remotes and peer.connected

    def test_hostNameIsResolved(self) -> None:
        """A host name is resolved."""
        host = Edge('gateways: [ {name: B, url: "b.example:7001"} ]')
        host.reactor.installNameResolver(_Resolver())
        host.start()
        host.reactor.advance(1.0)
        host.settle()
        assert ("10.0.0.7", 7001) in host.dialled()

    def test_stopped(self) -> None:
        """A broker that has stopped dials no gateway, not even for the first time."""
        host = Edge(REMOTES).start()
        host.broker.stopService()
        host.reactor.advance(5)
        assert host.dialled() == []
        other = Edge(REMOTES).start()
        other.reactor.advance(1.0)
        other.broker.stopService()
        other.reactor.advance(5)
        assert len(other.dialled()) == 1


class _Resolver:
    """Resolves every name to the same address."""

    def resolveHostName(
        self, receiver: Any, name: str, portNumber: int = 0, *_: Any, **__: Any
    ) -> Any:
        receiver.resolutionBegan(None)
        receiver.addressResolved(IPv4Address("TCP", "10.0.0.7", portNumber))
        receiver.resolutionComplete()
        return receiver


class TestPassing:
    """Messages between clusters."""

    def test_interestOnly(self) -> None:
        """
        By default no unwanted message is sent, so that the first request has no responders at once.
        """
        host = Edge(REMOTES).start()
        host.reactor.advance(1.0)
        client = host.client(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        client.ask(b"SUB r 1\r\n")
        out = host.answered()
        out.send(info())
        out.take()
        assert b"NATS/1.0 503" in client.ask(b"PUB x r 2\r\nhe\r\n")
        assert b"RMSG" not in out.take()
        out.send(b"RS+ $G x\r\n")
        client.ask(b"PUB x 2\r\nhe\r\n")
        assert out.take() == b"RMSG $G x 2\r\nhe\r\n"

    def test_messages(self) -> None:
        """
        Messages are sent over the connection that we dialled, and received over the other one.
        """
        host = Edge(f"{REMOTES}, interest {{ plugin: optimistic }}").start()
        host.reactor.advance(1.0)
        client = host.client()
        out = host.answered()
        out.send(info(gateway_iom=False))
        peer = host.peer(gateway_iom=False)
        out.take(), peer.take()
        client.ask(b"SUB foo 1\r\nSUB bar q 2\r\n")
        assert peer.take() == b"RS+ $G bar q 1\r\n"
        peer.send(b"RMSG $G foo rep 2\r\nhi\r\nRMSG $G bar | q 2\r\nho\r\nRMSG $G no 0\r\n\r\n")
        assert client.receive() == b"MSG foo 1 rep 2\r\nhi\r\nMSG bar 2 2\r\nho\r\n"
        assert peer.take() == b"RS- $G bar\r\nRS- $G no\r\n"
        client.ask(b"PUB x 2\r\nhe\r\n")
        assert out.take() == b"RMSG $G x 2\r\nhe\r\n"

    def test_answers(self) -> None:
        """
        The answer to a request of another cluster is sent with the reply subject of the request.
        """
        host = Edge(REMOTES).start()
        host.reactor.advance(1.0)
        client = host.client(b'CONNECT {"verbose":false}\r\nSUB svc 1\r\n')
        out = host.answered()
        out.send(info())
        peer = host.peer()
        out.take(), peer.take()
        names = host.service.gateways.remotes["B"].name
        assert names == "B"
        peer.send(b"RMSG $G svc _GR_.AAAAAA.BBBBBB._INBOX.1 2\r\nhi\r\n")
        assert client.receive() == b"MSG svc 1 _INBOX.1 2\r\nhi\r\n"

    def test_lameDuck(self) -> None:
        """A broker in lame duck mode announces the other members to other clusters."""
        host = Edge(more=CLUSTER).start()
        peer = host.peer()
        host.service.gateways.gossip.memberJoined("127.0.0.1:9", lambda line: None)
        peer.take()
        host.broker.lameDuck()
        host.settle()
        assert b'"gateway_urls":["127.0.0.1:9"]' in peer.take()


class TestReloading:
    """Reloads with changed gateways."""

    def test_changeNeedsRestart(self) -> None:
        """A reload that changes gateways is refused, as with nats-server."""
        host = Edge(REMOTES).start()
        for text in ("", REMOTES + ", connect_retries: 3", 'gateways: [ {name: B, url: "x:1"} ]'):
            with pytest.raises(ReloadError, match="config reload not supported for Gateway"):
                host.broker.reload(settingsOf(GATEWAY % (text, "")))
        host.broker.reload(settingsOf(GATEWAY % (REMOTES, "debug: true")))
        with pytest.raises(ReloadError, match="config reload not supported for Gateway"):
            host.broker.reload(settingsOf("listen: '127.0.0.1:4222', server_name: n1"))

    def test_addedGatewayNeedsRestart(self) -> None:
        """A reload that adds a gateway is refused."""
        host = Host("port: 4222")
        host.start()
        with pytest.raises(ReloadError, match="config reload not supported for Gateway"):
            host.broker.reload(settingsOf('port: 4222, gateway { name: A, listen: "127.0.0.1:1" }'))

    def test_tls(self, tmp_path: Path) -> None:
        """A reload may change the certificates of gateways."""
        writeCertificates(tmp_path)
        text = (
            f"tls {{ cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem', "
            f"ca_file: '{tmp_path}/ca.pem', timeout: %d }}"
        )
        host = Edge(text % 2).start()
        before = host.factory(7222).tls
        host.broker.reload(settingsOf(GATEWAY % (text % 3, "")))
        after = host.factory(7222).tls
        assert before is not after and after.settings.timeout == 3.0
        assert host.service.gateways.terms.tls is after

    def test_accounts(self) -> None:
        """An account that a reload adds is announced to other clusters."""
        host = Edge().start()
        peer = host.peer()
        peer.take()
        assert "C" not in LinkBuses(host.broker.accounts, Kind.GATEWAY).names()
        text = (GATEWAY % ("", "")).replace("A {}", "A {}, C {}")
        host.broker.reload(settingsOf(text))
        host.settle()
        bus = LinkBuses(host.broker.accounts, Kind.GATEWAY).busOf("C")
        assert bus is not None and bus.account == "C"
        assert b'"gateway_cmd":2,"gateway_cmd_payload":"Qw=="' in peer.take()


def test_insecure(tmp_path: Path) -> None:
    """A configuration that does not verify certificates gives a warning."""
    writeCertificates(tmp_path)
    files = (
        f"cert_file: '{tmp_path}/server.pem', key_file: '{tmp_path}/server-key.pem', "
        f"ca_file: '{tmp_path}/ca.pem', insecure: true"
    )
    with logLines(False) as lines:
        Edge(f"gateways: [ {{name: B, url: 'b:1', tls {{ {files} }}}} ]").start()
    warned = [line for line in lines if "[WRN]" in line]
    assert any("solicited gateways will not be verified" in line for line in warned)
