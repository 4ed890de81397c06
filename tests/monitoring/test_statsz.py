"""Tests for L{natsbroker.monitoring.statsz}."""

from __future__ import annotations

from typing import Any

from natsbroker.monitoring.answers import complete
from natsbroker.monitoring.statsz import Statsz
from tests.monitoring.staging import Stage


def statsOf(stage: Stage, jetstream: Any = None) -> Any:
    """
    The status of a broker.
    """
    varz = stage.model.varz
    return complete(Statsz(varz._state, varz, lambda: jetstream or {}).steps())


def test_figures() -> None:
    """The figures are those of the other pages."""
    stage = Stage()
    client = stage.client("a@A")
    client.ask(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n")
    stats = statsOf(stage)
    assert (stats["connections"], stats["total_connections"], stats["active_accounts"]) == (1, 1, 1)
    assert stats["received"] == stats["received_from_clients"] == {"msgs": 1, "bytes": 2}
    assert stats["sent"] == stats["sent_to_clients"] == {"msgs": 1, "bytes": 2}
    assert (stats["active_servers"], stats["mem"], "jetstream" in stats) == (1, 4096, False)


def test_jetStream() -> None:
    """JetStream is shown without its folder."""
    part = {"config": {"store_dir": "/data", "strict": True}, "stats": {}, "limits": {}}
    stats = statsOf(Stage(), part)
    assert stats["jetstream"] == {"config": {"strict": True}, "stats": {}, "limits": {}}
