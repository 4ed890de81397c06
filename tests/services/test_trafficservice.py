"""
The broker's own events, from a broker in memory.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from natsbroker.advisories import ClientDisconnected, GatewayUnwanted
from natsbroker.interfaces import IBrokerService
from natsbroker.runtime.plugins import PluginError
from natsbroker.server.configuration.build import buildText
from natsbroker.services.trafficservice import InterestByPrefix, TrafficModel, TrafficPlugin
from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.gateways.edges import REMOTES, Edge
from tests.gateways.gatewaypeers import info
from tests.server.support import Host
from tests.support import Recorder


def test_isAPlugin() -> None:
    """The traffic service is found like any other service."""
    assert IBrokerService.providedBy(TrafficPlugin())
    Host('services { traffic { interval: "2s", depth: 3, top: 50, account: "$G" } }')
    Host("services { traffic {} }")
    Host("services { traffic { interval: 0.5 } }, no_system_account: true")
    Host("plugins { traffic { channel: E } }, streaming {}")


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("colour: red", 'unknown option "colour"'),
        ("interval: 0", "interval must be 0.1 to 3600 seconds"),
        ("interval: soon", "interval must be"),
        ("interval: true", "interval must be"),
        ('interval: "2h"', "interval must be"),
        ("depth: 0", "depth must be a number from 1 to 16"),
        ("depth: 1.5", "depth must be a number"),
        ("top: 100000", "top must be a number from 1 to 20000"),
        ("account: nobody", "there is no account nobody"),
        ("channel: E", "channel needs a streaming block"),
    ],
)
def test_invalidSection(section: str, why: str) -> None:
    """The error for an invalid section names the option or its value."""
    with pytest.raises(PluginError, match=why):
        Host(f"services {{ traffic {{ {section} }} }}")


def test_refusedChannel() -> None:
    """A name that no channel can have is refused."""
    with pytest.raises(PluginError, match="no channel can be called"):
        Host('services { traffic { channel: "a.>" } }, streaming {}')


ONE_ACCOUNT = "accounts { A { users: [{user: a, password: a}] } }"


class Counted:
    """A broker whose traffic is counted."""

    def __init__(self, broker: MemoryBroker, **options: Any) -> None:
        self.model = TrafficModel(
            broker.broker.monitoring, options.get("depth", 2), options.get("most", 100)
        )
        broker.broker.watchAccounts(self.model.watch)

    def rows(self) -> dict[tuple[str, str, str, str], dict[str, int]]:
        """Take the rows of the report, by account, kind, peer and prefix."""
        results = {}
        for row in self.model.take():
            names = ("account", "peer_kind", "peer", "subject_prefix")
            account, kind, peer, prefix = (row.pop(name) for name in names)
            results[account, kind, peer, prefix] = row
        return results


def test_clients() -> None:
    """A report counts messages in and out, and those without a receiver. Each is reported once."""
    with MemoryBroker(configText=ONE_ACCOUNT) as broker:
        counted = Counted(broker)
        client = broker.connect({"verbose": False, "user": "a", "pass": "a"})
        client.request(b"SUB a.> 1\r\nSUB a.> 2\r\n")
        client.request(b"PUB a.b.c 3\r\nabc\r\nPUB a.b.d 3\r\nabc\r\nPUB n 1\r\nx\r\n")
        key = ("A", "client", "")
        assert counted.rows() == {
            (*key, "a.b.>"): {"msgs_in": 2, "bytes_in": 6, "msgs_out": 4, "bytes_out": 12},
            (*key, "n"): {"msgs_in": 1, "bytes_in": 1, "no_interest": 1},
        }
        assert counted.rows() == {}
        counted.model.stop()
        client.request(b"PUB a.b.c 3\r\nabc\r\n")
        assert counted.rows() == {}


def test_sumsWithFewPlaces() -> None:
    """With more subjects than rows, the sums are exact, and the busiest subjects have rows."""
    with MemoryBroker() as broker:
        counted = Counted(broker, most=4, depth=1)
        client = broker.connect({"verbose": False})
        total = 0
        for turn in range(6):
            for number in range(40):
                client.send(b"PUB s%d.x 1\r\nx\r\n" % number * (50 if number == 33 else 1))
            client.request()
            rows = counted.rows()
            assert len(rows) <= 5
            total += sum(row["msgs_in"] for row in rows.values())
            if turn > 0:
                assert rows["$G", "client", "", "s33.>"]["msgs_in"] == 50
        assert total == 6 * 89


def test_advisories() -> None:
    """A report counts unwanted messages from gateways, and clients that were closed as slow."""
    with MemoryBroker() as broker:
        counted = Counted(broker, most=2)
        for subject, size, isTold in [(b"a.b.c", 5, True), (b"a.b.d", 7, False), (b"x", 1, True)]:
            counted.model.observe(GatewayUnwanted("there", "$G", subject, size, isTold))
        counted.model.observe(GatewayUnwanted("there", "$G", b"y", 2, True))
        counted.model.observe(ClientDisconnected(1, "$G", "", "Slow Consumer (Pending Bytes)"))
        counted.model.observe(ClientDisconnected(2, "$G", "", "Client Closed"))
        rows = counted.rows()
        there = {prefix: row for (_, kind, _, prefix), row in rows.items() if kind == "gateway"}
        assert there["a.b.>"] == {
            "msgs_in": 2,
            "bytes_in": 12,
            "no_interest": 2,
            "rs_minus_sent": 1,
        }
        assert there["x"]["rs_minus_sent"] == 1
        assert there[">"]["bytes_in"] == 2
        assert rows["$G", "client", "", ""] == {"slow_drops": 1}
        assert counted.rows() == {}


ACCOUNTS = """
    server_name: n1
    accounts { A { users: [{user: a, password: a}] }, S { users: [{user: s, password: s}] } }
    system_account: S
