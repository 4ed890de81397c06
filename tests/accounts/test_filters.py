"""
The publish filters of an account; how they decide about deliveries is in test_delivery.py.
"""

from __future__ import annotations

from typing import Any

from natsbroker import hot
from natsbroker.accounts.filters import PublishFilters
from natsbroker.wire.values import Kind, Message
from tests.support import Router


class Renaming:
    """Gives each message another subject."""

    def filterMessage(self, message: Message, kind: int) -> Message:
        return Message(message.subject + b".x", message.body)


def test_trace() -> None:
    """A message that takes another's place is traced as that one."""
    filters = PublishFilters(hot.Matcher(Router()), lambda kind, text: None)
    remove = filters.add(Renaming())  # type: ignore[arg-type]
    message = Message(b"a", b"b")
    trace: Any = object()
    message.trace = trace
    filtered = filters.filtered(message, Kind.CLIENT)
    assert filtered is not None
    assert (filtered.subject, filtered.trace is trace) == (b"a.x", True)
    remove()
    assert filters.filtered(message, Kind.CLIENT) is message
