"""
Direct reads, which are answered with a status line instead of JSON if they are refused.

nats-server is not strict about their JSON: unknown keys pass.
"""

from __future__ import annotations

from typing import Final

from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.documents import JsonError, reading
from natsbroker.steps import Steps

_EMPTY: Final = "408 Empty Request"
_MALFORMED: Final = "408 Malformed Request"
_BAD: Final = "408 Bad Request"


class StatusRefusal(ValueError):
    """The refusal of a request with a status. Its text is the status line without C{NATS/1.0}."""


def parseDirect(body: bytes) -> Steps[MessageGetRequest]:
    """
    @return: the messages to read.
    @raise StatusRefusal: if the body names no message, or several in ways that exclude each other.
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
        return (yield from reading(body, MessageGetRequest, isStrict=False))
    except JsonError as error:
        raise StatusRefusal(_MALFORMED) from error
