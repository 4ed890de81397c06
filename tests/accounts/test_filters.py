"""
The publish filters of an account. Their effect on deliveries is tested in test_delivery.py.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from natsbroker import hot
from natsbroker.accounts.filters import PublishFilters
from natsbroker.wire.values import Kind, Message
from tests.support import Router


class Renaming:
    """A filter that gives each message another subject."""

    def filterMessage(self, message: Message, kind: int) -> Message:
        return Message(message.subject + b".x", message.body)


def test_trace() -> None:
    """A message that replaces another one is traced under the subject of the first one."""
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


class Returning:
    def __init__(self, message: Any) -> None:
        self.message = message

    def filterMessage(self, message: Message, kind: int) -> Any:
        return self.message


def made(subject: Any = b"a", body: Any = b"hello", **others: Any) -> Message:
    """A message with fields that no parser has checked."""
    message = Message(b"a")
    for name, value in {"subject": subject, "body": body, **others}.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (made(b"a b"), "whose subject cannot be published to: b'a b'"),
        (made(b"a.*"), "whose subject cannot be published to: b'a.*'"),
        (made(b""), "whose subject cannot be published to: b''"),
        (made(reply=b"r 5\r\nhello\r\nMSG evil 1"), "whose reply cannot be published to: b'r 5"),
        (made(headerLength=99), "with 99 bytes of headers in a body of 5"),
        (made(headerLength=-1), "with -1 bytes of headers in a body of 5"),
        (made("a"), "whose subject is str, not bytes"),
        (made(body="hello"), "whose body is str, not bytes"),
        (made(reply="r"), "whose reply is str, not bytes"),
    ],
)
def test_unfit(returned: Any, problem: str) -> None:
    """
    A message that would break the receivers' protocol is dropped, and the report names the filter.
    """
    told: list[str] = []

    def failed(kind: str, text: str) -> None:
        told.append(str(sys.exc_info()[1]))

    filters = PublishFilters(hot.Matcher(Router()), failed)
    filters.add(Returning(returned))  # type: ignore[arg-type]
    assert filters.filtered(Message(b"a", b"x"), Kind.CLIENT) is None
    [sentence] = told
    assert sentence.startswith(f"Returning.filterMessage returned a Message {problem}")


def test_asPublished() -> None:
    """Subjects that a filter leaves as published are not checked again."""
    filters = PublishFilters(hot.Matcher(Router()), lambda kind, text: None)
    returned = made(b"a..b", reply=b"r.")
    filters.add(Returning(returned))  # type: ignore[arg-type]
    assert filters.filtered(Message(b"a..b", b"x", b"r."), Kind.CLIENT) is returned


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Renaming, r"Renaming is a class, .* provides IPublishFilter: pass Renaming\(...\)"),
        (print, r"print provides no IPublishFilter: it has no filterMessage\(message, kind\)"),
    ],
)
def test_noFilter(given: Any, text: str) -> None:
    """A class or a function is refused as a filter."""
    filters = PublishFilters(hot.Matcher(Router()), lambda kind, text: None)
    with pytest.raises(TypeError, match=text):
        filters.add(given)
