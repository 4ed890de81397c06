"""
The bodies of API requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from natsbroker.jetstream.model.bodies import (
    ConsumerAction,
    MessageDeleteRequest,
    MessageGetRequest,
    PageRequest,
    PurgeRequest,
    SnapshotRequest,
)
from natsbroker.jetstream.model.consumerconfig import AckPolicy
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.requests import (
    isEmptyBody,
    parseConsumer,
    parseConsumerPage,
    parseInfo,
    parseList,
    parseMessageDelete,
    parseMessageGet,
    parseNames,
    parsePause,
    parsePurge,
    parseReset,
    parseRestore,
    parseSnapshot,
    parseStream,
    parseUnpin,
    requireBody,
    requireEmpty,
)
from natsbroker.steps import finish
from natsbroker.wire.timestamps import ZERO_TIME, Timestamp
from tests.counting import callsOf


@pytest.mark.parametrize("body", [b"", b"{}", b" { }\n", b"{\t}"])
def test_emptyBodies(body: bytes) -> None:
    """A body that says nothing may stand where none belongs, and not where one does."""
    assert isEmptyBody(body)
    requireEmpty(body)
    with pytest.raises(JetStreamError, match="bad request"):
        requireBody(body)


@pytest.mark.parametrize("body", [b"x", b"  ", b'{"a":1}', b"[]", b"{", b"null", b"{}{}"])
def test_otherBodies(body: bytes) -> None:
    """Anything else is a body, also when it is no JSON."""
    requireBody(body)
    with pytest.raises(JetStreamError, match="expected an empty request payload"):
        requireEmpty(body)


def test_stream() -> None:
    """A request to create a stream says whether it is pedantic and whether it names a storage."""
    request = finish(parseStream(b'{"name":"S","pedantic":true}'))
    assert (request.config.name, request.pedantic, request.namesStorage) == ("S", True, False)
    assert finish(parseStream(b'{"storage":"file"}')).namesStorage


def test_consumer() -> None:
    """A request to create a consumer names its stream and what it may do."""
    request = finish(
        parseConsumer(b'{"stream_name":"S","config":{"ack_policy":"explicit"},"action":"update"}')
    )
    assert request.stream_name == "S"
    assert request.config.ack_policy is AckPolicy.EXPLICIT
    assert request.action is ConsumerAction.UPDATE
    assert finish(parseConsumer(b'{"action":""}')).action is ConsumerAction.EITHER


@pytest.mark.parametrize(
    ("parse", "body", "text"),
    [
        (parseConsumer, b'{"action":"bogus"}', 'unknown consumer action: "bogus"'),
        (parseConsumer, b'{"config":{"priority_policy":5}}', "unknown priority policy: 5"),
        (
            parseConsumer,
            b'{"config":{"max_deliver":"x"}}',
            "json: cannot unmarshal string into Go struct field"
            " CreateConsumerRequest.config.max_deliver of type int",
        ),
        (
            parseList,
            b'{"offset":"x"}',
            "json: cannot unmarshal string into Go struct field JSApiStreamListRequest.offset"
            " of type int",
        ),
        (parseNames, b"[", "unexpected EOF"),
        (parseConsumerPage, b'{"subject":"a"}', 'json: unknown field "subject"'),
        (parseUnpin, b'{"zork":1}', "consumer group not specified"),
        (parseUnpin, b"", "unexpected end of JSON input"),
        (parseUnpin, b"x", "invalid character 'x' looking for beginning of value"),
        (parseReset, b"{", "unexpected end of JSON input"),
    ],
)
def test_invalid(parse: Callable[[bytes], object], body: bytes, text: str) -> None:
    """What is no such request is refused with Go's text."""
    with pytest.raises(JetStreamError) as caught:
        found = parse(body)
        if isinstance(found, Generator):
            finish(found)
    assert caught.value.err_code == 10025
    assert caught.value.description == f"invalid JSON: {text}"


