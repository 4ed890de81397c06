"""
Rows of traffic of a broker in memory.
"""

from __future__ import annotations

from typing import Any

from natsbroker.advisories import ClientDisconnected, GatewayUnwanted
from natsbroker.monitoring.traffic import TrafficModel
from natsbroker.testing.memory import MemoryBroker

ACCOUNTS = "accounts { A { users: [{user: a, password: a}] } }"


class Counted:
    """
    A broker whose global account is counted.
    """

    def __init__(self, broker: MemoryBroker, **options: Any) -> None:
        self.model = TrafficModel(
            broker.broker.monitoring, options.get("depth", 2), options.get("most", 100)
        )
        broker.broker.watchAccounts(self.model.watch)

    def rows(self) -> dict[tuple[str, str, str, str], dict[str, int]]:
        """The rows, by what they are about."""
        found = {}
        for row in self.model.take():
            names = ("account", "peer_kind", "peer", "subject_prefix")
            account, kind, peer, prefix = (row.pop(name) for name in names)
            found[account, kind, peer, prefix] = row
        return found


def test_clients() -> None:
    """What clients publish, with the copies and what nobody wanted; once."""
    with MemoryBroker(configText=ACCOUNTS) as broker:
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
    """More subjects than places: nothing is missed, and places go to those who need them."""
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
    """What other clusters sent for nothing, and clients that were too slow."""
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
