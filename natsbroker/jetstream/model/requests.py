"""
The decoding of API requests, and the errors that their bodies have by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeVar, cast

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import (
    ConsumerRequest,
    InfoRequest,
    MessageDeleteRequest,
    MessageGetRequest,
    PageRequest,
    PauseRequest,
    PeerRequest,
    PurgeRequest,
    ResetRequest,
    RestoreRequest,
    ServerRequest,
    SnapshotRequest,
    StepDownRequest,
    StreamRequest,
    StreamsRequest,
    UnpinRequest,
)
from natsbroker.jetstream.model.documents import JsonError, read, reading
from natsbroker.jetstream.model.names import isLiteralSubject, isValidGroup, isValidSubjectText
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.steps import Steps, finish
from natsbroker.wire.timestamps import Timestamp

T = TypeVar("T")

#: Bodies up to this length are remembered, because clients repeat requests.
_SHORT = 64

_UNNAMED = cast(StorageType, None)


@dataclass(frozen=True)
class _StreamBody(StreamConfig):
    """
    The body of a request to create or change a stream.

    @ivar storage: C{None} if the request does not name one.
    """

    storage: StorageType = _UNNAMED
    pedantic: bool = False


def _parsed(body: bytes, kind: type[T], isStrict: bool = True) -> T:
    if len(body) > _SHORT:
        return finish(_parsing(body, kind, isStrict))
    # The cache's type does not express that the result has the type C{kind}.
    return cast(T, _parsedShort(body, cast(Any, kind), isStrict))


@lru_cache(256)
def _parsedShort(body: bytes, kind: Any, isStrict: bool) -> Any:
    return finish(_parsing(body, kind, isStrict))


def _parsing(body: bytes, kind: type[T], isStrict: bool = True) -> Steps[T]:
    """
    @param isStrict: whether unknown keys are errors.
    @raise errors.JetStreamError: if the body is not such a request.
    """
    try:
        return (yield from reading(body, kind, isStrict))
    except JsonError as error:
        raise errors.INVALID_JSON(err=error) from error


def _given(body: bytes) -> bytes:
    """An optional body. It has no keys if it is neither an object nor a list."""
    return body if body.lstrip(b" \t\r\n")[:1] in (b"{", b"[") else b"{}"


def isEmptyBody(body: bytes) -> bool:
    """Tell whether a body says nothing: it is empty or an object without keys."""
    return not body or body.translate(None, b" \t\r\n") == b"{}"


def requireEmpty(body: bytes) -> None:
    """Raise L{errors.JetStreamError} if there is a body where none belongs."""
    if not isEmptyBody(body):
        raise errors.NOT_EMPTY_REQUEST()


def requireBody(body: bytes) -> None:
    """Raise L{errors.JetStreamError} if there is no body where one belongs."""
    if isEmptyBody(body):
        raise errors.BAD_REQUEST()


def parseStream(body: bytes, isStrict: bool = True) -> Steps[StreamRequest]:
    """The creation or change of a stream."""
    request = yield from _parsing(body.strip() or b"{}", _StreamBody, isStrict)
    values = {field.name: getattr(request, field.name) for field in fields(StreamConfig)}
    values["storage"] = request.storage or StorageType.FILE
    return StreamRequest(StreamConfig(**values), request.pedantic, bool(request.storage))


def parseConsumer(body: bytes, isStrict: bool = True) -> Steps[ConsumerRequest]:
    """The creation or change of a consumer."""
    return _parsing(body.strip() or b"{}", ConsumerRequest, isStrict)


def parseStreams(body: bytes, isStrict: bool = True) -> StreamsRequest:
    """The page of streams, or of their names, that is asked for."""
    return _parsed(_given(body), StreamsRequest, isStrict)


def parsePage(body: bytes, isStrict: bool = True) -> PageRequest:
    """The page of consumers, or of their names, that is asked for."""
    return _parsed(_given(body), PageRequest, isStrict)


def parseInfo(body: bytes, isStrict: bool = True) -> InfoRequest:
    """The details of a stream that are asked for."""
    return _parsed(_given(body), InfoRequest, isStrict)


def parsePurge(body: bytes, isStrict: bool = True) -> PurgeRequest:
    """The messages to remove. A body that is not JSON removes all messages."""
    request = _parsed(_given(body), PurgeRequest, isStrict)
    if request.seq and request.keep:
        raise errors.BAD_REQUEST()
    return request


def parseMessageDelete(body: bytes, isStrict: bool = True) -> MessageDeleteRequest:
    """The message to remove."""
    requireBody(body)
    return _parsed(body, MessageDeleteRequest, isStrict)


def parseMessageGet(body: bytes, isStrict: bool = True) -> MessageGetRequest:
    """The one message to read."""
    requireBody(body)
    request = _parsed(body, MessageGetRequest, isStrict)
    hasStart = request.start_time is not None
    hasLast, hasNext = bool(request.last_by_subj), bool(request.next_by_subj)
    isNothing = not (request.seq or hasLast or hasNext or hasStart)
    isTwice = (request.seq and (hasLast or hasStart)) or (hasLast and (hasStart or hasNext))
    if request.batch > 0 or request.max_bytes > 0 or isNothing or isTwice:
        raise errors.BAD_REQUEST()
    return request


def parseSnapshot(body: bytes) -> SnapshotRequest:
    """
    Read the request for a snapshot. An empty body is refused earlier, before the stream is looked
    up.
    """
    request = _parsed(body, SnapshotRequest)
    subject = request.deliver_subject
    if not isValidSubjectText(subject) or not isLiteralSubject(subject):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID()
    return request


def parseRestore(body: bytes) -> Steps[RestoreRequest]:
    """The copy of a stream that is to be sent."""
    requireBody(body)
    return _parsing(body, RestoreRequest)


def parsePause(body: bytes, isStrict: bool = True) -> Timestamp:
    """The time until which a consumer pauses; Go's zero time for not at all."""
    return _parsed(_given(body), PauseRequest, isStrict).pause_until


def parseUnpin(body: bytes) -> str:
    """
    Unknown keys are not errors here, even if the server is strict.

    @return: the group whose client loses its pin.
    """
    group = _parsed(body, UnpinRequest, isStrict=False).group
    if not group:
        raise errors.INVALID_JSON(err="consumer group not specified")
    if not isValidGroup(group):
        raise errors.CONSUMER_INVALID_GROUP_NAME()
    return group


def parseReset(body: bytes) -> int:
    """The sequence to which a consumer goes back; 0 for its acknowledgement floor."""
    return _parsed(body or b"{}", ResetRequest, isStrict=False).seq


def parsePeer(body: bytes) -> str:
    """The name or the id of the broker that is meant."""
    requireBody(body)
    return _named(_parsed(body, PeerRequest, isStrict=False).peer)


def parseServer(body: bytes) -> str:
    """The name or the id of the broker that is to be removed."""
    requireBody(body)
    request = _parsed(body, ServerRequest, isStrict=False)
    return _named(request.peer or request.peer_id)


def _named(peer: str) -> str:
    if not peer:
        raise errors.BAD_REQUEST()
    return peer


def parseStepDown(body: bytes) -> Placement | None:
    """The broker that is to lead; C{None} for any."""
    if isEmptyBody(body):
        return None
    try:
        return read(body, StepDownRequest, isStrict=False).placement
    except JsonError as error:
        raise errors.CLUSTER_NOT_AVAIL() from error
