"""
The registry of gateway connections: known clusters, and their connections.
"""

from __future__ import annotations

import pytest

from natsbroker.wire.serverinfo import parseDocument
from tests.gateways.gatewaypeers import Joined, info, internet, remote
from tests.links.linkpeers import linked
from tests.routes.clusters import everything
from tests.server.support import logLines


def settled(*nodes: Joined, seconds: float = 3.0) -> None:
    """Let brokers on one clock connect to each other."""
    for node in nodes:
        node.gateways.solicit()
    nodes[0].settle(seconds)


def outbound(node: Joined) -> list[str]:
    """The clusters that a broker has dialled."""
    return sorted(node.gateways.outbound)


def inbound(node: Joined) -> list[str]:
    """The clusters that have dialled a broker."""
    return sorted(link.gateway for link in node.gateways.inbound.values())


class TestFinding:
    """Clusters of one broker each that find each other."""

    def test_dialledBack(self) -> None:
        """A dialled cluster dials in return, so that messages can be sent in both directions."""
        one = Joined("A", 1, [remote("B", 2)])
        two = Joined("B", 2, clock=one.clock)
        internet(one, two)
        settled(one, two)
        assert outbound(one) == inbound(one) == ["B"]
        assert outbound(two) == inbound(two) == ["A"]

    def test_bothDial(self) -> None:
        """
        Two clusters that dial each other at the same time have one connection in each direction.
        """
        one = Joined("A", 1, [remote("B", 2)])
        two = Joined("B", 2, [remote("A", 1)], clock=one.clock)
        internet(one, two)
        settled(one, two)
        assert len(one.gateways) == len(two.gateways) == 2

    def test_gossip(self) -> None:
        """
        Two clusters that know the same third one find each other, and the third is dialled once.
        """
        three = Joined("C", 3)
        one = Joined("A", 1, [remote("C", 3)], clock=three.clock)
        two = Joined("B", 2, [remote("C", 3)], clock=three.clock)
        internet(one, two, three)
        settled(one, two, three)
        for node, others in ((one, ["B", "C"]), (two, ["A", "C"]), (three, ["A", "B"])):
            assert outbound(node) == inbound(node) == others

    def test_ownName(self) -> None:
        """Our own name in the list of clusters is not dialled."""
        node = Joined("A", 1, [remote("A", 1), remote("B", 2)])
        node.gateways.solicit()
        assert node.dialled == [("B", 0.0)]

    def test_rejected(self) -> None:
        """With C{reject_unknown_cluster}, clusters from gossip are not dialled."""
        node = Joined("A", 1, [remote("B", 2)], reject_unknown_cluster=True)
        wire = node.reached("B")
        wire.send(info(gateway="C", gateway_cmd=1, gateway_urls=["127.0.0.1:3"]))
        document = parseDocument(b'{"gateway":"C","gateway_cmd":1,"gateway_urls":["x:1"]}')
        node.gateways.gossip.heard(document, "PEER")
        assert list(node.gateways.remotes) == ["B"] and not node.dialled

    def test_placesUnknown(self) -> None:
        """A cluster without a known address is not dialled."""
        node = Joined("A", 1)
        node.arrived(gateway_urls=[])
        node.gateways.learned("C", ["x", "y:0", "z:99999", "[::1"])
        assert not node.gateways.remotes and not node.dialled


class TestCommands:
    """Commands of a peer that we dialled."""

    def test_interest(self) -> None:
        """A command about interest is passed to the traffic."""
        node = Joined()
        wire = node.reached()
        wire.send(info(gateway_cmd=2, gateway_cmd_payload="QQ=="))
        assert [command.gateway_cmd_payload for command in node.traffic.commands] == ["QQ=="]
        assert not wire.closed

    def test_unknown(self) -> None:
        """An unknown command is logged."""
        node = Joined()
        node.traffic.understands = False
        wire = node.reached()
        with everything() as said:
            wire.send(info(gateway_cmd=9))
        assert any('Received unknown command 9 from gateway "B"' in line for line in said)

    @pytest.mark.parametrize("changes, reason", [({"gateway": "C"}, "Wrong Gateway")])
    def test_otherName(self, changes: dict[str, str], reason: str) -> None:
        """A gateway that changes its name is disconnected."""
        wire = Joined().reached()
        wire.send(info(**changes))
        assert wire.closed == reason

    def test_noName(self) -> None:
        """A dialled peer whose INFO has no cluster name is disconnected as one on a wrong port."""
        wire = Joined().reached()
        wire.send(info(gateway=""))
        assert wire.closed == "Incorrect Port"


