"""
The bodies of API requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from natsbroker.jetstream.model.bodies import (
    ConsumerAction,
    ConsumerRequest,
    CopiedState,
    InfoRequest,
    LostData,
    MessageDeleteRequest,
    MessageGetRequest,
    PageRequest,
    PurgeRequest,
    SnapshotRequest,
    StreamRequest,
    StreamsRequest,
)
from natsbroker.jetstream.model.consumerconfig import AckPolicy
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.requests import (
    isEmptyBody,
    parseConsumer,
    parseInfo,
    parseMessageDelete,
    parseMessageGet,
    parsePage,
    parsePause,
    parsePeer,
    parsePurge,
    parseReset,
    parseRestore,
    parseServer,
    parseSnapshot,
    parseStepDown,
    parseStream,
    parseStreams,
    parseUnpin,
    requireBody,
    requireEmpty,
)
from natsbroker.jetstream.model.streamconfig import Placement
from natsbroker.steps import finish
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp
from tests.counting import callsOf


@pytest.mark.parametrize("body", [b"", b"{}", b" { }\n", b"{\t}"])
def test_emptyBodies(body: bytes) -> None:
    """An empty body is accepted by requests without a body, and refused by others."""
    assert isEmptyBody(body)
    requireEmpty(body)
    with pytest.raises(JetStreamError, match="bad request"):
        requireBody(body)


@pytest.mark.parametrize("body", [b"x", b"  ", b'{"a":1}', b"[]", b"{", b"null", b"{}{}"])
def test_otherBodies(body: bytes) -> None:
    """A body that is not empty is refused by requests without a body, even if it is no JSON."""
    requireBody(body)
    with pytest.raises(JetStreamError, match="expected an empty request payload"):
        requireEmpty(body)


def test_stream() -> None:
    """A request to create a stream says whether it is pedantic and whether it names a storage."""
    request = finish(parseStream(b'{"name":"S","pedantic":true}'))
    assert (request.config.name, request.pedantic, request.namesStorage) == ("S", True, False)
    assert finish(parseStream(b'{"storage":"file"}')).namesStorage


def test_consumer() -> None:
    """A request to create a consumer has a stream, a configuration and an action."""
    request = finish(
        parseConsumer(b'{"stream_name":"S","config":{"ack_policy":"explicit"},"action":"update"}')
    )
    assert request.stream_name == "S"
    assert request.config.ack_policy is AckPolicy.EXPLICIT
    assert request.action is ConsumerAction.UPDATE
    assert finish(parseConsumer(b'{"action":""}')).action is ConsumerAction.EITHER


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (parseConsumer, b'{"action":"bogus"}'),
        (parseConsumer, b'{"config":{"priority_policy":5}}'),
        (parseStreams, b'{"offset":"x"}'),
        (parseStreams, b"["),
        (parsePage, b'{"subject":"a"}'),
        (parseUnpin, b'{"zork":1}'),
        (parseUnpin, b""),
        (parseUnpin, b"x"),
        (parseReset, b"{"),
        (parsePeer, b"x"),
    ],
)
def test_invalid(parse: Callable[[bytes], object], body: bytes) -> None:
    """A malformed body is refused with the error code for invalid JSON."""
    with pytest.raises(JetStreamError, match=r"^invalid JSON: ") as caught:
        request = parse(body)
        if isinstance(request, Generator):
            finish(request)
    assert caught.value.err_code == 10025


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
def test_emptyRequest(body: bytes) -> None:
    """A request to create a stream or consumer may be an empty document."""
    assert finish(parseStream(body)) == StreamRequest(namesStorage=False)
    assert finish(parseConsumer(body)) == ConsumerRequest()


def test_pages() -> None:
    """A request for a page may have an offset. A body that is no JSON counts as empty."""
    assert parseStreams(b"garbage") == StreamsRequest()
    assert parseStreams(b'{"offset":3,"subject":"a.*"}') == StreamsRequest(3, "a.*")
    assert parsePage(b' {"offset":-3}') == PageRequest(-3)
    assert parseInfo(b'{"deleted_details":true,"subjects_filter":">"}') == InfoRequest(0, True, ">")


def test_peer() -> None:
    """A request about a peer has its name. A request to remove a server may have its id instead."""
    assert parsePeer(b'{"peer":"a","zork":1}') == "a"
    assert (parseServer(b'{"peer":"a","peer_id":"b"}'), parseServer(b'{"peer_id":"b"}')) == (
        "a",
        "b",
    )
    for parse, body in (
        (parsePeer, b""),
        (parsePeer, b'{"peer_id":"b"}'),
        (parseServer, b'{"a":1}'),
    ):
        with pytest.raises(JetStreamError, match="bad request"):
            parse(body)


def test_stepDown() -> None:
    """A request to step down may have a placement, which must be an object."""
    assert parseStepDown(b" {} ") is None
    assert parseStepDown(b'{"placement":{"preferred":"b"}}') == Placement(preferred="b")
    with pytest.raises(JetStreamError) as caught:
        parseStepDown(b'{"placement":5}')
    assert caught.value.err_code == 10008


def test_purge() -> None:
    """
    A purge with both a sequence and a number to keep is refused. A body that is no JSON purges
    everything.
    """
    assert parsePurge(b"x") == PurgeRequest()
    assert parsePurge(b'{"filter":"a","keep":2}') == PurgeRequest(filter="a", keep=2)
    assert parsePurge(b'{"seq":5,"keep":0}') == PurgeRequest(seq=5)
    with pytest.raises(JetStreamError, match="bad request"):
        parsePurge(b'{"seq":5,"keep":2}')


def test_messageDelete() -> None:
    """A request to delete a message needs a body, which may lack the sequence."""
    assert parseMessageDelete(b'{"no_erase":true}') == MessageDeleteRequest(0, True)
    with pytest.raises(JetStreamError, match="bad request"):
        parseMessageDelete(b"")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"seq":0}',
        b'{"no_hdr":true}',
        b'{"seq":1,"last_by_subj":"a"}',
        b'{"seq":1,"start_time":"2024-01-01T00:00:00Z"}',
        b'{"last_by_subj":"a","start_time":"2024-01-01T00:00:00Z"}',
        b'{"last_by_subj":"a","next_by_subj":"a"}',
        b'{"seq":1,"batch":1}',
        b'{"seq":1,"max_bytes":1}',
        b'{"multi_last":["a"]}',
    ],
)
def test_messageGetContradicts(body: bytes) -> None:
    """A request for a message must select it in exactly one way."""
    with pytest.raises(JetStreamError) as caught:
        parseMessageGet(body)
    assert caught.value.err_code == 10003


def test_messageGet() -> None:
    """A request for a message selects it by sequence, subject or time."""
    assert parseMessageGet(b'{"seq":1,"no_hdr":true}') == MessageGetRequest(seq=1, no_hdr=True)
    assert parseMessageGet(b'{"seq":1,"next_by_subj":"a"}').next_by_subj == "a"
    assert parseMessageGet(
        b'{"next_by_subj":"a","start_time":"1970-01-01T00:00:00.000000005Z"}'
    ).start_time == Timestamp(5)


def test_snapshot() -> None:
    """A request for a snapshot needs a deliver subject without wildcards."""
    assert parseSnapshot(b'{"deliver_subject":"d"}') == SnapshotRequest("d")
    for body in (b'{"deliver_subject":"d.*"}', b'{"no_consumers":true}'):
        with pytest.raises(JetStreamError, match="deliver subject not valid"):
            parseSnapshot(body)


def test_restore() -> None:
    """A restored stream comes with its configuration and state."""
    request = finish(
        parseRestore(
            b'{"config":{"name":"S"},"state":{"messages":3,"first_ts":"1970-01-01T00:00:00Z",'
            b'"lost":{"msgs":[4],"bytes":5}}}'
        )
    )
    assert request.config.name == "S"
    assert request.state == CopiedState(3, first_ts=Timestamp(0), lost=LostData((4,), 5))


def test_pause() -> None:
    """A request to pause without a time, or with a body that is no JSON, resumes the consumer."""
    assert parsePause(b'{"pause_until":"1970-01-01T00:00:01Z"}') == 1_000_000_000
    for body in (b"", b"x", b"{}", b'{"pause_until":null}'):
        assert parsePause(body) == ZERO_TIME


def test_unpin() -> None:
    """A request to unpin needs a valid priority group."""
    assert parseUnpin(b'{"group":"g"}') == "g"
    with pytest.raises(JetStreamError) as caught:
        parseUnpin(b'{"group":"a b"}')
    assert caught.value.err_code == 10162


def test_reset() -> None:
    """A request to reset a consumer may have a sequence. Unknown keys are ignored."""
    assert parseReset(b"") == 0
    assert parseReset(b'{"seq":4,"zork":1}') == 4


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"S","subjects":[%b]}' % b",".join(b'"a.%d"' % number for number in range(90_000)),
        b'{"name":"S","sources":[%b]}' % b",".join(b'{"name":"X%d"}' % n for n in range(3000)),
        b'{"name":"S","metadata":{%b}}'
        % b",".join(b'"k%d":"v"' % number for number in range(3000)),
        b"{%b}" % b",".join(b'"k%d":1' % number for number in range(3000)),
    ],
)
def test_steps(body: bytes) -> None:
    """A long body is parsed in steps of limited work."""
    steps, longest = parseStream(body, isStrict=False), 0
    isOver = False

    def step() -> None:
        nonlocal isOver
        isOver = next(steps, steps) is steps

    while not isOver:
        longest = max(longest, callsOf(step))
    assert longest < 20_000
