"""
A broker's leafnode connections, on a reactor in memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from natsbroker import errors
from natsbroker.config.settings.authorization import AccountLimits
from natsbroker.links.hostcluster import HostCluster
from natsbroker.runtime.failures import StartError
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.identity import ServerKeys
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Kind
from tests.leafnodes.pairs import HUB, SPOKE, TEXT, Leafy
from tests.links.linkhosts import occupy
from tests.server.support import Host, logLines, settingsOf

#: Of a server with several workers.
KEYS = ServerKeys()


class TestHub:
    """Leafnodes that dial this broker."""

    def test_letIn(self) -> None:
        """A user for clients may connect as a leafnode, to the same account."""
        host = Leafy(HUB).start()
        peer = host.peer()
        peer.take()
        peer.send(b"LS+ foo\r\n")
        client = host.dial()
        client.ask(b'CONNECT {"user":"a","pass":"a","verbose":false}\r\nPUB foo 2\r\nhi\r\n')
        assert peer.take() == b"LMSG foo 2\r\nhi\r\n"
        assert host.broker.accounts.leafnodes("A") == 1

    def test_wrongLoginIsRefused(self) -> None:
        """A leafnode with a wrong password is refused."""
        host = Leafy(HUB).start()
        peer = host.peer(**{"pass": "x"})
        assert b"-ERR 'Authorization Violation'" in peer.take()

    def test_ownUsers(self) -> None:
        """Leafnodes may have users of their own."""
        host = Leafy(HUB + ", authorization { user: l, pass: m, account: B }").start()
        assert b"-ERR 'Authorization Violation'" in host.peer().take()
        host.peer(**{"user": "l", "pass": "m"})
        assert host.broker.accounts.leafnodes("B") == 1

    def test_places(self) -> None:
        """The log of the hub has the address of the listener."""
        with logLines() as lines:
            host = Leafy(HUB + ", advertise: 'h:1'").start()
        assert host.broker.addresses()["leafnodes"] == ["nats-leaf://127.0.0.1:7422"]
        assert any("Listening for leafnode connections on" in line for line in lines)
        assert "[INF] Advertise address for leafnode is set to h:1" in lines
        peer = host.peer()
        assert b'"leafnode_urls":["h:1"]' in peer.take()

    def test_portInUse(self) -> None:
        """A port in use ends the start of the broker."""
        host = Leafy(HUB)
        occupy(host.reactor, 7422)
        with pytest.raises(StartError, match="Error listening on leafnode port: 7422"):
            host.start()

    def test_stop(self) -> None:
        """All leafnode connections end when the broker stops."""
        host = Leafy(HUB).start()
        peer = host.peer()
        host.broker.stopService()
        host.settle()
        assert peer.closed and host.broker.accounts.leafnodes("A") == 0

    def test_limit(self) -> None:
        """The number of leafnodes of an account is limited."""
        host = Leafy(HUB)
        host.broker.accounts.include("A", AccountLimits(max_leafnodes=1))
        accounts = host.broker.accounts
        assert accounts.admit(Grant("A"), Kind.SPOKE).account == "A"
        with pytest.raises(errors.ConnectionLimit, match="maximum account active connections"):
            accounts.admit(Grant("A"), Kind.HUB)
        accounts.dismiss(Grant("A"), Kind.SPOKE)
        accounts.admit(Grant("A"), Kind.HUB)

    def test_revoked(self) -> None:
        """A leafnode whose user a reload removes is disconnected."""
        host = Leafy(HUB).start()
        peer = host.peer()
        text = (TEXT % HUB).replace("user: a, password: a", "user: a, password: other")
        host.broker.reload(settingsOf(text))
        host.settle()
        assert peer.closed


class TestSpoke:
    """Hubs that this broker dials."""

    def test_dials(self) -> None:
        """The spoke dials its hub, identifies itself, and connects its account."""
        host = Leafy(SPOKE).start()
        assert host.dialled() == [("10.0.0.1", 7422)]
        hub = host.answer()
        said = hub.take()
        assert b'"user":"u","pass":"p"' in said and b'"cluster":"n1"' in said
        assert host.broker.accounts.leafnodes("B") == 1

    def test_lostHubIsDialledAgain(self) -> None:
        """The spoke dials again after a failed or lost connection, with increasing pauses."""
        host = Leafy(SPOKE).start()
        with logLines() as lines:
            host.refuse()
        where = 'Error trying to connect as leafnode to remote server "10.0.0.1:7422" (attempt 1): '
        assert any(where in line for line in lines)
        host.wait(0.5)
        assert len(host.dialled()) == 1
        host.wait(2.0)
        assert len(host.dialled()) == 2
        hub = host.answer()
        hub.hangUp()
        host.wait(0.5)
        assert len(host.dialled()) == 2
        host.wait(2.0)
        assert len(host.dialled()) == 3

    def test_otherAddress(self) -> None:
        """The configured addresses are dialled in turn, and then those that the hub announces."""
        urls = "remotes: [ {urls: ['nats://10.0.0.1:1', 'nats://10.0.0.2:2'], no_randomize: true} ]"
        host = Leafy(urls).start()
        host.refuse()
        host.wait(2.5)
        assert host.dialled() == [("10.0.0.1", 1), ("10.0.0.2", 2)]
        hub = host.answer(leafnode_urls=["10.0.0.9:9"])
        hub.hangUp()
        host.wait(2.5)
        assert host.dialled()[-1] == ("10.0.0.9", 9)

    def test_pause(self) -> None:
        """A hub that detected a loop is not dialled for a while."""
        host = Leafy(SPOKE).start()
        hub = host.answer()
        hub.send(b"-ERR 'Loop detected for leafnode'\r\n")
        host.wait(29.0)
        assert len(host.dialled()) == 1
        host.wait(9.0)
        assert len(host.dialled()) == 2

    def test_disabled(self) -> None:
        """A disabled remote is not dialled."""
        host = Leafy("remotes: [ {url: h, disabled: true} ]").start()
        assert host.dialled() == []


class TestNeighbours:
    """Workers, which are one server for leafnodes."""

    def neighbour(self, tmp_path: Path, number: int) -> Leafy:
        """One of two workers, which have the keys of one server."""
        host = Leafy(SPOKE, hostCluster=HostCluster(str(tmp_path), number, 2), keys=KEYS)
        return host.start()

    def test_oneDials(self, tmp_path: Path) -> None:
        """
        Only the worker that is chosen dials remotes, and it disconnects when another one is chosen.
        """
        host = self.neighbour(tmp_path, 2)
        service = host.broker.leafnodes
        assert service is not None and host.dialled() == []
        service.useRemotes(True)
        host.settle()
        assert host.dialled() == [("10.0.0.1", 7422)]
        hub = host.answer()
        assert f'"server_id":"{KEYS.id}","name":"n1"'.encode("ascii") in hub.take()
        service.useRemotes(True)
        hung: list[object] = []
        service.useRemotes(False).addCallback(lambda _: hung.append(hub.closed))
        assert hung == []
        host.wait(5.0)
        assert hung == ["lost"] and len(host.dialled()) == 1
        service.useRemotes(True)
        host.wait(0.5)
        assert len(host.dialled()) == 2

    def test_reload(self, tmp_path: Path) -> None:
        """A worker that does not dial remotes does not dial a new one after a reload."""
        host = self.neighbour(tmp_path, 2)
        host.reload(SPOKE.replace("]", ', {url: "nats://10.0.0.2:2", account: A} ]'))
        host.wait(5.0)
        assert host.dialled() == []


class TestReload:
    """Reloads with changed leafnodes."""

    def test_remotes(self) -> None:
        """A reload may add and remove remotes, and the others stay connected."""
        other = '{url: "nats://10.0.0.2:2", account: A}'
        host = Leafy(SPOKE).start()
        hub = host.answer()
        host.reload(SPOKE.replace("]", f", {other} ]"))
        assert host.dialled()[-1] == ("10.0.0.2", 2) and not hub.disconnecting
        host.answer()
        host.reload(f"remotes: [ {other} ]")
        host.wait(5.0)
        service = host.broker.leafnodes
        assert not hub.connected and len(host.dialled()) == 2
        assert service is not None and len(service.leafs) == 1

    def test_disabling(self) -> None:
        """A reload may disable a remote, and enable it again."""
        host = Leafy(SPOKE).start()
        hub = host.answer()
        host.reload(SPOKE.replace("}", ", disabled: true}"))
        host.wait(5.0)
        assert hub.closed and len(host.dialled()) == 1
        host.reload(SPOKE)
        host.wait(0.5)
        assert len(host.dialled()) == 2

    def test_compression(self) -> None:
        """
        A reload that changes the compression of the block, or of a remote, applies to existing
        connections.
        """
        host = Leafy(f"{HUB}, compression: fast, {SPOKE}").start()
        host.peer()
        host.answer()
        service = host.broker.leafnodes
        assert service is not None
        dialled, accepted = sorted(service.leafs, key=lambda leaf: not leaf.isDialled)
        assert dialled.compression.wanted.mode == "s2_auto"
        assert accepted.compression.wanted.mode == "s2_fast"
        with logLines() as lines:
            host.reload(f"{HUB}, compression: off, {SPOKE.replace('}', ', compression: best}')}")
        assert dialled.compression.wanted.mode == "s2_best"
        assert accepted.compression.wanted.mode == "off"
        assert service.leafs.block.compression.mode == "off"
        said = [line for line in lines if "Compression value is" in line]
        assert "Reloaded: LeafNode Compression value is: {off []}" in said[0]
        assert 'account="B" Compression value is: {s2_best []}' in said[1] and "u:p" not in said[1]

    @pytest.mark.parametrize(
        "before, after",
        [
            (HUB, HUB.replace("7422", "7423")),
            (HUB, HUB + ", isolate: true"),
            (HUB, HUB + ", authorization { user: x, pass: y }"),
            (HUB, SPOKE + ", " + HUB.replace("127.0.0.1", "127.0.0.2")),
            (SPOKE, SPOKE.replace("}", ", hub: true}")),
        ],
    )
    def test_unsupportedReloadIsRefused(self, before: str, after: str) -> None:
        """A reload with a change that needs a restart is refused, and nothing changes."""
        host = Leafy(before).start()
        with pytest.raises(ReloadError, match="config reload not supported for LeafNode"):
            host.reload(after)
        assert host.broker.settings.leafnodes == settingsOf(TEXT % before).leafnodes

    def test_firstRemotes(self) -> None:
        """A reload may add remotes to a broker without any."""
        host = Host("port: 4222, server_name: n1, accounts { A {}, B {} }").start()
        text = "port: 4222, server_name: n1, accounts { A {}, B {} }\nleafnodes { %s }"
        host.broker.reload(settingsOf(text % SPOKE))
        host.settle()
        assert [client[0] for client in host.reactor.tcpClients] == ["10.0.0.1"]
