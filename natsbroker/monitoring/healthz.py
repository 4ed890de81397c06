"""
The page C{/healthz}, with the parameters and refusals of nats-server, and the broker's own checks
of known state. A check that raises is a problem too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from natsbroker.monitoring.answers import PAUSE, Answer, Pause, jsonAnswer
from natsbroker.monitoring.queries import Query, flag, text

_log = Logger()


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """
    @ivar error: a sentence without secrets.
    @ivar type: C{CONNECTION}, C{BAD_REQUEST}, C{JETSTREAM}, C{ACCOUNT}, C{STREAM}, C{CONSUMER} or
        C{WARNING}.
    @ivar account: the account concerned; as C{stream} and C{consumer}, empty for none.
    """

    error: str
    type: str = "CONNECTION"
    account: str = ""
    stream: str = ""
    consumer: str = ""
    status: int = 503

    def row(self) -> dict[str, str]:
        row = {"type": self.type}
        for key in ("account", "stream", "consumer"):
            if value := getattr(self, key):
                row[key] = value
        return row | {"error": self.error}


@dataclass(frozen=True, slots=True)
class HealthQuery:
    """
    @ivar enabledOnly: check only whether streaming is enabled.
    @ivar metaOnly: check only the cluster's metadata.
    @ivar details: list all problems instead of the first.
    @ivar strict: whether warnings of a start are problems too.
    @ivar warnings: whether warnings of a start are listed without being problems.
    """

    enabledOnly: bool = False
    serverOnly: bool = False
    metaOnly: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False
    strict: bool = False
    warnings: bool = False

    @classmethod
    def fromQuery(cls, query: Query) -> HealthQuery:
        enabled = flag(query, "js-enabled")
        return cls(
            flag(query, "js-enabled-only") or enabled,
            flag(query, "js-server-only"),
            flag(query, "js-meta-only"),
            text(query, "account"),
            text(query, "stream"),
            text(query, "consumer"),
            flag(query, "details"),
            flag(query, "strict") or query.get("strict") == "",
            flag(query, "warnings"),
        )

    def problems(self) -> Iterable[HealthProblem]:
        wording = '"{}" must not be empty when checking {} health'
        if self.stream and not self.account:
            yield HealthProblem(wording.format("account", "stream"), "BAD_REQUEST", status=400)
        elif self.consumer and not self.stream:
            yield HealthProblem(wording.format("stream", "consumer"), "BAD_REQUEST", status=400)


_FINE = 200

#: Called with the parameters, a check gives the problems that are known at this moment.
HealthCheck = Callable[[HealthQuery], Iterable[HealthProblem]]


class Healthz:
    def __init__(self, checks: Iterable[HealthCheck] = ()) -> None:
        self.checks = list(checks)

    def __call__(self, query: Query) -> Answer:
        document, status = self.report(HealthQuery.fromQuery(query))
        return jsonAnswer(document, status)

    def report(self, wanted: HealthQuery) -> tuple[dict[str, Any], int]:
        """The document of the page, and the status."""
        return healthReport(self.problems(wanted), wanted)

    def steps(self, wanted: HealthQuery) -> Generator[Pause, None, tuple[dict[str, Any], int]]:
        yield PAUSE
        return self.report(wanted)

    def problems(self, wanted: HealthQuery) -> list[HealthProblem]:
        problems = list(wanted.problems())
        if not problems:
            for check in self.checks:
                try:
                    problems += check(wanted)
                except BaseException:
                    _log.failure("A health check failed")
                    problems.append(HealthProblem("a health check failed; see the log"))
        return problems


def healthReport(
    reports: Sequence[HealthProblem], wanted: HealthQuery
) -> tuple[dict[str, Any], int]:
    """The document of the page, and the status, by the problems that checks reported."""
    problems = [problem for problem in reports if problem.status != _FINE]
    status = max((problem.status for problem in problems), default=_FINE)
    document = _document(problems, wanted.details)
    if wanted.warnings:
        document["warnings"] = [problem.row() for problem in reports if problem.status == _FINE]
    return document, status


def _document(problems: list[HealthProblem], details: bool) -> dict[str, Any]:
    if not problems:
        return {"status": "ok"}
    if details:
        return {"status": "error", "errors": [problem.row() for problem in problems]}
    first = problems[0]
    status = "error" if first.type in ("BAD_REQUEST", "CONNECTION") else "unavailable"
    return {"status": status, "error": first.error}


#: The most losses that the page names.
_LOSSES = 5


def _check(
    trouble: Callable[[], str], wording: str, type: str = "CONNECTION", status: int = 503
) -> HealthCheck:
    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        isSkipped = type == "STREAM" and wanted.serverOnly
        if not isSkipped and (reason := trouble()):
            yield HealthProblem(wording.format(reason), type, status=status)

    return check


def listeningCheck(closed: Callable[[], list[str]]) -> HealthCheck:
    """Fails while clients cannot connect; C{closed} gives the addresses without a listener."""
    return _check(lambda: ", ".join(closed()), "not ready for connections: {}", status=500)


def pollingCheck(trouble: Callable[[], str]) -> HealthCheck:
    return _check(trouble, "not serving connections: {}", status=500)


def storeCheck(trouble: Callable[[], str]) -> HealthCheck:
    return _check(trouble, "the streaming store takes no writes: {}", "STREAM")


def storeChecks(store: Callable[[], Any]) -> Iterable[HealthCheck]:
    yield storeCheck(lambda: getattr(store(), "trouble", ""))
    yield lossCheck(lambda: getattr(store(), "losses", ()))


def riskCheck(risks: Callable[[], Iterable[tuple[str, str]]]) -> HealthCheck:
    """C{risks} gives keys of the settings in force and a start's warnings."""

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        if wanted.strict or wanted.warnings:
            status = 503 if wanted.strict else _FINE
            for key, text in risks():
                yield HealthProblem(f"{key}: {text}", "WARNING", status=status)

    return check


def lossCheck(losses: Callable[[], Sequence[str]]) -> HealthCheck:
    """Fails after the store has lost records, until an operator acknowledges the loss."""
    wording = (
        "degraded: the streaming store has lost something: {} (natsbroker streaming acknowledge)"
    )
    return _check(lambda: "; ".join(losses()[:_LOSSES]), wording, "STREAM")
