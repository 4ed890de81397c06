"""
The page C{/healthz}: whether the broker can do its work.

Promises: the truth as far as the registered checks know it: 200 and C{ok} only if none of them has
anything to say, else 503 with what it said; a check that fails itself counts as trouble and is
logged. Parameters and refusals are nats-server's.
Must never know: what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from twisted.logger import Logger

from natsbroker.monitoring.answers import Answer, jsonAnswer
from natsbroker.monitoring.queries import Query, flag, text

__all__ = ["HealthCheck", "HealthProblem", "HealthQuery", "Healthz"]

_log = Logger()


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """
    Something that is wrong.

    @ivar error: what, in a sentence without anything secret.
    @ivar type: C{CONNECTION}, C{BAD_REQUEST}, C{JETSTREAM}, C{ACCOUNT}, C{STREAM} or C{CONSUMER}.
    @ivar account: which account it concerns; as C{stream} and C{consumer}, empty for none.
    @ivar status: the HTTP status that it deserves.
    """

    error: str
    type: str = "CONNECTION"
    account: str = ""
    stream: str = ""
    consumer: str = ""
    status: int = 503

    def row(self) -> dict[str, str]:
        """
        The problem as the page shows it in detail.
        """
        row = {"type": self.type}
        for key in ("account", "stream", "consumer"):
            if value := getattr(self, key):
                row[key] = value
        return row | {"error": self.error}


@dataclass(frozen=True, slots=True)
class HealthQuery:
    """
    The parameters of C{/healthz}.

    @ivar enabledOnly: look only at whether streaming is on.
    @ivar serverOnly: look only at this server, not at its streams.
    @ivar metaOnly: look only at the cluster's metadata.
    @ivar account: the account of C{stream}; as C{stream} and C{consumer}, empty for all.
    @ivar details: say all that is wrong and not only the first.
    """

    enabledOnly: bool = False
    serverOnly: bool = False
    metaOnly: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False

    @classmethod
    def fromQuery(cls, query: Query) -> HealthQuery:
        """
        @raise BadQuery: if a parameter makes no sense.
        """
        enabled = flag(query, "js-enabled")
        return cls(
            flag(query, "js-enabled-only") or enabled,
            flag(query, "js-server-only"),
            flag(query, "js-meta-only"),
            text(query, "account"),
            text(query, "stream"),
            text(query, "consumer"),
            flag(query, "details"),
        )

    def problems(self) -> Iterable[HealthProblem]:
        """
        What is wrong with the question itself.
        """
        wording = '"{}" must not be empty when checking {} health'
        if self.stream and not self.account:
            yield HealthProblem(wording.format("account", "stream"), "BAD_REQUEST", status=400)
        elif self.consumer and not self.stream:
            yield HealthProblem(wording.format("stream", "consumer"), "BAD_REQUEST", status=400)


#: Called with the parameters, it gives what is wrong; quickly, and without waiting for anything.
HealthCheck = Callable[[HealthQuery], Iterable[HealthProblem]]


class Healthz:
    """
    Tells whether all is well.

    @ivar checks: what is asked.
    """

    def __init__(self, checks: Iterable[HealthCheck] = ()) -> None:
        self.checks = list(checks)

    def __call__(self, query: Query) -> Answer:
        """
        The page.

        @raise BadQuery: if a parameter makes no sense.
        """
        wanted = HealthQuery.fromQuery(query)
        problems = self.problems(wanted)
        status = max((each.status for each in problems), default=200)
        return jsonAnswer(_document(problems, wanted.details), status)

    def problems(self, wanted: HealthQuery) -> list[HealthProblem]:
        """
        What is wrong, for those who want no HTTP.
        """
        found = list(wanted.problems())
        if not found:
            for check in self.checks:
                found += _asked(check, wanted)
        return found


def _asked(check: HealthCheck, wanted: HealthQuery) -> list[HealthProblem]:
    try:
        return list(check(wanted))
    except BaseException:
        _log.failure("A health check failed")
        return [HealthProblem("a health check failed; the log says how")]


def _document(problems: list[HealthProblem], details: bool) -> dict[str, Any]:
    if not problems:
        return {"status": "ok"}
    if details:
        return {"status": "error", "errors": [each.row() for each in problems]}
    first = problems[0]
    status = "error" if first.type in ("BAD_REQUEST", "CONNECTION") else "unavailable"
    return {"status": status, "error": first.error}
