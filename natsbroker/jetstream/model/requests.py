"""
The decoding of API requests, and what can be wrong with a body for itself.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.bodies import (
    ConsumerAction,
    ConsumerRequest,
    MessageDeleteRequest,
    MessageGetRequest,
    PageRequest,
    PurgeRequest,
    RestoreRequest,
    SnapshotRequest,
    StreamRequest,
)
from natsbroker.jetstream.model.configjson import CONSUMER_CONFIG, PLACEMENT, STREAM_CONFIG
from natsbroker.jetstream.model.names import isLiteralSubject, isValidGroup, isValidSubjectText
from natsbroker.jetstream.model.streamconfig import Placement, StreamConfig
from natsbroker.steps import Steps, finish
from natsbroker.wire.gojson import JsonError
from natsbroker.wire.shapes import (
    BOOL,
    INT,
    STRING,
    TIME,
    UINT64,
    Choice,
    Field,
    ListOf,
    MapOf,
    Optional,
    Struct,
    decodeInSteps,
    decodeLoosely,
    decodeLooselyInSteps,
)
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp

T = TypeVar("T")


def _streamRequest(pedantic: bool = False, **config: Any) -> StreamRequest:
    return StreamRequest(StreamConfig(**config), pedantic, "storage" in config)


_STREAM: Final = Struct(
    "StreamConfigRequest", _streamRequest, [*STREAM_CONFIG.fields, Field("pedantic", BOOL)]
)

_ACTION: Final = Choice(
    ConsumerAction,
    refusal=lambda text: f"unknown consumer action: {text.decode('utf-8', 'replace')}",
)

_CONSUMER: Final = Struct(
    "CreateConsumerRequest",
    ConsumerRequest,
    [
        Field("stream_name", STRING),
        Field("config", CONSUMER_CONFIG),
        Field("action", _ACTION),
        Field("pedantic", BOOL),
    ],
)

_OFFSET: Final = Field("offset", INT)
_NAMES: Final = Struct("JSApiStreamNamesRequest", PageRequest, [_OFFSET, Field("subject", STRING)])
_LIST: Final = Struct("JSApiStreamListRequest", PageRequest, [_OFFSET, Field("subject", STRING)])
_CONSUMERS: Final = Struct("JSApiConsumersRequest", PageRequest, [_OFFSET])
_INFO: Final = Struct(
    "JSApiStreamInfoRequest",
    PageRequest,
    [_OFFSET, Field("deleted_details", BOOL), Field("subjects_filter", STRING)],
)

_PURGE: Final = Struct(
    "JSApiStreamPurgeRequest",
    PurgeRequest,
    [Field("seq", UINT64), Field("filter", STRING), Field("keep", UINT64)],
)

_DELETE: Final = Struct(
    "JSApiMsgDeleteRequest",
    MessageDeleteRequest,
    [Field("seq", UINT64), Field("no_erase", BOOL)],
)

MESSAGE_GET: Final = Struct(
    "JSApiMsgGetRequest",
    MessageGetRequest,
    [
        Field("seq", UINT64),
        Field("last_by_subj", STRING),
        Field("next_by_subj", STRING),
        Field("batch", INT),
        Field("max_bytes", INT),
        Field("start_time", Optional(TIME)),
        Field("multi_last", ListOf(STRING)),
        Field("up_to_seq", UINT64),
        Field("up_to_time", Optional(TIME)),
        Field("no_hdr", BOOL),
    ],
)

_SNAPSHOT: Final = Struct(
    "JSApiStreamSnapshotRequest",
    SnapshotRequest,
    [
        Field("deliver_subject", STRING),
        Field("no_consumers", BOOL),
        Field("chunk_size", INT),
        Field("window_size", INT),
        Field("jsck", BOOL),
    ],
)

STREAM_STATE: Final[Struct[dict[str, Any]]] = Struct(
    "StreamState",
    dict,
    [
        Field("messages", UINT64),
        Field("bytes", UINT64),
        Field("first_seq", UINT64),
        Field("first_ts", TIME),
        Field("last_seq", UINT64),
        Field("last_ts", TIME),
        Field("num_subjects", INT),
        Field("subjects", MapOf(UINT64)),
        Field("num_deleted", INT),
        Field("deleted", ListOf(UINT64)),
        Field(
            "lost",
            Optional(
                Struct[dict[str, Any]](
                    "LostStreamData", dict, [Field("msgs", ListOf(UINT64)), Field("bytes", UINT64)]
                )
            ),
        ),
        Field("consumer_count", INT),
    ],
)

_RESTORE: Final = Struct(
    "JSApiStreamRestoreRequest",
    RestoreRequest,
    [Field("config", STREAM_CONFIG), Field("state", STREAM_STATE)],
)

_PAUSE: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiConsumerPauseRequest", dict, [Field("pause_until", TIME)]
)
_UNPIN: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiConsumerUnpinRequest", dict, [Field("group", STRING)]
)
_RESET: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiConsumerResetRequest", dict, [Field("seq", UINT64)]
)
_STEP_DOWN: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiLeaderStepdownRequest", dict, [Field("placement", Optional(PLACEMENT))]
)
_PEER: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiStreamRemovePeerRequest", dict, [Field("peer", STRING)]
)
_SERVER: Final[Struct[dict[str, Any]]] = Struct(
    "JSApiMetaServerRemoveRequest", dict, [Field("peer", STRING), Field("peer_id", STRING)]
)
_ANYTHING: Final[Struct[dict[str, Any]]] = Struct("", dict, [])


def _parsed(body: bytes, shape: Struct[T], isStrict: bool = True) -> T:
    return finish(_parsing(body, shape, isStrict))


def _parsing(body: bytes, shape: Struct[T], isStrict: bool = True) -> Steps[T]:
    """
    @param isStrict: whether unknown keys are errors.
    @raise errors.JetStreamError: if the body is not such a request.
    """
    try:
        return (yield from decodeInSteps(body, shape))
    except JsonError as error:
        if isStrict:
            raise errors.INVALID_JSON(err=error) from error
    try:
        return (yield from decodeLooselyInSteps(body, shape))
    except JsonError as error:
        raise errors.INVALID_JSON(err=error) from error


def _isStructured(body: bytes) -> bool:
    """Tell whether a body that may be left out is there: it begins as an object or an array."""
    return body.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def isEmptyBody(body: bytes) -> bool:
    """Tell whether a body says nothing: it is empty or an object without keys."""
    if body in (b"", b"{}"):
        return True
    if body.strip(b" \t\r\n")[:1] != b"{" or b'"' in body:
        return False
    try:
        decodeLoosely(body, _ANYTHING)
    except JsonError:
        return False
    return True


def requireEmpty(body: bytes) -> None:
    """
    @raise errors.JetStreamError: if there is a body where none belongs.
    """
    if not isEmptyBody(body):
        raise errors.NOT_EMPTY_REQUEST()


def requireBody(body: bytes) -> None:
    """
    @raise errors.JetStreamError: if there is no body where one belongs.
    """
    if isEmptyBody(body):
        raise errors.BAD_REQUEST()


def parseStream(body: bytes, isStrict: bool = True) -> Steps[StreamRequest]:
    """
    @return: the creation or change of a stream.
    """
    return _parsing(body, _STREAM, isStrict)


def parseConsumer(body: bytes, isStrict: bool = True) -> Steps[ConsumerRequest]:
    """
    @return: the creation or change of a consumer.
    """
    return _parsing(body, _CONSUMER, isStrict)


def parseNames(body: bytes, isStrict: bool = True) -> PageRequest:
    """
    @return: the page of stream names that is asked for.
    """
    return _page(body, _NAMES, isStrict)


def parseList(body: bytes, isStrict: bool = True) -> PageRequest:
    """
    @return: the page of streams that is asked for.
    """
    return _page(body, _LIST, isStrict)


def parseConsumerPage(body: bytes, isStrict: bool = True) -> PageRequest:
    """
    @return: the page of consumers, or of their names, that is asked for.
    """
    return _page(body, _CONSUMERS, isStrict)


def parseInfo(body: bytes, isStrict: bool = True) -> PageRequest:
    """
    @return: the details of a stream that are asked for.
    """
    return _page(body, _INFO, isStrict)


def _page(body: bytes, shape: Struct[PageRequest], isStrict: bool) -> PageRequest:
    request = _parsed(body, shape, isStrict) if _isStructured(body) else PageRequest()
    if request.offset >= 0:
        return request
    return PageRequest(0, request.subject, request.deleted_details, request.subjects_filter)


def parsePurge(body: bytes, isStrict: bool = True) -> PurgeRequest:
    """
    @return: what is removed: everything, also for a body that is no JSON.
    """
    if not _isStructured(body):
        return PurgeRequest()
    request = _parsed(body, _PURGE, isStrict)
    if request.seq and request.keep:
        raise errors.BAD_REQUEST()
    return request


def parseMessageDelete(body: bytes, isStrict: bool = True) -> MessageDeleteRequest:
    """
    @return: the message to remove.
    """
    requireBody(body)
    return _parsed(body, _DELETE, isStrict)


def parseMessageGet(body: bytes, isStrict: bool = True) -> MessageGetRequest:
    """
    @return: the one message to read.
    """
    requireBody(body)
    request = _parsed(body, MESSAGE_GET, isStrict)
    hasStart = request.start_time is not None
    hasLast, hasNext = bool(request.last_by_subj), bool(request.next_by_subj)
    isNothing = not (request.seq or hasLast or hasNext or hasStart)
    isTwice = (request.seq and (hasLast or hasStart)) or (hasLast and (hasStart or hasNext))
    if request.batch > 0 or request.max_bytes > 0 or isNothing or isTwice:
        raise errors.BAD_REQUEST()
    return request


def parseSnapshot(body: bytes) -> SnapshotRequest:
    """
    @return: where the copy of a stream goes. That there is a body is checked earlier, before the
        stream is looked up.
    """
    request = _parsed(body, _SNAPSHOT)
    subject = request.deliver_subject
    if not isValidSubjectText(subject) or not isLiteralSubject(subject):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID()
    return request


def parseRestore(body: bytes) -> Steps[RestoreRequest]:
    """
    @return: the copy of a stream that is to be sent.
    """
    requireBody(body)
    return _parsing(body, _RESTORE)


def parsePause(body: bytes, isStrict: bool = True) -> Timestamp:
    """
    @return: until when a consumer pauses; Go's zero time for not at all.
    """
    if not _isStructured(body):
        return ZERO_TIME
    until = _parsed(body, _PAUSE, isStrict).get("pause_until")
    return until if isinstance(until, Timestamp) else ZERO_TIME


def parseUnpin(body: bytes) -> str:
    """
    Unknown keys are no errors here, whatever the server's strictness is.

    @return: the group whose client loses its pin.
    """
    try:
        group = str(decodeLoosely(body, _UNPIN).get("group", ""))
    except JsonError as error:
        raise errors.INVALID_JSON(err=error) from error
    if not group:
        raise errors.INVALID_JSON(err="consumer group not specified")
    if not isValidGroup(group):
        raise errors.CONSUMER_INVALID_GROUP_NAME()
    return group


def parseReset(body: bytes) -> int:
    """
    @return: the sequence to which a consumer goes back; 0 for its acknowledgement floor.
    """
    if not body:
        return 0
    try:
        return int(decodeLoosely(body, _RESET).get("seq", 0))
    except JsonError as error:
        raise errors.INVALID_JSON(err=error) from error


def parsePeer(body: bytes) -> str:
    """
    @return: the name or the id of the broker that is meant.
    """
    return _peerIn(body, _PEER)


def parseServer(body: bytes) -> str:
    """
    @return: the name or the id of the broker that is to be removed.
    """
    return _peerIn(body, _SERVER)


def _peerIn(body: bytes, shape: Struct[dict[str, Any]]) -> str:
    requireBody(body)
    try:
        found = decodeLoosely(body, shape)
    except JsonError as error:
        raise errors.INVALID_JSON(err=error) from error
    peer = str(found.get("peer") or found.get("peer_id") or "")
    if not peer:
        raise errors.BAD_REQUEST()
    return peer


def parseStepDown(body: bytes) -> Placement | None:
    """
    @return: where the leader is to go; C{None} for anywhere.
    """
    if isEmptyBody(body):
        return None
    try:
        placement: Placement | None = decodeLoosely(body, _STEP_DOWN).get("placement")
    except JsonError as error:
        raise errors.CLUSTER_NOT_AVAIL() from error
    return placement
