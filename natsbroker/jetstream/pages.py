"""
JetStream on the pages of its broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker.jetstream.health import jetStreamCheck
from natsbroker.jetstream.jsz import Jsz, accountsOf, storeOf, varzOf
from natsbroker.jetstream.metrics import jetStreamSeries
from natsbroker.system.pages import ServerPages


def showJetStream(pages: ServerPages, find: Callable[[], Any]) -> None:
    """
    @param find: gives L{natsbroker.jetstream.figures.JetStreamFigures}, or C{None}.
    """
    pages.jsz = pages.pages["/jsz"] = Jsz(pages.state, find)
    pages.varz.contributions["jetstream"] = lambda: varzOf(find())
    pages.accountz.hasJetStream = lambda name: name in accountsOf(find())
    pages.stores["jetstream"] = lambda: storeOf(find())
    pages.metrics.contributions.append(lambda: jetStreamSeries(accountsOf(find())))
    pages.healthz.checks.append(jetStreamCheck(find))
