"""
The parts that a broker was told to use.
"""

from __future__ import annotations

from tests.server.support import Advisories, Host


def test_plugins() -> None:
    """The parts of a broker are named by kind, also those that were not configured."""
    host = Host(
        'gateway { name: g, listen: "127.0.0.1:-1" }, streaming { store: memory }, '
        "services { traffic {} }",
        observers=[Advisories()],
    )
    assert sorted(host.broker.monitoring.figures.plugins()) == [
        ("authorizer", "settings"),
        ("gateway policy", "built-in"),
        ("observer", "Advisories"),
        ("router", "built-in"),
        ("service", "streaming"),
        ("service", "traffic"),
        ("streaming store", "memory"),
    ]
