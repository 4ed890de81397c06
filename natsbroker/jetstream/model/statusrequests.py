"""
The requests that are answered with a status line instead of JSON: pull requests and direct reads.

nats-server is not strict about their JSON: unknown keys pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.requests import MESSAGE_GET
from natsbroker.steps import Steps
from natsbroker.wire.gojson import JsonError
from natsbroker.wire.shapes import (
    BOOL,
    DURATION,
    INT,
    INT64,
    STRING,
    Field,
    Struct,
    decodeLoosely,
    decodeLooselyInSteps,
)

_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")
_EMPTY: Final = "408 Empty Request"
_MALFORMED: Final = "408 Malformed Request"
_BAD: Final = "408 Bad Request"


class StatusRefusal(ValueError):
    """A request that is refused with a status. Its text is the status line without C{NATS/1.0}."""


@dataclass(frozen=True)
class PullBody:
    """
    What a pull request asks for. Durations are nanoseconds.

    @ivar batch: 1 or more.
    @ivar isObject: whether the body is JSON, and so belongs to a priority group.
    """

    expires: int = 0
    batch: int = 0
    max_bytes: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0
    isObject: bool = True


# Go's errors do not name the type here, because nats-server passes a pointer to a pointer.
_PULL: Final = Struct(
    "",
    PullBody,
    [
        Field("expires", DURATION),
        Field("batch", INT),
        Field("max_bytes", INT),
        Field("no_wait", BOOL),
        Field("idle_heartbeat", DURATION),
        Field("group", STRING),
        Field("min_pending", INT64),
        Field("min_ack_pending", INT64),
        Field("id", STRING),
        Field("priority", INT),
    ],
)


def parsePullBody(body: bytes) -> PullBody:
    """
    @return: what a pull request asks for: one message if the body is neither JSON nor a number.
    @raise StatusRefusal: if it is malformed JSON, or the heartbeat does not fit the expiry.
    """
    text = body.strip()
    if not text.startswith(b"{"):
        number = int(text) if _NUMBER.fullmatch(text) else 1
        return PullBody(batch=max(number, 1), isObject=False)
    try:
        request = decodeLoosely(text, _PULL)
    except JsonError as error:
        raise StatusRefusal(f"400 Bad Request - {error}") from error
    if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
        raise StatusRefusal("400 Bad Request - heartbeat value too large")
    return replace(request, batch=max(request.batch, 1))


def parseDirect(body: bytes) -> Steps[MessageGetRequest]:
    """
    @return: the messages to read.
    @raise StatusRefusal: if the body names none, or in ways that exclude each other.
    """
    if not body:
        raise StatusRefusal(_EMPTY)
    request = yield from _decoded(body)
    hasStart, hasLast = request.start_time is not None, bool(request.last_by_subj)
    hasNext, hasMany = bool(request.next_by_subj), bool(request.multi_last)
    if not (request.seq or hasLast or hasNext or hasMany or hasStart):
        raise StatusRefusal(_EMPTY)
    if (
        (request.seq and (hasLast or hasStart))
        or (hasLast and (hasStart or hasNext or hasMany or request.batch > 0))
        or (hasNext and hasMany)
        or (request.up_to_seq and request.up_to_time is not None)
    ):
        raise StatusRefusal(_BAD)
    return request


def parseDirectLast(body: bytes, subject: str) -> Steps[MessageGetRequest]:
    """
    @param subject: the tokens of the request's subject behind the name of the stream.
    @return: the last message of the subject.
    @raise StatusRefusal: if the body names other messages.
    """
    request = (yield from _decoded(body)) if body else MessageGetRequest()
    alone = MessageGetRequest(no_hdr=request.no_hdr, max_bytes=request.max_bytes)
    if not subject or request != alone:
        raise StatusRefusal(_BAD)
    return MessageGetRequest(
        last_by_subj=subject, no_hdr=request.no_hdr, max_bytes=request.max_bytes
    )


def _decoded(body: bytes) -> Steps[MessageGetRequest]:
    try:
        return (yield from decodeLooselyInSteps(body, MESSAGE_GET))
    except JsonError as error:
        raise StatusRefusal(_MALFORMED) from error
