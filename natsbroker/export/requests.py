"""
Requests under C{$NB.API.>}. The permission to publish to the subject decides who may ask. The
answer is sent only to a subject that the publisher may subscribe to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from twisted.logger import Logger

from natsbroker.interfaces import IMessageBus, IOrigin, IPeerOrigin
from natsbroker.subjects.grammar import isValidLiteral, isValidSubject
from natsbroker.subjects.permissions import DENIED
from natsbroker.wire.grants import Grant, Verb
from natsbroker.wire.text import encoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.export")

#: The beginning of the reply subjects of requests from importing accounts.
_IMPORTED = b"_R_."

LARGEST = (1 << 63) - 1
"""The largest sequence, and the latest time in nanoseconds."""


class Reason:
    """
    The reasons of refusals. Each has its code as in HTTP, a number for programs, and its text.
    """

    BAD_REQUEST = (400, 20001, "bad request: {why}")
    NO_REQUEST = (404, 20002, "there is no request {verb}")
    NO_LOG = (404, 20003, "there is no {kind} {name}")
    MADE_AGAIN = (
        410,
        20004,
        "{kind} {name} was deleted and made again: its sequences belong to other messages now",
    )
    TOO_MANY = (429, 20005, "too many requests are waiting: try again later")
    STORE = (503, 20006, "the store fails: {why}")
    CANNOT_HOLD = (501, 20007, "the store of {kind} {name} cannot hold records")
    HOLD_REFUSED = (400, 20008, "the hold is refused: {why}")
    NO_HOLD = (404, 20009, "{kind} {name} has no hold {hold}")
    FAILED = (500, 20010, "the request failed: the log of the broker says why")
    NO_ACCOUNT = (404, 20011, "there is no account {account}")
    NO_GATEWAY = (404, 20012, "there is no cluster {gateway}")
    ADVICE_REFUSED = (400, 20013, "the advice is refused: {why}")
    NO_ADVICE = (404, 20014, "there is no advice about account {account} and cluster {gateway}")
    NOT_ALLOWED = (403, 20015, "Permissions Violation for reading {kind} {name}")


class Refusal(Exception):
    """A request cannot be granted. No text holds a secret."""

    def __init__(self, reason: tuple[int, int, str], **values: object) -> None:
        self.code, self.number, text = reason
        super().__init__(text.format(**values))

    def answer(self) -> dict[str, Any]:
        error = {"code": self.code, "err_code": self.number, "description": str(self)}
        return {"error": error}


class RequestFields:
    """The fields of a request. The error for an unknown, missing or invalid field names it."""

    def __init__(self, payload: bytes, known: Collection[str]) -> None:
        self._fields: dict[str, Any] = {}
        if payload:
            try:
                self._fields = json.loads(payload)
            except (ValueError, RecursionError):
                raise _bad("a JSON object is expected") from None
        if not isinstance(self._fields, dict):
            raise _bad("a JSON object is expected")
        for name in self._fields:
            if name not in known:
                raise _bad(f"there is no field {name!r}")

    def number(
        self, name: str, least: int = 0, most: int = LARGEST, default: int | None = None
    ) -> int:
        value = self._fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _bad(f"{name} must be a whole number from {least} to {most}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name, default)
        if not isinstance(value, str) or not _isUnicode(value):
            raise _bad(f"{name} must be a text")
        return value

    def words(self, name: str, choice: Collection[str]) -> frozenset[str]:
        value = self._fields.get(name, list(choice))
        if not isinstance(value, list) or any(word not in choice for word in value):
            raise _bad(f"{name} must be a list of: {', '.join(choice)}")
        return frozenset(value)

    def subjects(self, name: str) -> tuple[bytes, ...]:
        """Patterns of subjects; none for all."""
        value = self._fields.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(x, str) and _isUnicode(x) for x in value
        ):
            raise _bad(f"{name} must be a list of subjects")
        patterns = tuple(subject.encode("utf-8") for subject in value)
        if not all(map(isValidSubject, patterns)):
            raise _bad(f"{name} must be a list of subjects")
        return patterns

    def __contains__(self, name: str) -> bool:
        return name in self._fields


def _isUnicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bad(why: str) -> Refusal:
    return Refusal(Reason.BAD_REQUEST, why=why)


class ApiRequest:
    def __init__(self, bus: IMessageBus, message: Message) -> None:
        self._bus = bus
        self._subject = message.subject
        self._reply = message.reply
        self.origin = message.origin

    @property
    def isAnswerable(self) -> bool:
        """
        Whether there is a reply subject that the publisher, by its grant, may subscribe to. A reply
        subject of an import is not one, because it leads to a user of another account.
        """
        if not isValidLiteral(self._reply):
            return False
        if self._reply.startswith(_IMPORTED):
            return self._grant is not None
        return self._may(Verb.SUBSCRIBE, self._reply)

    def isHeard(self) -> bool:
        return self._bus.hasInterest(self._reply, isRequest=False)

    def mayPublishAny(self, subjects: Sequence[bytes]) -> bool:
        """Whether the publisher may publish to one of the subjects, if there are any."""
        if not subjects:
            return True
        if IPeerOrigin.providedBy(self.origin) and self.origin.isPeer:
            return False
        return any(self._may(Verb.PUBLISH, subject) for subject in subjects)

    @property
    def _grant(self) -> Grant | None:
        if not IOrigin.providedBy(self.origin):
            return None
        grant: Grant | None = self.origin.grant
        return grant

    def _may(self, verb: Verb, subject: bytes) -> bool:
        grant = self._grant
        return grant is not None and grant.may(verb, subject) is not DENIED

    def send(self, answer: bytes) -> bool:
        return self._bus.publishInternal(self._reply, answer) > 0

    def answer(self, fields: dict[str, Any]) -> bool:
        return self.send(encoded(json.dumps(fields, ensure_ascii=False)))

    def refuse(self, reason: tuple[int, int, str], **values: object) -> None:
        self.answer(Refusal(reason, **values).answer())

    def attempt(self, serve: Callable[[], object]) -> None:
        try:
            serve()
        except Refusal as refusal:
            self.answer(refusal.answer())
        except Exception:
            _log.failure("A request on {subject} failed", subject=self._subject)
            self.refuse(Reason.FAILED)
