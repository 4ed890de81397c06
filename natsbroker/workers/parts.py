"""
Parts of one worker, from which its parent makes answers about the whole server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from natsbroker.advisories import Advisory
from natsbroker.broker import Broker
from natsbroker.monitoring.answers import PAUSE, Pause
from natsbroker.monitoring.healthz import HealthProblem, HealthQuery
from natsbroker.workers.neighbours import GLANCE, Echo, neighboursOf

Part = Callable[..., Generator[Pause, None, Any]]


def partsOf(broker: Broker) -> Mapping[str, Part]:
    """The parts by name. Each takes the arguments of a request, and answers in steps."""
    pages, actions = broker.monitoring, broker.actions

    def health(wanted: HealthQuery) -> Generator[Pause, None, tuple[bool, list[HealthProblem]]]:
        yield PAUSE
        return broker.settings.jetstream.enabled, pages.healthz.problems(wanted)

    def rows(names: Collection[str]) -> Generator[Pause, None, dict[str, Any]]:
        return {"account_statz": (yield from pages.accstatz.rows(names, True))}

    def paths() -> Generator[Pause, None, list[str]]:
        yield PAUSE
        return list(pages.pages)

    def announce(advisory: Advisory) -> Generator[Pause, None, None]:
        yield PAUSE
        if broker.status is not None:
            broker.status.observe(advisory)
            # Workers may end after this, and their clients are to have the event before.
            echo = Echo(neighboursOf(broker))
            while echo.isAwaited:
                yield deferLater(broker.reactor, GLANCE)

    return {
        "statsz": lambda: pages.statsz.steps(sorted),
        "connections": pages.connz.ranks,
        "health": health,
        "paths": paths,
        "metrics": pages.metrics.series,
        "jetstream": pages.jsz.ofAccount,
        "account": pages.accountz.ofAccount,
        "accounts": rows,
        "subscribers": pages.subsz.count,
        "announce": announce,
        "kick": _acting(actions.kick),
        "leave": _acting(actions.leave),
    }


def _acting(act: Callable[[int], bool | Deferred[bool]]) -> Part:
    def part(cid: int) -> Generator[Pause, None, Any]:
        yield PAUSE
        return act(cid)

    return part
