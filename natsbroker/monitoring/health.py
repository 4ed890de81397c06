"""
What C{/healthz} asks of a broker.

Promises: each check looks at what is known already and waits for nothing.
Must never know: HTTP, or how an answer is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from natsbroker.monitoring.healthz import HealthCheck, HealthProblem, HealthQuery

__all__ = ["listeningCheck", "lossCheck", "pollingCheck", "storeCheck"]

LOSSES = 5
"""How many losses the page names."""


def listeningCheck(closed: Callable[[], list[str]]) -> HealthCheck:
    """
    Whether clients can connect wherever they should; not in lame duck mode, for instance.

    @param closed: describes the places where nobody can connect now.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        if places := closed():
            where = ", ".join(places)
            yield HealthProblem(f"not ready for connections: {where}", status=500)

    return check


def pollingCheck(trouble: Callable[[], str]) -> HealthCheck:
    """
    Whether established connections are read and written.

    @param trouble: tells why not; empty if they are.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        if reason := trouble():
            yield HealthProblem(f"not serving connections: {reason}", status=500)

    return check


def storeCheck(trouble: Callable[[], str]) -> HealthCheck:
    """
    Whether streaming can store messages.

    @param trouble: tells why not; empty if it can.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        if not wanted.serverOnly and (reason := trouble()):
            yield HealthProblem(f"the streaming store takes no writes: {reason}", "STREAM")

    return check


def lossCheck(losses: Callable[[], Sequence[str]]) -> HealthCheck:
    """
    Whether streaming has all that it ever stored, or somebody has acknowledged that it has not.

    @param losses: tells what is lost, in words.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        if not wanted.serverOnly and (found := losses()):
            what = "; ".join(found[:LOSSES])
            yield HealthProblem(
                f"degraded: the streaming store has lost something: {what} "
                "(natsbroker streaming acknowledge)",
                "STREAM",
            )

    return check
