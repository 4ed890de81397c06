"""
What an account is subscribed to, by what patterns begin with.
"""

from __future__ import annotations

from natsbroker.monitoring.demand import Demand
from natsbroker.testing.memory import MemoryBroker


def test_counts() -> None:
    """Different patterns with the same beginning are counted together, until they are gone."""
    with MemoryBroker() as broker:
        client = broker.connect({"verbose": False})
        client.request(b"SUB a.b.c 1\r\nSUB x 2\r\n")
        demand = Demand(broker.bus(), 2)
        before = demand.patterns.copy()
        client.request(b"SUB a.b.d 3\r\nSUB a.b.c q 4\r\nSUB a.b.c 5\r\nSUB _INBOX.u.1 6\r\n")
        assert before[b"a.b.>"] == before[b"x"] == 1
        assert demand.patterns[b"a.b.>"] == 3
        assert demand.patterns[b"_INBOX.>"] == 1
        client.request(b"UNSUB 3\r\nUNSUB 4\r\nUNSUB 1\r\nUNSUB 2\r\n")
        assert demand.patterns[b"a.b.>"] == 1
        assert b"x" not in demand.patterns
        demand.stop()
        client.request(b"SUB x 7\r\n")
        assert b"x" not in demand.patterns
