"""
What C{/healthz} asks of a broker.
"""

from __future__ import annotations

from natsbroker.hosting.health import listeningCheck, storeCheck
from natsbroker.stats.healthz import HealthQuery


class TestListening:
    """Whether clients can connect."""

    def test_everywhere(self) -> None:
        """Where they can, all is well."""
        assert list(listeningCheck(lambda: [])(HealthQuery())) == []

    def test_notEverywhere(self) -> None:
        """Where they cannot, the places are named, with the real server's status."""
        [problem] = listeningCheck(lambda: ["client listener 1", "client listener 3"])(
            HealthQuery()
        )
        assert problem.error == "not ready for connections: client listener 1, client listener 3"
        assert (problem.type, problem.status) == ("CONNECTION", 500)


class TestStore:
    """Whether streaming can store messages."""

    def test_well(self) -> None:
        """While it can, all is well."""
        assert list(storeCheck(lambda: "")(HealthQuery())) == []

    def test_trouble(self) -> None:
        """While it cannot, the reason is told."""
        [problem] = storeCheck(lambda: "disk full")(HealthQuery())
        assert problem.error == "the streaming store takes no writes: disk full"
        assert (problem.type, problem.status) == ("STREAM", 503)

    def test_serverOnly(self) -> None:
        """Whoever asks for the server alone does not hear of it."""
        assert list(storeCheck(lambda: "disk full")(HealthQuery(serverOnly=True))) == []
