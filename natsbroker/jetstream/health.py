"""
What C{/healthz} checks of JetStream, with nats-server's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from natsbroker.monitoring.healthz import HealthCheck, HealthProblem, HealthQuery

_MISSING = 404


def jetStreamCheck(find: Callable[[], Any]) -> HealthCheck:
    """
    Fails while JetStream is configured and does not run, and for an account, stream or consumer
    that is asked for and missing. As with nats-server, an account without streams is missing.

    @param find: gives L{natsbroker.jetstream.figures.JetStreamFigures}, or C{None} without
        JetStream.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        figures = find()
        if figures is None:
            return
        if not figures.isRunning:
            yield HealthProblem("JetStream not enabled (10076)", "JETSTREAM")
        elif wanted.account and not (wanted.enabledOnly or wanted.serverOnly):
            yield from _missing(figures.accounts.get(wanted.account), wanted)

    return check


def _missing(account: Any, wanted: HealthQuery) -> Iterable[HealthProblem]:
    name = wanted.account
    if account is None or not account.streams:
        error = f'JetStream account "{name}" not found'
        yield HealthProblem(error, "ACCOUNT", name, status=_MISSING)
        return
    if not wanted.stream:
        return
    stream = account.streams.get(wanted.stream)
    if stream is None:
        error = f'JetStream stream "{wanted.stream}" not found on account "{name}"'
        yield HealthProblem(error, "STREAM", name, wanted.stream, status=_MISSING)
    elif wanted.consumer and wanted.consumer not in stream.consumers:
        places = f'for stream "{wanted.stream}" on account "{name}"'
        error = f'JetStream consumer "{wanted.consumer}" not found {places}'
        yield HealthProblem(
            error, "CONSUMER", name, wanted.stream, wanted.consumer, status=_MISSING
        )
