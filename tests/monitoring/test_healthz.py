"""Tests for L{natsbroker.monitoring.healthz}; refusals are held against nats-server's elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from natsbroker.monitoring.healthz import (
    HealthProblem,
    HealthQuery,
    Healthz,
    listeningCheck,
    lossCheck,
    pollingCheck,
    riskCheck,
    storeCheck,
    storeChecks,
)
from tests.conftest import FlushLoggedErrors


def ask(healthz: Healthz, **query: str) -> tuple[int, Any]:
    """
    Status and document.
    """
    answer = healthz({name.replace("_", "-"): value for name, value in query.items()})
    return answer.status, json.loads(b"".join(answer.body))


def broken(query: HealthQuery) -> Iterable[HealthProblem]:
    """
    A stream that lost something.
    """
    yield HealthProblem("lost 3 messages", "STREAM", "A", "ORDERS")
    yield HealthProblem("no leader", "JETSTREAM")


class TestHealthz:
    """Whether all is well."""

    def test_healthy(self) -> None:
        """Without a failing check the page says ok."""
        assert ask(Healthz()) == (200, {"status": "ok"})
        assert ask(Healthz([lambda query: []]), details="1") == (200, {"status": "ok"})

    def test_problem(self) -> None:
        """A failing check is answered with status 503 and the error."""
        status, document = ask(Healthz([broken]))
        assert status == 503
        assert document == {"status": "unavailable", "error": "lost 3 messages"}

    def test_details(self) -> None:
        """With details, the answer lists all errors, each with its account and stream."""
        status, document = ask(Healthz([broken]), details="true")
        assert status == 503
        assert document == {
            "status": "error",
            "errors": [
                {
                    "type": "STREAM",
                    "account": "A",
                    "stream": "ORDERS",
                    "error": "lost 3 messages",
                },
                {"type": "JETSTREAM", "error": "no leader"},
            ],
        }

    def test_notListening(self) -> None:
        """A broker that accepts no connections is answered with the status "error"."""
        healthz = Healthz([lambda query: [HealthProblem("not ready for connections")]])
        assert ask(healthz) == (503, {"status": "error", "error": "not ready for connections"})

    def test_laterChecks(self) -> None:
        """Checks may be added and removed. All of them run at each request."""
        healthz = Healthz()
        healthz.checks.append(broken)
        assert ask(healthz)[0] == 503
        healthz.checks.clear()
        assert ask(healthz)[0] == 200

    def test_failingCheck(self, flushLoggedErrors: FlushLoggedErrors) -> None:
        """A check that raises counts as failing, and its error is in the log only."""

        def failing(query: HealthQuery) -> Iterable[HealthProblem]:
            raise RuntimeError("secret")

        status, document = ask(Healthz([failing]))
        assert status == 503
        assert "secret" not in str(document)
        assert len(flushLoggedErrors(RuntimeError)) == 1

    def test_checksSeeTheQuery(self) -> None:
        """A check gets the parameters of the request."""
        asked: list[HealthQuery] = []

        def check(query: HealthQuery) -> Iterable[HealthProblem]:
            asked.append(query)
            return []

        ask(Healthz([check]), account="A", stream="S", consumer="C", js_server_only="1")
        ask(Healthz([check]), js_enabled="1", js_meta_only="t")
        assert asked == [
            HealthQuery(serverOnly=True, account="A", stream="S", consumer="C"),
            HealthQuery(enabledOnly=True, metaOnly=True),
        ]

    def test_senselessQuestion(self) -> None:
        """An invalid request is not passed to the checks."""
        status, document = ask(Healthz([broken]), stream="S", details="1")
        assert status == 400
        assert [error["type"] for error in document["errors"]] == ["BAD_REQUEST"]


class TestListening:
    """Whether clients can connect."""

    def test_everywhere(self) -> None:
        """If all listeners accept connections, the broker is healthy."""
        assert list(listeningCheck(lambda: [])(HealthQuery())) == []

    def test_notEverywhere(self) -> None:
        """Listeners that do not accept connections are named, with nats-server's status."""
        [problem] = listeningCheck(lambda: ["client listener 1", "client listener 3"])(
            HealthQuery()
        )
        assert problem.error == "not ready for connections: client listener 1, client listener 3"
        assert (problem.type, problem.status) == ("CONNECTION", 500)


