"""The publish filters of an account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from natsbroker import hot
from natsbroker.interfaces import IPublishFilter
from natsbroker.interfaces.providers import require
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.wire.values import Kind, Message

#: The types of answers that come later.
_LATE = frozenset({"Deferred", "coroutine", "Future", "Task"})


class PublishFilters:
    """A filter that raises, or returns something else than a message, lets nothing through."""

    def __init__(self, matcher: hot.Matcher, failed: Callable[[str, str], None]) -> None:
        self._filters: list[IPublishFilter] = []
        self._matcher = matcher
        self._failed = failed

    def add(self, publishFilter: IPublishFilter) -> Callable[[], None]:
        """Add a filter, which takes the account off the lane. Return a callable that removes it."""
        require(IPublishFilter, publishFilter, "filterMessage")
        self._filters.append(publishFilter)
        self._matcher.needsSlowPath = True

        def remove() -> None:
            self._filters.remove(publishFilter)
            self._matcher.needsSlowPath = bool(self._filters)

        return remove

    def filtered(self, message: Message, kind: Kind) -> Message | None:
        for publishFilter in list(self._filters):
            try:
                answer: Any = publishFilter.filterMessage(message, kind)
                if answer is None:
                    return None
                if not isinstance(answer, Message):
                    raise TypeError(_explained(publishFilter, answer))
                if answer is not message:
                    _check(publishFilter, answer, message)
            except BaseException:
                text = "A publish filter failed, and what it was asked about is dropped"
                self._failed("filter", text)
                return None
            answer.trace = message.trace
            message = answer
        return message


def _check(publishFilter: IPublishFilter, returned: Message, published: Message) -> None:
    """
    Check that receivers can be sent the result of a filter, which no parser has seen.

    @raise TypeError: if the subject, the reply subject or the body is not bytes.
    @raise ValueError: if nobody can publish to the subject or the reply subject, or the header
        block is longer than the body.
    """
    name = f"{type(publishFilter).__name__}.filterMessage returned a Message"
    returned.check(name)
    for field in ("subject", "reply"):
        value = getattr(returned, field)
        # A text that the publisher chose need not be checked again.
        isNew = value != getattr(published, field)
        if isNew and not isValidLiteral(value) and (value or field == "subject"):
            raise ValueError(f"{name} whose {field} cannot be published to: {value!r}")
    if not 0 <= returned.headerLength <= len(returned.body):
        raise ValueError(
            f"{name} with {returned.headerLength} bytes of headers in a body of "
            f"{len(returned.body)}"
        )


def _explained(publishFilter: IPublishFilter, returned: object) -> str:
    kind = type(returned).__name__
    cure = "a filter cannot wait for an answer" if kind in _LATE else "return the message, or None"
    return f"{type(publishFilter).__name__}.filterMessage returned {kind}, not a Message: {cure}"
