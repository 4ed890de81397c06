"""
The handshake of a leafnode connection that we dialled.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from natsbroker.wire.compression import Compression
from natsbroker.wire.values import Kind
from tests.leafnodes.keys import KEY, SEED
from tests.leafnodes.leaves import Broker, info
from tests.server.support import logLines


class TestAgreeing:
    """The lines of the handshake, in order."""

    def test_connect(self) -> None:
        """Nothing is sent before the hub's INFO, and then CONNECT."""
        broker = Broker("spoke", cluster="LC")
        wire = broker.dialling()
        assert wire.take() == b""
        wire.send(info())
        (said,) = wire.documents(b"CONNECT")
        assert (said["user"], said["pass"], said["name"]) == ("u", "p", "spoke")
        assert (said["remote_account"], said["cluster"]) == ("A", "LC")
        assert said["headers"] and "is_hub" not in said and "auth_token" not in said
        assert said["compress_mode"] == "not supported"
        assert wire.leaf.name == "peer" and len(broker.leafs) == 0

    def test_agreed(self) -> None:
        """Interest is sent after the hub has accepted us."""
        broker = Broker("spoke")
        broker.subscribe(b"foo")
        wire = broker.dialling()
        wire.send(info())
        assert b"LS+" not in wire.take()
        wire.send(info(connect_info=True, remote_account="R"))
        assert wire.lines() == [b"LS+ foo"]
        assert wire.leaf.kind is Kind.HUB and wire.leaf.remoteAccount == "R"
        assert len(broker.leafs) == 1 and broker.buses.counts["A"] == 1

    def test_oldPeer(self) -> None:
        """A hub that does not answer CONNECT with INFO counts as having accepted us."""
        broker = Broker("spoke")
        broker.subscribe(b"foo")
        wire = broker.dialling()
        wire.send(info(info_on_connect=None))
        assert wire.lines() == [b"LS+ foo"]

    def test_token(self) -> None:
        """A user without a password is also sent as a token."""
        broker = Broker("spoke")
        wire = broker.dialling(broker.remote(urls=("nats://t@h:1",)))
        wire.send(info())
        (said,) = wire.documents(b"CONNECT")
        assert (said["user"], said["auth_token"]) == ("t", "t") and "pass" not in said

    def test_credentials(self) -> None:
        """The hub's nonce is signed with our credentials."""
        broker = Broker("spoke")
        remote = broker.remote(nkey=SEED)
        wire = broker.dialling(remote)
        wire.send(info(nonce="abc"))
        (said,) = wire.documents(b"CONNECT")
        assert said["nkey"] == KEY and said["sig"] == remote.credentials("abc")["sig"]

    def test_noCredentials(self) -> None:
        """
        If the credentials cannot be read, the connection is closed, and the log has the reason.
        """
        broker = Broker("spoke")
        with logLines() as lines:
            wire = broker.dialling(broker.remote(credentials="/nowhere/u.creds"))
            wire.send(info())
        assert b"CONNECT" not in wire.take() and wire.closed == "Internal Client"
        assert any("/nowhere/u.creds" in line for line in lines)
        assert len(broker.redialled) == 1

    def test_isHub(self) -> None:
        """A broker that dials may be the hub."""
        broker = Broker("hub")
        wire = broker.dialling(broker.remote(hub=True))
        wire.send(info())
        assert wire.documents(b"CONNECT")[0]["is_hub"] is True
        assert wire.leaf.kind is Kind.SPOKE

    @pytest.mark.parametrize("missing", ["client_id", "leafnode_urls"])
    def test_wrongPort(self, missing: str) -> None:
        """A peer whose port is not for leafnodes is disconnected before anything is sent."""
        broker = Broker("spoke")
        wire = broker.dialling()
        wire.send(info(**{missing: None}))
        assert wire.take() == b"" and wire.closed == "Incorrect Port"

    @pytest.mark.parametrize("line", [b"INFO {\r\n", b'INFO {"client_id":"x"}\r\n', b"PUB x 1\r\n"])
    def test_malformedLines(self, line: bytes) -> None:
        """A peer with malformed lines is closed."""
        wire = Broker("spoke").dialling()
        wire.send(line)
        assert b"CONNECT" not in wire.take() and wire.closed == "Protocol Violation"

    def test_clusterWithBlanks(self) -> None:
        """A hub whose cluster name has a space is refused."""
        wire = Broker("spoke").dialling()
        wire.send(info(cluster="a b"))
        assert wire.lines() == [b"-ERR 'cluster name cannot contain spaces'"]

    def test_silentPeer(self) -> None:
        """A hub that sends nothing is disconnected."""
        broker = Broker("spoke")
        wire = broker.dialling()
        broker.settle(1.2)
        assert wire.closed == "Read Error" and wire.take() == b""
        assert len(broker.redialled) == 1

    def test_stale(self) -> None:
        """A dialled peer that does not answer CONNECT in time is closed."""
        broker = Broker("spoke")
        wire = broker.dialling()
        wire.send(info())
        wire.take()
        broker.settle(2.2)
        assert wire.lines() == [b"-ERR 'Stale Leaf Node Connection - Closing'"]
        assert wire.closed == "Stale Connection"

    def test_accountIsMissing(self) -> None:
        """The connection is closed if our own account does not exist."""
        broker = Broker("spoke")
        broker.buses.refusal = KeyError("A")
        with logLines() as lines:
            wire = broker.hub()
        assert wire.closed == "Missing Account"
        assert any("Unable to lookup account A" in line for line in lines)