class TestEnding:
    """The end of connections."""

    def test_redialled(self) -> None:
        """
        A lost cluster that we dialled is dialled again: after a second if the settings name it, or
        else at once. A cluster that dialled us dials again itself.
        """
        node = Joined("A", 1, [remote("B", 7777)])
        node.gateways.learned("C", ["127.0.0.1:3"])
        node.dialled.clear()
        explicit, implicit = node.reached("B"), node.reached("C", server_name="c")
        dialled = node.arrived(gateway="D", server_name="d", gateway_urls=[])
        for wire in (explicit, implicit, dialled):
            wire.hangUp()
        assert node.dialled == [("B", 1.0), ("C", 0.05)]

    def test_steady(self) -> None:
        """
        A cluster that accepts and then closes is dialled each second. The first attempt logs a
        warning with the cause.
        """
        node = Joined("A", 1, [remote("B", 7777)], limits=linked(timeout=1.0))
        with logLines() as lines:
            for _ in range(8):
                node.dialling("B").hangUp()
        assert [after for _, after in node.dialled] == [1.0] * 8
        [warning] = [line for line in lines if line.startswith("[WRN]")]
        assert 'Connection to gateway "B" ended before its INFO was taken: ' in warning
        assert warning.endswith("(attempt 1)")
        node.reached("B").hangUp()
        assert node.dialled[-1] == ("B", 1.0)

    def test_steadyByGossip(self) -> None:
        """A cluster known from gossip is dialled as often as a configured one."""
        node = Joined("A", 1)
        node.gateways.learned("C", ["127.0.0.1:3"])
        node.dialled.clear()
        for _ in range(3):
            node.dialling("C").hangUp()
        assert [after for _, after in node.dialled] == [1.0] * 3

    def test_secondConnection(self) -> None:
        """A second connection to a cluster is closed, and not opened again."""
        node = Joined()
        first = node.reached()
        second = node.reached()
        assert second.closed == "Wrong Gateway" and not first.closed and not node.dialled
        assert node.gateways.outbound == {"B": first.link}

    def test_unreachable(self) -> None:
        """
        A cluster from gossip that does not answer is forgotten, but not a configured or connected
        one.
        """
        node = Joined("A", 1, [remote("B", 2)])
        node.gateways.learned("C", ["127.0.0.1:3"])
        node.arrived(gateway="D", server_name="d", gateway_urls=["127.0.0.1:4"])
        node.dialled.clear()
        for name in ("B", "C", "D"):
            node.gateways.unreachable(node.gateways.remotes[name])
        assert sorted(node.gateways.remotes) == ["B", "D"]
        assert [name for name, _ in node.dialled] == ["D"]

    def test_forgottenStays(self) -> None:
        """A cluster that was forgotten during its connection is not dialled again."""
        node = Joined()
        node.gateways.learned("C", ["127.0.0.1:3"])
        wire = node.dialling("C")
        del node.gateways.remotes["C"]
        node.dialled.clear()
        wire.hangUp()
        assert not node.dialled

    def test_close(self) -> None:
        """All connections are closed at once, and no cluster is dialled any more."""
        node = Joined("A", 1, [remote("B", 2)])
        done: list[None] = []
        wires = [node.reached("B"), node.arrived(gateway="C", server_name="c")]
        node.dialled.clear()
        node.gateways.close(lambda: done.append(None))
        node.settle(2.0)
        assert [wire.closed for wire in wires] == ["Server Shutdown"] * 2
        assert done == [None] and not node.dialled
        late, more = node.accepted(), node.dialling("B")
        assert late.closed == more.closed == "Server Shutdown"
        node.gateways.close(lambda: done.append(None))

    def test_closeEmpty(self) -> None:
        """Closing without connections ends at once."""
        done: list[None] = []
        Joined().gateways.close(lambda: done.append(None))
        assert done == [None]


def test_accounts() -> None:
    """All connections are notified when accounts change."""
    node = Joined()
    node.reached(), node.arrived(gateway="C", server_name="c"), node.accepted()
    before = node.traffic.changes
    node.gateways.accountsChanged()
    assert node.traffic.changes == before + 2
