"""
The parts that a broker was told to use.
"""

from __future__ import annotations

from tests.server.support import Advisories, Host


def test_plugins() -> None:
    """
    The authorizer, router, policy, observers, services and stores in use are listed with their
    names.
    """
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