def test_pages() -> None:
    """A page may be left out or be anything but JSON; a negative offset is none."""
    assert parseNames(b"garbage") == PageRequest()
    assert parseList(b'{"offset":3,"subject":"a.*"}') == PageRequest(3, "a.*")
    assert parseConsumerPage(b' {"offset":-3}') == PageRequest()
    assert parseInfo(b'{"deleted_details":true,"subjects_filter":">","offset":-1}') == PageRequest(
        0, "", True, ">"
    )


def test_purge() -> None:
    """A body that is no JSON purges everything; a sequence and a number to keep are too much."""
    assert parsePurge(b"x") == PurgeRequest()
    assert parsePurge(b'{"filter":"a","keep":2}') == PurgeRequest(filter="a", keep=2)
    assert parsePurge(b'{"seq":5,"keep":0}') == PurgeRequest(seq=5)
    with pytest.raises(JetStreamError, match="bad request"):
        parsePurge(b'{"seq":5,"keep":2}')


def test_messageDelete() -> None:
    """A sequence is needed, zero will do."""
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
    """A request for a message names one, in one way."""
    with pytest.raises(JetStreamError) as caught:
        parseMessageGet(body)
    assert caught.value.err_code == 10003


def test_messageGet() -> None:
    """A message is named by sequence, subject or time, and the next of a subject by two of them."""
    assert parseMessageGet(b'{"seq":1,"no_hdr":true}') == MessageGetRequest(seq=1, no_hdr=True)
    assert parseMessageGet(b'{"seq":1,"next_by_subj":"a"}').next_by_subj == "a"
    assert parseMessageGet(
        b'{"next_by_subj":"a","start_time":"1970-01-01T00:00:00.000000005Z"}'
    ).start_time == Timestamp(5)


def test_snapshot() -> None:
    """A copy goes to a subject without wildcards, in chunks within bounds."""
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
    assert request.state == {
        "messages": 3,
        "first_ts": Timestamp(0),
        "lost": {"msgs": (4,), "bytes": 5},
    }


def test_pause() -> None:
    """No time, and a body that is no JSON, resume a consumer."""
    assert parsePause(b'{"pause_until":"1970-01-01T00:00:01Z"}') == 1_000_000_000
    for body in (b"", b"x", b"{}", b'{"pause_until":null}'):
        assert parsePause(body) == ZERO_TIME


def test_unpin() -> None:
    """A pin is taken from a group, whose name must be one."""
    assert parseUnpin(b'{"group":"g"}') == "g"
    with pytest.raises(JetStreamError) as caught:
        parseUnpin(b'{"group":"a b"}')
    assert caught.value.err_code == 10162


def test_reset() -> None:
    """A consumer goes back to a sequence, or without one to its floor; unknown keys pass."""
    assert parseReset(b"") == 0
    assert parseReset(b'{"seq":4,"zork":1}') == 4


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"S","subjects":[%b]}' % b",".join(b'"a.%d"' % each for each in range(3000)),
        b'{"name":"S","sources":[%b]}' % b",".join(b'{"name":"X%d"}' % n for n in range(3000)),
        b'{"name":"S","metadata":{%b}}' % b",".join(b'"k%d":"v"' % each for each in range(3000)),
        b"{%b}" % b",".join(b'"k%d":1' % each for each in range(3000)),
        b'{"name":"S"}' * 3000,
    ],
)
def test_steps(body: bytes) -> None:
    """A long body is read in steps of some hundreds of its parts."""
    steps, longest, count = parseStream(body, isStrict=False), 0, 0
    isOver = False

    def step() -> None:
        nonlocal isOver
        isOver = next(steps, steps) is steps

    while not isOver:
        longest = max(longest, callsOf(step))
        count += 1
    assert count > 20
    assert longest < 20_000


def test_repeatedKey() -> None:
    """A key that comes again and again does not copy what it already has."""

    def read(count: int) -> None:
        many = b",".join(b'"k%d":"v"' % each for each in range(count))
        again = b',"metadata":{"k":"v"}' * count
        request = finish(parseStream(b'{"metadata":{%b}%b}' % (many, again)))
        assert len(request.config.metadata) == count + 1

    read(30_000)
