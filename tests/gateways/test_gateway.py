"""
The handshake of a connection between clusters.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.auth.passwords import PasswordChecks
from natsbroker.config.model import TLSSettings
from natsbroker.config.settings.gateways import Gateway
from natsbroker.connections.labels import inQuotes
from tests.auth.certificates import certificate
from tests.auth.hashes import blowfish
from tests.auth.threads import Threads
from tests.gateways.gatewaypeers import CONNECT, Joined, connect, info
from tests.links.linkpeers import linked
from tests.routes.clusters import everything
from tests.server.support import logLines


class TestAccepting:
    """Connections that other clusters have dialled."""

    def test_infoFirst(self) -> None:
        """INFO is sent first, with nats-server's fields."""
        wire = Joined().accepted()
        said = wire.take()
        assert said.startswith(b"INFO {") and said.endswith(b"}\r\n")
        document = json.loads(said[5:])
        assert document.pop("natsbroker") == "0.1.0"
        assert document == {
            "server_id": "ID-A-7222",
            "server_name": "A-7222",
            "version": "2.15.1",
            "proto": 3,
            "go": "",
            "host": "127.0.0.1",
            "port": 7222,
            "headers": True,
            "max_payload": 1048576,
            "gateway": "A",
            "gateway_urls": ["127.0.0.1:7222"],
            "gateway_url": "127.0.0.1:7222",
            "gateway_nrp": True,
        }

    def test_tellsAll(self) -> None:
        """INFO announces a policy that sends all interest at once."""
        (said,) = Joined(tellsAll=True).accepted().documents()
        assert said["gateway_iom"] is True

    def test_letIn(self) -> None:
        """A peer with a correct handshake is accepted as a gateway, and dialled in return."""
        node = Joined()
        wire = node.arrived()
        assert not wire.closed and list(node.gateways.inbound.values()) == [wire.link]
        assert wire.link.gateway == "B" and wire.link.remoteName == "peer"
        assert node.dialled == [("B", 0.0)]
        wire.take()
        wire.send(b"PING\r\n")
        assert wire.lines() == [b"PONG"]

    @pytest.mark.parametrize("user, password", [("u", "x"), ("x", "p"), ("", ""), ("u", "")])
    def test_password(self, user: str, password: str) -> None:
        """A wrong user or password ends the connection with an error."""
        node = Joined(user="u", password="p")
        wire = node.accepted()
        assert wire.documents()[0]["auth_required"] is True
        wire.send(connect(user=user, **{"pass": password}) + info())
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure" and not node.gateways.inbound

    def test_rightPassword(self) -> None:
        """A peer with the right user and password is accepted."""
        node = Joined(user="u", password="p")
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": "p"}) + info())
        assert not wire.closed

    @pytest.mark.parametrize("password, isRight", [("bar", True), ("baz", False)])
    def test_hash(self, password: str, isRight: bool) -> None:
        """A password may be configured as its hash, which is compared in a thread."""
        node = Joined(user="u", password=blowfish("bar"))
        threads = Threads()
        node.context.checks = PasswordChecks(threads)
        wire = node.accepted()
        wire.send(connect(user="u", **{"pass": password}) + info())
        assert not node.gateways.inbound and not wire.closed
        threads.run()
        node.settle()
        assert bool(node.gateways.inbound) == isRight
        assert wire.closed == ("" if isRight else "Authentication Failure")

    def test_mapped(self) -> None:
        """With C{verify_and_map}, the certificate names the user."""
        for name, isRight in (("gw.example.com", True), ("other.example.com", False)):
            tls = TLSSettings(verify_and_map=True)
            node = Joined(block=Gateway("A", user="gw.example.com", tls=tls))
            wire = node.accepted()
            wire.protocol.certificate = certificate(names=[name])
            wire.send(connect() + info())
            assert bool(node.gateways.inbound) == isRight

    @pytest.mark.parametrize(
        "early", [b"PING\r\n", info(), b"RS+ A foo\r\n", b"A- A\r\n", b"RMSG A b 0\r\n\r\n", b"x"]
    )
    def test_lineBeforeConnect(self, early: bytes) -> None:
        """A line before CONNECT ends the connection."""
        wire = Joined().accepted()
        wire.send(early)
        assert wire.lines() == [b"-ERR 'Authorization Violation'"]
        assert wire.closed == "Authentication Failure"

    def test_wrongName(self) -> None:
        """A peer that expected another cluster here is disconnected, and its error is logged."""
        wire = Joined().accepted()
        said = 'Connection from "B" rejected, wanted to connect to "X", this is "A"'
        with logLines() as lines:
            wire.send(f"-ERR '{said}'\r\n".encode())
        assert wire.closed == "Parse Error" and wire.lines() == []
        assert any(f"Gateway Error {inQuotes(said)}" in line for line in lines)

    def test_silentPeer(self) -> None:
        """A peer that sends nothing, or only a part of its handshake, is disconnected."""
        node = Joined(limits=linked(timeout=2.0))
        wire, half = node.accepted(), node.accepted()
        half.send(connect())
        node.settle(2.3)
        assert wire.lines() == [b"-ERR 'Authentication Timeout'"]
        assert wire.closed == half.closed == "Authentication Timeout"

    def test_wrongPort(self) -> None:
        """A client or a route that connects to the gateway port gets an error that says so."""
        wire = Joined().accepted()
        wire.send(b'CONNECT {"lang":"go","name":"x"}\r\n')
        assert wire.lines() == [b"-ERR 'attempted to connect to gateway port'"]
        assert wire.closed == "Incorrect Port"

    def test_unknown(self) -> None:
        """With C{reject_unknown_cluster}, only configured clusters are accepted."""
        node = Joined(reject_unknown_cluster=True)
        wire = node.accepted()
        with everything() as said:
            wire.send(connect())
        assert wire.lines() == [b"-ERR 'Connection to gateway \"A\" rejected'"]
        assert wire.closed == "Wrong Gateway" and not node.dialled
        assert any('Rejecting connection from gateway "B"' in line for line in said)
        node.dialling("B")
        assert not node.arrived().closed

    def test_ourName(self) -> None:
        """A cluster with our own name is refused, because its messages would be taken for ours."""
        wire = Joined().accepted()
        wire.send(connect(gateway="A"))
        assert wire.closed == "Wrong Gateway"

    def test_otherName(self) -> None:
        """A peer whose INFO has another cluster name than its CONNECT is disconnected."""
        wire = Joined().accepted()
        wire.send(connect() + info(gateway="C"))
        assert wire.closed == "Wrong Gateway"

    @pytest.mark.parametrize("name", ["A-7222", "neighbour"])
    def test_sameServerName(self, name: str) -> None:
        """A server with the name of a member of our own cluster is refused."""
        node = Joined()
        node.members.names.add("neighbour")
        with everything() as said:
            wire = node.arrived(server_name=name)
        assert wire.closed == "Duplicate Server Name"
        assert any(f'Remote server has a duplicate name: "{name}"' in line for line in said)

    @pytest.mark.parametrize("line", [b"CONNECT {\r\n", b"CONNECT\r\n", b'CONNECT {"name":1}\r\n'])
    def test_invalidConnect(self, line: bytes) -> None:
        """An invalid CONNECT or INFO closes the connection without an error."""
        wire, other = Joined().accepted(), Joined().accepted()
        wire.take()
        wire.send(line)
        assert wire.take() == b"" and wire.closed == "Protocol Violation"
        other.send(connect() + b"INFO {x\r\n")
        assert other.closed == "Protocol Violation"

    @pytest.mark.parametrize("line", [b"RS+ A foo\r\n", b"RS- A foo\r\n", b"A+ A\r\n", b"A- A\r\n"])
    def test_wrongDirection(self, line: bytes) -> None:
        """A peer that dialled us may not send interest."""
        wire = Joined().arrived()
        wire.take()
        wire.send(line)
        assert wire.take() == b"" and wire.closed == "Protocol Violation"

    def test_ends(self) -> None:
        """The traffic of an accepted connection ends with it, once."""
        node = Joined()
        wire = node.arrived()
        wire.hangUp()
        assert node.traffic.ended == 1 and not node.gateways.inbound and not len(node.gateways)


