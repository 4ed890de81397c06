"""
Figures about an account's subscriptions, alone and added up.

Promises: the figures of nats-server's C{sublist_stats} that there are here, under their names. Not
there: insertions and removals, which accounts do not count, and the fan-out of the remembered
answers, which they cannot be asked for.
Must never know: how subjects are matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from natsbroker.monitoring.formats import number
from natsbroker.monitoring.views import AccountView

__all__ = ["sublistFigures"]


def sublistFigures(accounts: Iterable[AccountView]) -> dict[str, Any]:
    """
    The figures of some accounts together.
    """
    subscriptions = remembered = hits = questions = 0
    for account in accounts:
        matcher = account.matcher
        subscriptions += len(account)
        remembered += len(matcher)
        hits += matcher.hits
        questions += matcher.hits + matcher.misses
    return {
        "num_subscriptions": subscriptions,
        "num_cache": remembered,
        "num_matches": questions,
        "cache_hit_rate": number(hits / questions) if questions else 0,
    }
