"""
What C{/healthz} asks of a broker.
"""

from __future__ import annotations

from natsbroker.monitoring.health import (
    listeningCheck,
    lossCheck,
    pollingCheck,
    storeCheck,
)
from natsbroker.monitoring.healthz import HealthQuery


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


class TestPolling:
    """Whether established connections are served."""

    def test_trouble(self) -> None:
        """While they are not, the reason is told."""
        assert list(pollingCheck(lambda: "")(HealthQuery())) == []
        [problem] = pollingCheck(lambda: "it fails")(HealthQuery())
        assert problem.error == "not serving connections: it fails"
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


class TestLosses:
    """Whether streaming has all that it stored."""

    def test_nothingLost(self) -> None:
        """While nothing is lost, all is well."""
        assert list(lossCheck(lambda: ())(HealthQuery())) == []

    def test_lost(self) -> None:
        """What is lost is named, with how it is acknowledged."""
        [problem] = lossCheck(lambda: ["see damaged-1/report.txt", "a: 3 to 4 may be lost"])(
            HealthQuery()
        )
        assert problem.error == (
            "degraded: the streaming store has lost something: see damaged-1/report.txt; "
            "a: 3 to 4 may be lost (natsbroker streaming acknowledge)"
        )
        assert (problem.type, problem.status) == ("STREAM", 503)

    def test_serverOnly(self) -> None:
        """It is no matter of the server alone."""
        assert list(lossCheck(lambda: ["a"])(HealthQuery(serverOnly=True))) == []
