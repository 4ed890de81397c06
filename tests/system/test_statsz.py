"""Tests for L{natsbroker.system.statsz}."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from natsbroker.monitoring.answers import complete
from natsbroker.system.statsz import Statsz
from tests.monitoring.staging import Stage


def statsOf(stage: Stage, jetstream: Any = None) -> Any:
    """
    The status of a broker.
    """
    varz = stage.model.varz
    if jetstream is not None:
        varz.contributions["jetstream"] = lambda: jetstream
    return complete(Statsz(varz._state, varz).steps())


def test_figures() -> None:
    """The figures of the status are those of the other pages."""
    stage = Stage()
    client = stage.client("a@A")
    client.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
    stats = statsOf(stage)
    assert (stats["connections"], stats["total_connections"], stats["active_accounts"]) == (1, 1, 1)
    assert stats["received"] == stats["received_from_clients"] == {"msgs": 1, "bytes": 2}
    assert stats["sent"] == stats["sent_to_clients"] == {"msgs": 1, "bytes": 2}
    assert (stats["active_servers"], stats["mem"], "jetstream" in stats) == (1, 4096, False)


def test_jetStream() -> None:
    """JetStream is shown without its directory."""
    part = {"config": {"store_dir": "/data", "strict": True}, "stats": {}, "limits": {}}
    stats = statsOf(Stage(), part)
    assert stats["jetstream"] == {"config": {"strict": True}, "stats": {}, "limits": {}}


def link(number: int, name: str, counts: tuple[int, int, int, int]) -> Any:
    """
    A route or a gateway.
    """
    outbox = SimpleNamespace(pending=5)
    return SimpleNamespace(
        number=number, remoteName=name, gateway=name, counts=counts, outbox=outbox
    )


def test_links() -> None:
    """Each route is shown, and each gateway with the sum of its inbound connections."""
    stage = Stage()
    varz = stage.model.varz
    statsz = Statsz(varz._state, varz)
    statsz.routes = lambda: [link(3, "n2", (1, 2, 3, 4))]
    inbound = [link(5, "G", (1, 10, 0, 0)), link(6, "G", (2, 20, 0, 0)), link(7, "H", (9, 9, 9, 9))]
    statsz.gateways = lambda: ({"G": link(4, "G", (0, 0, 7, 8))}, inbound)
    stats = complete(statsz.steps())
    assert stats["routes"] == [
        {
            "rid": 3,
            "name": "n2",
            "sent": {"msgs": 3, "bytes": 4},
            "received": {"msgs": 1, "bytes": 2},
            "pending": 5,
        }
    ]
    assert stats["gateways"] == [
        {
            "gwid": 4,
            "name": "G",
            "sent": {"msgs": 7, "bytes": 8},
            "received": {"msgs": 3, "bytes": 30},
            "inbound_connections": 2,
        }
    ]
    assert list(stats)[-4:] == ["routes", "gateways", "active_servers", "gomaxprocs"]


def test_troubles() -> None:
    """
    Slow consumers and stale connections are counted by kind; without any, only their number is
    shown.
    """
    stage = Stage()
    assert "slow_consumer_stats" not in statsOf(stage)
    connections = stage.world.context.connections
    connections.slowConsumer("Slow Consumer (Pending Bytes)")
    connections.ended["Stale Connection"] = 2
    connections.stalls = 3
    stats = statsOf(stage)
    assert stats["slow_consumers"] == stats["slow_consumer_stats"]["clients"] == 1
    assert stats["stale_connections"] == stats["stale_connection_stats"]["clients"] == 2
    assert stats["stalled_clients"] == 3
