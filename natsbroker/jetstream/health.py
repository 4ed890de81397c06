"""The checks of JetStream in C{/healthz}, with nats-server's texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from natsbroker.monitoring.healthz import HealthCheck, HealthProblem, HealthQuery

_MISSING = 404


def jetStreamCheck(find: Callable[[], Any]) -> HealthCheck:
    """
    A check that fails while JetStream is configured and does not run, while nothing can be stored,
    and for each damaged stream. It also fails for an account, stream or consumer that the request
    names and that does not exist; as in nats-server, this includes an account without streams.

    @param find: returns L{natsbroker.jetstream.figures.JetStreamFigures}; C{None} without
        JetStream.
    """

    def check(wanted: HealthQuery) -> Iterable[HealthProblem]:
        figures = find()
        if figures is None:
            return
        if not figures.isRunning:
            yield HealthProblem("JetStream not enabled (10076)", "JETSTREAM")
        elif not wanted.enabledOnly and (trouble := figures.trouble()):
            yield HealthProblem(f"JetStream cannot store anything: {trouble}", "JETSTREAM")
        elif not (wanted.enabledOnly or wanted.serverOnly):
            if not wanted.metaOnly:
                yield from _damaged(figures.accounts, wanted)
            if wanted.account and not _isDamaged(figures.accounts, wanted):
                yield from _missing(figures.accounts.get(wanted.account), wanted)

    return check


def _damaged(accounts: Mapping[str, Any], wanted: HealthQuery) -> Iterable[HealthProblem]:
    for name, account in accounts.items():
        for stream in account.damaged:
            if wanted.account in ("", name) and wanted.stream in ("", stream):
                error = f"JetStream stream '{name} > {stream}' could not be recovered"
                yield HealthProblem(error, "STREAM", name, stream)


def _isDamaged(accounts: Mapping[str, Any], wanted: HealthQuery) -> bool:
    account = accounts.get(wanted.account)
    return account is not None and wanted.stream in account.damaged


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