class TestPermissions:
    """The hub's permissions for us, and those of our settings."""

    def test_imports(self) -> None:
        """Denied interest is not sent, and messages on denied subjects are dropped."""
        broker = Broker("spoke")
        ear = broker.subscribe(b">")
        broker.subscribe(b"no.a")
        broker.subscribe(b"in.a")
        wire = broker.dialling()
        permissions = {"import": {"allow": ["in.*"], "deny": ["in.x"]}}
        wire.send(info())
        wire.take()
        wire.send(info(connect_info=True, **permissions))
        assert sorted(wire.lines()) == [b"LS+ >", b"LS+ in.a"]
        wire.send(b"LMSG in.a 1\r\n1\r\nLMSG no.a 1\r\n2\r\nLMSG in.x 1\r\n3\r\n")
        assert [message.body for message, _ in ear.got] == [b"1"] and not wire.closed

    def test_exports(self) -> None:
        """A message on a subject that the hub denies is not sent."""
        broker = Broker("spoke")
        wire = broker.hub(export={"deny": ["no"]})
        wire.send(b"LS+ *\r\nLS+ no\r\n")
        assert (broker.publish(b"no"), broker.publish(b"ok")) == (0, 1)
        assert wire.lines() == [b"LMSG ok 2", b"hi"] and not wire.closed

    def test_denied(self) -> None:
        """
        For a subject that our settings deny, no subscription and no message is sent, and messages
        of the hub are not delivered.
        """
        broker = Broker("spoke")
        ear = broker.subscribe(b"*.a")
        broker.subscribe(b"no.a")
        remote = broker.remote(deny_imports=("no.>",), deny_exports=("secret.>",))
        wire = broker.dialling(remote)
        wire.send(info())
        assert wire.documents(b"CONNECT")[0]["deny_pub"] == ["no.>"]
        wire.send(info(connect_info=True))
        assert wire.lines() == [b"LS+ *.a"]
        wire.send(b"LMSG no.a 1\r\n1\r\nLMSG ok.a 1\r\n2\r\nLS+ secret.>\r\nLS+ ok.b\r\n")
        assert [message.body for message, _ in ear.got] == [b"2"]
        assert (broker.publish(b"secret.x"), broker.publish(b"ok.b")) == (0, 1)

    def test_changed(self) -> None:
        """The hub may change our permissions."""
        broker = Broker("spoke")
        broker.subscribe(b"a")
        broker.subscribe(b"b")
        wire = broker.hub()
        wire.send(info(**{"import": {"allow": ["a"]}}))
        assert b"LS- b" in wire.lines()
        wire.send(info(**{"import": {"deny": ["a"]}}))
        assert {b"LS- a", b"LS+ b"} <= set(wire.lines())

    def test_malformedPermissions(self) -> None:
        """Malformed permissions in the hub's INFO end the connection."""
        broker = Broker("spoke")
        wire = broker.hub(broker.remote(), **{"import": {"allow": ["a..b"]}})
        assert wire.closed == "Protocol Violation"


class TestRefusals:
    """Errors of a hub, after which it is not dialled for a while."""

    @pytest.mark.parametrize(
        "text, pause",
        [
            ('Loop detected for leafnode account="A". Delaying attempt to reconnect', 30.0),
            ("remote leafnode has same cluster name", 30.0),
            ('connection rejected since minimum version required is "2.20.0"', 5.0),
            ('Permissions Violation for Publish to "x"', 30.0),
            ("Authorization Violation", 0.0),
            ("maximum subscriptions exceeded", 0.0),
        ],
    )
    def test_pause(self, text: str, pause: float) -> None:
        """The delay before the next attempt depends on the hub's error."""
        broker = Broker("spoke")
        remote = broker.remote()
        wire = broker.hub(remote)
        with logLines() as lines:
            wire.send(b"-ERR '%b'\r\n" % text.encode())
            wire.transport.hangUp()
            broker.settle()
        assert broker.redialled == [(remote, pause)]
        assert any(f'Leafnode Error "{text[:10]}' in line for line in lines)

    def test_staysOpen(self) -> None:
        """Any other error of the hub leaves the connection open."""
        wire = Broker("spoke").hub()
        wire.send(b"-ERR 'maximum subscriptions exceeded'\r\n")
        assert not wire.closed

    def test_ourLoop(self) -> None:
        """A loop that we detect ourselves delays the next attempt too."""
        broker = Broker("spoke")
        remote = broker.remote()
        wire = broker.hub(remote)
        wire.send(b"LS+ %b\r\n" % broker.leafs.loopSubjectOf("A"))
        (line,) = wire.lines()
        assert line.endswith(b'leafnode account="A". Delaying attempt to reconnect for 30s\'')
        assert broker.redialled == [(remote, 30.0)]