class TestDialling:
    """Connections that we dialled."""

    def test_silentFirst(self) -> None:
        """Nothing is sent before the peer's INFO."""
        assert Joined().dialling().take() == b""

    def test_introduction(self) -> None:
        """
        The peer's INFO is answered with CONNECT and INFO, with nats-server's fields, and a PING.
        """
        node = Joined(user="u", password="p")
        wire = node.reached()
        connecting, informing, ping, rest = wire.take().split(b"\r\n")
        said = json.loads(connecting.removeprefix(b"CONNECT "))
        assert said == {
            **{name: value for name, value in CONNECT.items() if name != "cluster"},
            "user": "u",
            "pass": "p",
            "name": "ID-A-7222",
            "gateway": "A",
        }
        assert json.loads(informing.removeprefix(b"INFO "))["gateway_url"] == "127.0.0.1:7222"
        assert (ping, rest) == (b"PING", b"")
        assert node.gateways.outbound == {"B": wire.link} and wire.link.gateway == "B"

    def test_ownUser(self) -> None:
        """A user in the URL replaces that of the settings."""
        node = Joined(user="u", password="p")
        wire = node.dialling()
        link = wire.link
        object.__setattr__(link.target, "user", "x")
        object.__setattr__(link.target, "password", "y")
        assert node.gateways.connectOptions(link.cluster, link.target)["user"] == "x"
        assert node.gateways.connectOptions(link.cluster, link.target)["pass"] == "y"

    def test_noGateway(self) -> None:
        """A dialled peer that is not a gateway gets an error with that reason."""
        node = Joined()
        wire = node.dialling()
        wire.send(info(gateway=""))
        assert wire.lines() == [b"-ERR 'Attempt to connect to gateway \"B\" using wrong port'"]
        assert wire.closed == "Incorrect Port"

    def test_wrongGateway(self) -> None:
        """A dialled peer of another cluster gets an error with the expected name."""
        node = Joined()
        with everything() as said:
            wire = node.dialling()
            wire.send(info(gateway="C"))
        assert wire.lines() == [
            b'-ERR \'Connection from "A" rejected, wanted to connect to "B", this is "C"\''
        ]
        assert wire.closed == "Wrong Gateway"
        wanted = 'Failing connection to gateway "B", remote gateway name is "C"'
        assert any(wanted in line for line in said)

    def test_sameServerName(self) -> None:
        """A dialled server with the name of a member of our own cluster is disconnected."""
        wire = Joined().dialling()
        wire.send(info(server_name="A-7222"))
        assert wire.closed == "Duplicate Server Name"

    @pytest.mark.parametrize(
        "line", [b"RMSG A foo 2\r\nhi\r\n", b"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"]
    )
    def test_wrongDirection(self, line: bytes) -> None:
        """A peer that we dialled may not send messages."""
        wire = Joined().reached()
        wire.take()
        wire.send(line)
        assert wire.take() == b"" and wire.closed == "Protocol Violation"

    def test_silentPeerIsRedialled(self) -> None:
        """A peer that sends no INFO is disconnected, and dialled again."""
        node = Joined(limits=linked(timeout=2.0))
        wire = node.dialling()
        node.settle(2.3)
        assert wire.closed == "Authentication Timeout" and node.dialled == [("B", 1.0)]

    def test_errorOfPeerEndsConnection(self) -> None:
        """An error of the peer ends the connection."""
        node = Joined()
        wire = node.reached()
        with everything() as said:
            wire.send(b"-ERR 'Authorization Violation'\r\n")
        assert wire.closed == "Parse Error" and not node.gateways.outbound
        assert any(
            "Gateway Error \"'Authorization" in line or "Authorization" in line for line in said
        )

    def test_stale(self) -> None:
        """A peer that answers no PING is disconnected."""
        node = Joined(limits=linked(ping_interval=1.0, ping_max=2))
        wire = node.reached()
        node.settle(5.0)
        assert wire.closed == "Stale Connection"
        assert wire.take().count(b"PING\r\n") == 3

    def test_ends(self) -> None:
        """The traffic of a dialled connection ends with it."""
        node = Joined()
        node.reached().hangUp()
        assert not node.gateways.outbound and node.traffic.ended == 1


@pytest.mark.parametrize(
    "document", [{"gateway_cmd": "x"}, {"gateway_urls": [None]}, {"gateway": 1}, {"gateway_iom": 1}]
)
def test_wrongTypes(document: dict[str, Any]) -> None:
    """An INFO with a value of a wrong type ends the connection, dialled or accepted."""
    for wire in (Joined().dialling(), Joined().accepted()):
        wire.send(connect() if wire.link.gateway == "" else b"PING\r\n")
        wire.send(info(**document))
        assert wire.closed == "Protocol Violation"
