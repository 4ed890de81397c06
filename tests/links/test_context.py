"""
The common state of all links of one kind.
"""

from __future__ import annotations

from natsbroker.config.model import Logging
from tests.links.linkpeers import linked
from tests.routes.clusters import Node


def test_numbers() -> None:
    """Links have a series of numbers."""
    context = Node().context
    assert [context.nextNumber() for _ in range(3)] == [1, 2, 3]


def test_defaults() -> None:
    """By default the settings are those of links, and nothing is traced."""
    context = Node().context
    assert context.settings == linked()
    assert context.settings.ping_interval == 30.0 and context.settings.max_pending == 64 << 20
    assert not context.tracing


def test_tracing() -> None:
    """Lines are traced as those of clients are, with the same maximum length."""
    context = Node().context
    context.useTracing(Logging(trace=True, max_traced_msg_len=7))
    assert (context.tracing, context.maxTraced) == (True, 7)
    context.useTracing(Logging())
    assert (context.tracing, context.maxTraced) == (False, 0)