class TestAddresses:
    """Other addresses that the hub announces."""

    def test_learned(self) -> None:
        """An announced address is dialled before those of the settings."""
        broker = Broker("spoke")
        remote = broker.remote()
        broker.hub(
            remote, leafnode_urls=["127.0.0.1:7777", "10.0.0.1:1", "[::1]:2", "x", "y:99999"]
        )
        assert [str(url) for url in remote.urls] == ["10.0.0.1:1", "[::1]:2", "127.0.0.1:7777"]

    def test_ignored(self) -> None:
        """Announced addresses are ignored if the settings say so."""
        broker = Broker("spoke")
        remote = broker.remote(ignore_discovered_servers=True)
        broker.hub(remote, leafnode_urls=["10.0.0.1:1"])
        assert [str(url) for url in remote.urls] == ["127.0.0.1:7777"]


class TestCompression:
    """Compression, which we request before CONNECT if the hub offers it."""

    def dialled(self, mode: str = "s2_fast") -> tuple[Broker, Any]:
        """A connection that we dialled, with compression."""
        broker = Broker("spoke")
        wanted = Compression(mode, (0.01,) if mode == "s2_auto" else ())
        return broker, broker.dialling(broker.remote(compression=wanted))

    @pytest.mark.parametrize(
        "mode, peer, shown, level",
        [
            ("s2_fast", "s2_auto", "s2_fast", "s2_fast"),
            ("s2_auto", "accept", "s2_auto", "s2_uncompressed"),
            ("accept", "s2_best", "s2_best", "s2_best"),
        ],
    )
    def test_agreed(self, mode: str, peer: str, shown: str, level: str) -> None:
        """CONNECT is sent in S2 after the hub's INFO in S2, and signs the nonce of that INFO."""
        broker, wire = self.dialled(mode)
        broker.subscribe(b"foo")
        wire.send(info(compression=peer))
        said = wire.take()
        told = json.loads(said[5:])
        assert (told["client_id"], told["compression"]) == (7, shown) and told["server_id"] == ""
        wire.squeeze(info(compression=peer, nonce="second"))
        before, said = wire.unpack()
        assert before == b"" and said.startswith(b"CONNECT ")
        assert json.loads(said[8:])["compress_mode"] == level
        wire.squeeze(info(connect_info=True, remote_account="A"))
        assert b"LS+ foo\r\n" in wire.unpack()[1]
        assert wire.leaf.compression.level == level

    @pytest.mark.parametrize(
        "mode, peer, level",
        [("s2_fast", None, "not supported"), ("s2_auto", "off", "off"), ("off", "s2_fast", "off")],
    )
    def test_noCompression(self, mode: str, peer: str | None, level: str) -> None:
        """CONNECT is sent at once, without compression, if either side disables it."""
        _, wire = self.dialled(mode)
        wire.send(info(compression=peer))
        (said,) = wire.documents(b"CONNECT")
        assert said["compress_mode"] == level == wire.leaf.compression.level

    def test_unknown(self) -> None:
        """An unknown compression mode ends the connection."""
        _, wire = self.dialled()
        wire.send(info(compression="gzip"))
        assert wire.lines() == [b"-ERR 'unsupported route compression mode \"gzip\"'"]

    def test_silentHubInS2(self) -> None:
        """A hub that sends no INFO in S2 in time is disconnected without an error."""
        broker, wire = self.dialled()
        wire.send(info(compression="s2_fast"))
        wire.take()
        broker.settle(1.2)
        assert wire.take() == b"" and wire.closed == "Read Error"

    @pytest.mark.parametrize("mode", ["s2_fast", "s2_auto", "accept", "off"])
    @pytest.mark.parametrize("hub", ["s2_best", "accept", "not supported"])
    def test_pair(self, mode: str, hub: str) -> None:
        """Two of our brokers agree on compression, and messages pass in both directions."""
        above = Broker("hub", compression=Compression(hub))
        below = Broker("spoke", clock=above.clock)
        wanted = Compression(mode, (0.01,) if mode == "s2_auto" else ())
        heard = above.subscribe(b"up"), below.subscribe(b"down")
        below.join(above, compression=wanted)
        below.publish(b"up", b"x" * 1000)
        above.publish(b"down", b"y" * 1000)
        assert heard[0].bodies == [b"x" * 1000]
        assert heard[1].bodies == [b"y" * 1000]
        levels = [leaf.compression.level for broker in (above, below) for leaf in broker.leafs]
        assert [level.startswith("s2") for level in levels] in ([True, True], [False, False])

    def test_reload(self) -> None:
        """A remote's compression applies to its own connection only."""
        above = Broker("hub", compression=Compression("accept"))
        below = Broker("spoke", clock=above.clock)
        remote = below.join(above, compression=Compression("s2_fast"))
        (leaf,) = below.leafs
        below.leafs.useCompression(Compression("s2_best"))
        assert leaf.compression.level == "s2_fast"
        below.leafs.useCompression(Compression("s2_best"), remote)
        assert leaf.compression.level == "s2_best"
        below.leafs.useCompression(Compression("off"), remote)
        assert leaf.reason == "Client Closed"