class TestPolling:
    """Whether established connections are served."""

    def test_trouble(self) -> None:
        """If established connections are not served, the answer has the reason."""
        assert list(pollingCheck(lambda: "")(HealthQuery())) == []
        [problem] = pollingCheck(lambda: "it fails")(HealthQuery())
        assert problem.error == "not serving connections: it fails"
        assert (problem.type, problem.status) == ("CONNECTION", 500)


class TestStore:
    """Whether streaming can store messages."""

    def test_well(self) -> None:
        """If streaming can store messages, the broker is healthy."""
        assert list(storeCheck(lambda: "")(HealthQuery())) == []

    def test_trouble(self) -> None:
        """If streaming cannot store messages, the answer has the reason."""
        [problem] = storeCheck(lambda: "disk full")(HealthQuery())
        assert problem.error == "the streaming store takes no writes: disk full"
        assert (problem.type, problem.status) == ("STREAM", 503)

    def test_serverOnly(self) -> None:
        """A check of the server alone leaves the store out."""
        assert list(storeCheck(lambda: "disk full")(HealthQuery(serverOnly=True))) == []


class TestLosses:
    """Whether streaming still has all that it stored."""

    def test_nothingLost(self) -> None:
        """While nothing is lost, all is well."""
        assert list(lossCheck(lambda: ())(HealthQuery())) == []

    def test_acknowledgeCommand(self) -> None:
        """The error about lost messages names the command that acknowledges the loss."""
        [problem] = lossCheck(lambda: ["see damaged-1/report.txt", "a: 3 to 4 may be lost"])(
            HealthQuery()
        )
        assert problem.error == (
            "degraded: the streaming store has lost something: see damaged-1/report.txt; "
            "a: 3 to 4 may be lost (natsbroker streaming acknowledge)"
        )
        assert (problem.type, problem.status) == ("STREAM", 503)

    def test_serverOnly(self) -> None:
        """The check of losses is left out for the server alone."""
        assert list(lossCheck(lambda: ["a"])(HealthQuery(serverOnly=True))) == []


def test_streaming() -> None:
    """Without streaming, its store has no problem."""
    assert [list(check(HealthQuery())) for check in storeChecks(lambda: None)] == [[], []]
    store = SimpleNamespace(trouble="full", losses=["a"])
    problems = [list(check(HealthQuery())) for check in storeChecks(lambda: store)]
    assert [len(problem) for problem in problems] == [1, 1]


class TestRisks:
    """Warnings at a start."""

    def ask(self, **query: str) -> tuple[int, Any]:
        return ask(Healthz([riskCheck(lambda: [("cluster.listen", "open")])]), **query)

    def test_healthy(self) -> None:
        """A probe that does not ask for a certain check gets the answer ok."""
        assert self.ask() == self.ask(strict="0") == (200, {"status": "ok"})

    def test_strictProbe(self) -> None:
        """A strict probe fails, with or without a value of the parameter."""
        document = {"status": "unavailable", "error": "cluster.listen: open"}
        assert self.ask(strict="1") == self.ask(strict="") == (503, document)

    def test_listed(self) -> None:
        """For the live page, warnings are listed although the broker is healthy."""
        status, document = self.ask(warnings="1", details="1")
        assert (status, document["status"]) == (200, "ok")
        assert document["warnings"] == [{"type": "WARNING", "error": "cluster.listen: open"}]

    def test_details(self) -> None:
        """Warnings have a type of their own."""
        _, document = self.ask(strict="1", details="1")
        assert document["errors"] == [{"type": "WARNING", "error": "cluster.listen: open"}]