"""

SERVICE = "services { traffic { %s } }"


def login(broker: MemoryBroker, name: str) -> MemoryConnection:
    """A client of an account."""
    return broker.connect({"verbose": False, "user": name, "pass": name})


def events(data: bytes) -> list[dict[str, Any]]:
    """The JSON payloads among the lines for a client."""
    return [json.loads(line) for line in data.split(b"\r\n") if line.startswith(b"{")]


def test_events() -> None:
    """At each interval, the system account gets events with the traffic and the interest."""
    text = ACCOUNTS + SERVICE % "interval: 5s"
    with MemoryBroker(configText=text) as broker:
        watcher, client = login(broker, "s"), login(broker, "a")
        watcher.request(b"SUB $NB.EVENT.> 1\r\n")
        client.request(b"SUB a.> 1\r\nPUB a.b.c 3\r\nabc\r\n")
        broker.advance(4.9)
        assert events(watcher.receive()) == []
        broker.advance(0.2)
        heard = watcher.receive()
        traffic, interest = events(heard)
        server = broker.broker.serverId
        assert f"MSG $NB.EVENT.TRAFFIC.{server} 1 ".encode() in heard
        assert f"MSG $NB.EVENT.INTEREST.{server} 1 ".encode() in heard
        assert traffic.pop("rows") == [
            {
                "account": "A",
                "peer_kind": "client",
                "peer": "",
                "subject_prefix": "a.b.>",
                "msgs_in": 1,
                "bytes_in": 3,
                "msgs_out": 1,
                "bytes_out": 3,
            }
        ]
        assert traffic == {
            "type": "io.natsbroker.event.v1.traffic",
            "timestamp": "1970-01-01T00:00:05Z",
            "seconds": 5.0,
            "server": {"id": server, "name": "n1"},
            "cluster": "",
            "part": 0,
            "parts": 1,
        }
        assert interest["type"] == "io.natsbroker.event.v1.interest"
        mine = {"account": "A", "peer_kind": "client", "peer": "", "subject_prefix": "a.>"}
        assert {**mine, "patterns": 1} in interest["rows"]
        broker.advance(5)
        assert events(watcher.receive())[0]["rows"] == []


def test_nobodyListens() -> None:
    """Traffic is dropped from the reports if nobody subscribes to them."""
    with MemoryBroker(configText=ACCOUNTS + SERVICE % "interval: 1s") as broker:
        watcher, client = login(broker, "s"), login(broker, "a")
        client.request(b"PUB a 1\r\nx\r\n")
        broker.advance(1.5)
        watcher.request(b"SUB $NB.EVENT.TRAFFIC.* 1\r\n")
        broker.advance(1)
        assert [event["rows"] for event in events(watcher.receive())] == [[]]


def test_anotherAccount() -> None:
    """Events may be sent to another account instead of the system account."""
    with MemoryBroker(configText=ACCOUNTS + SERVICE % "interval: 1s, account: A") as broker:
        watcher, client = login(broker, "s"), login(broker, "a")
        watcher.request(b"SUB $NB.EVENT.> 1\r\n")
        client.request(b"SUB $NB.EVENT.> 1\r\n")
        broker.advance(1)
        assert len(events(client.receive())) == 2
        assert watcher.receive() == b""


def test_pieces() -> None:
    """Many rows are sent in several messages, none larger than clients may receive."""
    text = SERVICE % "interval: 1s, account: '$G', depth: 3" + "\nmax_payload: 2000"
    with MemoryBroker(configText=text) as broker:
        watcher = broker.connect({"verbose": False})
        watcher.request(b"SUB $NB.EVENT.TRAFFIC.> 1\r\n")
        for number in range(40):
            watcher.request(b"PUB subject.%d 1\r\nx\r\n" % number)
        broker.advance(1)
        received = events(watcher.receive())
        assert [event["part"] for event in received] == list(range(len(received)))
        assert {event["parts"] for event in received} == {len(received)} != {1}
        rows = [row["subject_prefix"] for event in received for row in event["rows"]]
        assert sorted(rows) == sorted(f"subject.{number}" for number in range(40))


def test_newAccounts() -> None:
    """Accounts that a reload brings are counted too."""
    text = "accounts { A { users: [{user: a, password: a}] }%s }\n"
    more = SERVICE % "interval: 1s, account: A"
    with MemoryBroker(configText=text % "" + more) as broker:
        watcher = login(broker, "a")
        watcher.request(b"SUB $NB.EVENT.TRAFFIC.> 1\r\n")
        named = text % ", B { users: [{user: b, password: b}] }" + more
        broker.broker.reload(buildText(named, {}, "memory.conf").settings)
        login(broker, "b").request(b"PUB x 1\r\nx\r\n")
        broker.advance(1)
        (event,) = events(watcher.receive())
        assert [(row["account"], row["msgs_in"]) for row in event["rows"]] == [("B", 1)]


def test_stops() -> None:
    """A stopped service counts nothing and sends no events."""
    with MemoryBroker(configText=SERVICE % "interval: 1s, account: '$G'") as broker:
        matcher = broker.bus().matcher
        assert matcher.counterFor is not None
        cast(Any, broker.broker).getServiceNamed("traffic").disownServiceParent()
        assert cast(Any, matcher).counterFor is None
        watcher = broker.connect({"verbose": False})
        watcher.request(b"SUB $NB.EVENT.> 1\r\n")
        broker.advance(3)
        assert events(watcher.receive()) == []


def test_stored() -> None:
    """Events are stored in a channel too, where one was named."""
    text = "streaming {}\n" + SERVICE % "interval: 1s, channel: NB_EVENTS"
    with MemoryBroker(configText=text) as broker:
        client = broker.connect({"verbose": False})
        client.request(b"PUB a 1\r\nx\r\n")
        broker.advance(3)
        client.request(b"SUB _INBOX.1 1\r\n")
        client.send(b"PUB $NB.API.CHANNEL.INFO.test-cluster.NB_EVENTS _INBOX.1 0\r\n\r\n")
        broker.advance(0)
        (state,) = events(client.receive())
        assert state["messages"] == 6


def test_gateways() -> None:
    """A report shows gateways with their state, messages that were sent, and unwanted ones."""
    more = 'services { traffic { interval: "1s", account: A } }'
    host = Edge("interest { plugin: switching }", more).start()
    watcher = host.client(b'CONNECT {"verbose":false,"user":"w","pass":"w"}\r\n')
    assert watcher.closed == ""
    bus = host.broker.bus("A")
    listener = Recorder()
    bus.subscribe(b"$NB.EVENT.>", listener)
    bus.subscribe(b"wanted", listener)
    group = Recorder()
    bus.subscribe(b"queued", group, queue=b"g")
    peer = host.peer(gateway_iom=False)
    peer.send(b"RMSG A not.wanted.1 2\r\nhi\r\nRMSG A not.wanted.2 2\r\nhi\r\n")
    peer.send(b"RMSG A queued | g 2\r\nhi\r\n")
    host.advance(1.2)
    assert len(group.got) == 1
    heard = [json.loads(message.payload) for message, _ in listener.got]
    (row,) = [row for row in heard[0]["rows"] if row["subject_prefix"]]
    assert row == {
        "account": "A",
        "peer_kind": "gateway",
        "peer": "B",
        "subject_prefix": "not.wanted.>",
        "msgs_in": 2,
        "bytes_in": 4,
        "no_interest": 2,
        "rs_minus_sent": 2,
    }
    (total,) = [row for row in heard[0]["rows"] if not row["subject_prefix"]]
    assert (total["peer_kind"], total["peer"], total["msgs_in"]) == ("gateway", "B", 3)
    assert heard[0]["cluster"] == "A"


def test_sentToGateways() -> None:
    """A message to another cluster is counted as long as the cluster wants it."""
    more = """
        accounts { A { users: [{user: a, password: a}] } }
        services { traffic { interval: "1s", account: A } }
    """
    host = Edge(REMOTES, more).start()
    host.reactor.advance(1.0)
    wire = host.answered()
    wire.send(info(gateway_iom=False))
    host.settle()
    wire.take()
    client = host.client(b'CONNECT {"verbose":false,"user":"a","pass":"a"}\r\n')
    listener = Recorder()
    host.broker.bus("A").subscribe(b"$NB.EVENT.>", listener)
    client.ask(b"PUB far.away.1 3\r\nabc\r\n", b"PUB far.away.1 _INBOX.1 3\r\nabc\r\n")
    assert wire.take().count(b"RMSG A far.away.1 ") == 2
    wire.send(b"RS- A far.away.1\r\n")
    client.ask(b"PUB far.away.1 3\r\nabc\r\n")
    host.advance(1.2)
    traffic, interest = [json.loads(message.payload) for message, _ in listener.got][:2]
    rows = {(row["peer_kind"], row["subject_prefix"]): row for row in traffic["rows"]}
    assert rows["client", "far.away.>"]["msgs_in"] == 3
    assert rows["client", "far.away.>"]["no_interest"] == 1
    sent = rows["gateway", "far.away.>"]
    assert (sent["peer"], sent["msgs_out"], sent["bytes_out"]) == ("B", 2, 6)
    (link,) = [
        row for row in interest["rows"] if row["peer_kind"] == "gateway" and "A" in row.values()
    ]
    assert (link["peer"], link["mode"], link["refused"]) == ("B", "optimistic", 1)


def test_interestByPrefix() -> None:
    """Interest is counted by prefix of its pattern."""
    with MemoryBroker() as broker:
        client = broker.connect({"verbose": False})
        client.request(b"SUB a.b.c 1\r\nSUB x 2\r\n")
        interest = InterestByPrefix(broker.bus(), 2)
        before = interest.patterns.copy()
        client.request(b"SUB a.b.d 3\r\nSUB a.b.c q 4\r\nSUB a.b.c 5\r\nSUB _INBOX.u.1 6\r\n")
        assert before[b"a.b.>"] == before[b"x"] == 1
        assert interest.patterns[b"a.b.>"] == 3
        assert interest.patterns[b"_INBOX.>"] == 1
        client.request(b"UNSUB 3\r\nUNSUB 4\r\nUNSUB 1\r\nUNSUB 2\r\n")
        assert interest.patterns[b"a.b.>"] == 1
        assert b"x" not in interest.patterns
        interest.stop()
        client.request(b"SUB x 7\r\n")
        assert b"x" not in interest.patterns
