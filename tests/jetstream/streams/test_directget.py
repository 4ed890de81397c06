"""
Direct get: requests for single messages, batches, and the last messages of subjects.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from zope.interface import alsoProvides

from natsbroker.connections.turns import AccountTurns
from natsbroker.interfaces import IShortcutLog
from natsbroker.interfaces.records import EncodedRecord, Record, StoreFailed
from natsbroker.jetstream.model.bodies import MessageGetRequest
from natsbroker.jetstream.model.streamconfig import StorageType, StreamSource
from natsbroker.jetstream.recordsender import RecordSender
from natsbroker.jetstream.streams import directget
from natsbroker.jetstream.streams.directget import (
    SENT,
    TOGETHER,
    DirectGetResponder,
    _BatchAnswer,
)
from natsbroker.jetstream.streams.stream import Stream
from natsbroker.pure.backlog import SHARE
from natsbroker.steps import Steps, finish
from natsbroker.storage.records import encodeBatch
from natsbroker.wire.values import Kind, Message
from tests.jetstream.support import SECOND, ReplacingLog, Stage
from tests.support import COMPILED, HEADERS, PURE, Names, World, needsCompiled, using

GET = "$JS.API.DIRECT.GET.S"


class DirectStage(Stage):
    """
    A stage with the messages 0 to 5 in a stream that answers direct get.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.made: Stream = self.stream(allow_direct=True, **config)
        for place, subject in enumerate([b"s.a", b"s.b", b"s.a", b"s.c", b"s.b", b"s.a"]):
            self.clock.advance(1)
            self.publish(subject, b"%d" % place, **({"X": "y"} if place == 1 else {}))

    def ask(self, body: Any = b"", subject: str = GET, **headers: str) -> list[tuple[bytes, bytes]]:
        """The header blocks and payloads of an answer."""
        inbox = self.inbox(b"_INBOX.d")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(subject.encode(), data, b"_INBOX.d", **headers)
        self.settle()
        return [(message.headers, message.payload) for message in inbox.got]

    def status(self, body: Any = b"", subject: str = GET, **headers: str) -> bytes:
        """The status line of an answer that is one status."""
        ((block, payload),) = self.ask(body, subject, **headers)
        assert payload == b""
        return block.split(b"\r\n")[0].removeprefix(b"NATS/1.0 ")

    def numbers(self, body: Any) -> tuple[list[tuple[int, int, int]], bytes]:
        """
        The sequence, pending messages and previous sequence of each message, and the last header
        block.
        """
        *messages, (end, _) = self.ask(body)
        return [
            (
                _number(b"Nats-Sequence", block),
                _number(b"Nats-Num-Pending", block),
                _number(b"Nats-Last-Sequence", block),
            )
            for block, _ in messages
        ], end


def _number(name: bytes, block: bytes) -> int:
    match = re.search(rb"\r\n%b: (\d+)\r\n" % name, block)
    assert match is not None
    return int(match[1])


class TestOne:
    """One message."""

    @pytest.mark.parametrize("storage", list(StorageType))
    def test_headers(self, storage: StorageType) -> None:
        """The place of the message follows the headers that it was published with."""
        stage = DirectStage(storage=storage)
        assert stage.ask({"seq": 2}) == [
            (
                b"NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: s.b\r\nNats-Sequence: 2\r\n"
                b"Nats-Time-Stamp: 2023-11-14T22:13:22Z\r\n\r\n",
                b"1",
            )
        ]

    def test_noHeaders(self) -> None:
        """With C{no_hdr}, a single message comes without headers."""
        stage = DirectStage()
        assert stage.ask({"seq": 2, "no_hdr": True}) == [(b"", b"1")]
        assert stage.ask({"no_hdr": True}, GET + ".s.a") == [(b"", b"5")]

    @pytest.mark.parametrize(
        ("body", "sequence"),
        [
            ({"last_by_subj": "s.a"}, 6),
            ({"last_by_subj": "s.*"}, 6),
            ({"next_by_subj": "s.*"}, 1),
            ({"next_by_subj": "s.a", "seq": 2}, 3),
            ({"start_time": "2020-01-01T00:00:00Z"}, 1),
            ({"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "s.c"}, 4),
            ({"start_time": "2023-11-14T22:13:23Z"}, 3),
        ],
    )
    def test_selections(self, body: Any, sequence: int) -> None:
        """A message can be selected by its sequence, its subject or its time."""
        ((block, _),) = DirectStage().ask(body)
        assert _number(b"Nats-Sequence", block) == sequence
        assert b"Nats-Num-Pending" not in block

    def test_subjectForm(self) -> None:
        """The request's subject can end with that of the wanted message."""
        ((block, payload),) = DirectStage().ask(b"", GET + ".s.b")
        assert (_number(b"Nats-Sequence", block), payload) == (5, b"4")

    @pytest.mark.parametrize(
        "body",
        [
            {"seq": 9},
            {"next_by_subj": "zz"},
            {"last_by_subj": "zz"},
            {"last_by_subj": "a..b"},
            {"next_by_subj": "a..b"},
            {"start_time": "2090-01-01T00:00:00Z"},
            {"seq": 9, "batch": 10},
            {"start_time": "2090-01-01T00:00:00Z", "batch": 2},
        ],
    )
    def test_notFound(self, body: Any) -> None:
        """A request that no message matches gets the status 404."""
        assert DirectStage().status(body) == b"404 Message Not Found"

    def test_refusals(self) -> None:
        """Requests that cannot be answered have a status."""
        stage = DirectStage()
        assert stage.status() == b"408 Empty Request"
        assert stage.status(b"{") == b"408 Malformed Request"
        assert stage.status({"seq": 1, "last_by_subj": "s.a"}) == b"408 Bad Request"
        assert stage.status({"seq": 1}, GET + ".s.a") == b"408 Bad Request"
        level = {"Nats_Required_Api_Level": "9"}
        assert stage.status({"seq": 1}, **level) == b"412 Required Api Level"

    @pytest.mark.parametrize("body", [{"seq": 1}, {"seq": 1, "no_hdr": True}])
    def test_storeFails(self, monkeypatch: pytest.MonkeyPatch, body: Any) -> None:
        """A failure of the store is answered with the status 500, not with 404."""
        stage = DirectStage()
        monkeypatch.setattr(stage.made.log, "read", lambda *_: fail(StoreFailed("broken")))
        assert stage.status(body) == b"500 broken"

    @pytest.mark.parametrize("body", [b'{"seq":2}', b'{"seq": 2}', b'{"seq":  2}', b'{ "seq":2}'])
    def test_spellings(self, body: bytes) -> None:
        """Unusual spellings of a sequence in JSON are understood."""
        ((block, payload),) = DirectStage().ask(body)
        assert (_number(b"Nats-Sequence", block), payload) == (2, b"1")

    def test_publishedBefore(self) -> None:
        """A message that is published earlier in the same turn is found."""
        stage = DirectStage()
        inbox = stage.inbox(b"_INBOX.d")
        stage.send(b"s.n", b"new")
        stage.send(f"{GET}.s.n".encode(), b"", b"_INBOX.d")
        stage.settle()
        assert inbox.payloads == [b"new"]


class TestBatch:
    """Several messages."""

    def test_numbers(self) -> None:
        """
        Each message of a batch has the number of matching messages after it, and the previous
        matching sequence.
        """
        messages, end = DirectStage().numbers({"seq": 2, "batch": 3, "next_by_subj": "s.a"})
        assert messages == [(3, 1, 0), (6, 0, 3)]
        assert end == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 6\r\n\r\n"

    def test_limit(self) -> None:
        """The end of a batch has the number of messages that are left."""
        messages, end = DirectStage().numbers({"start_time": "2020-01-01T00:00:00Z", "batch": 2})
        assert messages == [(1, 5, 0), (2, 4, 1)]
        assert end == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 4\r\nNats-Last-Sequence: 2\r\n\r\n"

    @pytest.mark.parametrize(("limit", "count"), [(4, 1), (5, 2), (26, 2), (27, 3)])
    def test_bytes(self, limit: int, count: int) -> None:
        """A batch ends with the message that reaches C{max_bytes}."""
        messages, _ = DirectStage().numbers({"seq": 1, "batch": 6, "max_bytes": limit})
        assert len(messages) == count

    def test_noHeaders(self) -> None:
        """
        With C{no_hdr}, the messages of a batch have no headers. The end has the number of matching
        messages.
        """
        answer = DirectStage().ask({"seq": 1, "batch": 2, "no_hdr": True})
        assert answer[:2] == [(b"", b"0"), (b"", b"1")]
        assert answer[2][0].startswith(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 6\r\n")

    def test_negative(self) -> None:
        """A batch with a negative number gets no messages, but the number of matching ones."""
        assert DirectStage().numbers({"seq": 3, "batch": -1}) == (
            [],
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 4\r\nNats-Last-Sequence: 0\r\n\r\n",
        )

    def test_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A batch may be longer than one read."""
        monkeypatch.setattr(directget, "_PIECE", 2)
        messages, _ = DirectStage().numbers({"seq": 1, "batch": 10})
        assert [message[0] for message in messages] == [1, 2, 3, 4, 5, 6]


class TestLast:
    """The last messages of subjects."""

    @pytest.mark.parametrize(
        ("body", "messages", "end"),
        [
            ({}, [(4, 2, 0), (5, 1, 4), (6, 0, 5)], (0, 6, 6)),
            ({"batch": 1}, [(4, 2, 0)], (2, 4, 6)),
            ({"seq": 5}, [(5, 1, 0), (6, 0, 5)], (0, 6, 6)),
            ({"seq": 7}, [], (0, 0, 6)),
            ({"up_to_seq": 3}, [(2, 1, 0), (3, 0, 2)], (0, 3, 3)),
            ({"up_to_seq": 30}, [(4, 2, 0), (5, 1, 4), (6, 0, 5)], (0, 6, 30)),
            ({"up_to_time": "2023-11-14T22:13:23.5Z"}, [(2, 1, 0), (3, 0, 2)], (0, 3, 3)),
            ({"max_bytes": 5}, [(4, 2, 0), (5, 1, 4)], (1, 5, 6)),
            ({"multi_last": ["s.*", "s.a"]}, [(4, 2, 0), (5, 1, 4), (6, 0, 5)], (0, 6, 6)),
        ],
    )
    def test_messages(
        self, body: Any, messages: list[tuple[int, int, int]], end: tuple[int, int, int]
    ) -> None:
        """
        The last messages of subjects come in order of sequence, as they were at a given sequence or
        time.
        """
        sequences, block = DirectStage().numbers({"multi_last": ["s.*"], **body})
        assert sequences == messages
        names = (b"Nats-Num-Pending", b"Nats-Last-Sequence", b"Nats-UpTo-Sequence")
        assert tuple(_number(name, block) for name in names) == end

    @pytest.mark.parametrize(
        "body",
        [
            {"multi_last": ["zz"]},
            {"multi_last": [""]},
            {"multi_last": ["s.*"], "up_to_time": "2020-01-01T00:00:00Z"},
        ],
    )
    def test_none(self, body: Any) -> None:
        """A request for last messages that no subject matches gets the status 404."""
        assert DirectStage().status(body) == b"404 No Results"

    def test_tooMany(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number of subjects is limited."""
        monkeypatch.setattr(directget, "MOST_SUBJECTS", 2)
        assert DirectStage().status({"multi_last": ["s.*"]}) == b"413 Too Many Results"


class TestSubscriptions:
    """The streams that answer."""

    def test_update(self) -> None:
        """A stream answers direct gets only while it allows them."""
        stage = DirectStage()
        stage.wait(stage.made.applyConfig(replace(stage.made.config, allow_direct=False)))
        assert stage.ask({"seq": 1}) == []
        stage.wait(stage.made.applyConfig(replace(stage.made.config, allow_direct=True)))
        assert len(stage.ask({"seq": 1})) == 1
        stage.made.close()
        assert stage.ask({"seq": 1}) == []

    def test_domain(self) -> None:
        """Requests arrive at the domain's subject too."""
        stage = DirectStage()
        stage.jetstream.domain = "D"
        stage.stream(name="T", subjects=("t",), allow_direct=True)
        assert stage.status({"seq": 1}, "$JS.D.API.DIRECT.GET.T") == b"404 Message Not Found"
        assert stage.status(b"", "$JS.D.API.DIRECT.GET.T.t") == b"404 Message Not Found"

    def test_mirror(self) -> None:
        """
        A mirror answers direct gets under its own name, and under its origin's name once it has
        caught up.
        """
        stage = Stage()
        mirror = stage.stream(
            name="M",
            subjects=(),
            mirror=StreamSource(name="S"),
            mirror_direct=True,
            allow_direct=True,
        )
        inbox = stage.inbox(b"_INBOX.*")

        def answering() -> list[bytes]:
            inbox.got.clear()
            for name in (b"S", b"M"):
                stage.send(b"$JS.API.DIRECT.GET.%b.s.a" % name, b"", b"_INBOX.%b" % name)
            stage.settle()
            return [message.subject for message in inbox.got]

        assert answering() == [b"_INBOX.M"]
        mirror.caughtUp()
        assert answering() == [b"_INBOX.S", b"_INBOX.M"]


def test_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch without headers is sent over several turns, and each message counts as work."""
    stage = DirectStage()
    for number in range(100):
        stage.publish(b"s.many", b"%d" % number)
    take, costs = AccountTurns.take, list[int]()

    def note(turns: AccountTurns, cost: int = 0) -> Deferred[None]:
        costs.append(cost)
        return take(turns, cost)

    monkeypatch.setattr(AccountTurns, "take", note)
    answer = stage.ask({"seq": 7, "batch": 90, "no_hdr": True})
    assert [message[1] for message in answer[:-1]] == [b"%d" % number for number in range(90)]
    assert sum(costs) >= 90 * SENT
    assert max(costs) <= TOGETHER * SENT <= SHARE // 2


def answered(names: Names, records: list[Record], pending: int, limit: int, room: int) -> list[Any]:
    """
    The frames of a batch for two clients, of which one supports headers, and the state of the
    batch.
    """
    with using(names):
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)

        def send(subject: bytes, payload: bytes, headers: bytes) -> int:
            return bus.publish(Message(subject, headers + payload, b"", len(headers)))

        stream: Any = SimpleNamespace(
            name="S",
            account=SimpleNamespace(
                records=RecordSender(bus),
                send=send,
                turns=SimpleNamespace(take=lambda _: succeed(None)),
            ),
        )
        plain, withHeaders = world.client(), world.client(HEADERS)
        plain.send(b"SUB r 1\r\n")
        withHeaders.send(b"SUB r 22\r\n")
        answer = _BatchAnswer(pending, MessageGetRequest(batch=room, max_bytes=limit))
        ensureDeferred(DirectGetResponder(stream)._sendPart(b"r", answer, records, False))
        state = (answer.pending, answer.last, answer.left, answer.room)
        return [state, plain.receive(), withHeaders.receive()]


@needsCompiled
@given(
    st.lists(
        st.builds(
            Record,
            st.integers(1, 1 << 62),
            st.one_of(st.integers(0, 1 << 62), st.integers(0, 1 << 31).map(lambda n: n * SECOND)),
            st.sampled_from([b"s", b"s.long.subject" * 60]),
            st.sampled_from([b"", b"NATS/1.0\r\nA: 1\r\n\r\n"]),
            st.binary(max_size=20),
        ),
        min_size=2,
        max_size=5,
    ),
    st.integers(0, 6),
    st.sampled_from([0, 30, 1000]),
    st.integers(1, 6),
)
def test_lanes(records: list[Record], pending: int, limit: int, room: int) -> None:
    """Both lanes send the same frames for a batch."""
    assert COMPILED is not None
    arguments = (records, pending, limit, room)
    assert answered(COMPILED, *arguments) == answered(PURE, *arguments)


class RecalledLog:
    """
    The records of a log, all of them in memory, of which some are damaged there.
    """

    identity = 7

    def __init__(self, records: list[Record], damaged: set[int]) -> None:
        entries = [
            (record.subject, record.headers, record.payload, record.timestamp) for record in records
        ]
        self._blobs = encodeBatch(self.identity, 1, entries, 1, 0, b"").blobs
        for sequence in damaged & {record.sequence for record in records}:
            self._blobs[sequence - 1] = self._blobs[sequence - 1][:-1] + b"!"
        self.lasts = {record.subject: record.sequence for record in records}

    def recall(self, sequence: int) -> EncodedRecord | None:
        if not 0 < sequence <= len(self._blobs):
            return None
        blob = self._blobs[sequence - 1]
        return b"before" + blob + b"behind", 6, 6 + len(blob)

    def recallLast(self, subject: bytes) -> int:
        return self.lasts.get(subject, 0)


class RecalledStream:
    """
    A stream whose messages are in a L{RecalledLog}.
    """

    name = "S"
    isSettled = True
    isDeleted = False

    def __init__(self, records: list[Record], damaged: set[int], isInFile: bool) -> None:
        self.isInFile = isInFile
        self.messages = {record.sequence: record for record in records}
        prefixed = [
            record._replace(headers=len(record.headers).to_bytes(4, "big") + record.headers)
            if isInFile and record.headers
            else record
            for record in records
        ]
        self.log = RecalledLog(prefixed, damaged)
        alsoProvides(self.log, IShortcutLog)
        self.account: Any = None

    def get(self, sequence: int) -> Deferred[Record | None]:
        return succeed(self.messages.get(sequence))

    def lastMatching(self, pattern: bytes) -> Deferred[Record | None]:
        return self.get(self.log.recallLast(pattern))

    def settle(self) -> Deferred[None]:
        return succeed(None)

    def verify(self) -> None:
        pass


def gotten(
    names: Names, stream: Any, requests: list[tuple[bytes, bytes, bytes]]
) -> list[list[bytes]]:
    """The answers to some requests, for two clients, of which one supports headers."""
    with using(names):
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)

        def send(subject: bytes, payload: bytes, headers: bytes) -> int:
            return bus.publish(Message(subject, headers + payload, b"", len(headers)))

        async def inSteps(steps: Steps[Any]) -> Any:
            return finish(steps)

        stream.account = SimpleNamespace(
            records=RecordSender(bus),
            send=send,
            run=lambda result: result,
            inSteps=inSteps,
            serve=lambda serve, message, tag, *_: ensureDeferred(serve(message, tag)),
        )
        responder: Any = DirectGetResponder(stream)
        responder._subscriptions = [None]
        received = []
        plain, withHeaders = world.client(), world.client(HEADERS)
        plain.send(b"SUB r 1\r\n")
        withHeaders.send(b"SUB r 22\r\n")
        for tokens, body, headers in requests:
            subject = GET.encode() + tokens
            message = Message(subject, headers + body, b"r", len(headers))
            responder.deliverMany([(message, len(GET) + 1 if tokens else 0)])
            received.append([plain.receive(), withHeaders.receive()])
        return received


MESSAGES = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 1 << 62), st.integers(1, 1 << 31).map(lambda n: n * SECOND)),
        st.sampled_from([b"s", b"s.a", b"s.long.subject" * 60]),
        st.sampled_from([b"", b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\n\r\n"]),
        st.binary(max_size=20),
    ),
    max_size=5,
)
BODIES = st.one_of(
    st.builds(
        lambda text, number: text % number,
        st.sampled_from(
            [b'{"seq":%d}', b'{"seq": %d}', b'{"seq":%d,"no_hdr":true}', b'{"seq":0%d}', b" %d"]
        ),
        st.one_of(st.integers(-1, 6), st.sampled_from([10**17, 10**18, 10**19, 1 << 64])),
    ),
    st.sampled_from([b"", b"{}", b'{"seq":}', b'{"seq":1', b'{"seq":1}}', b'{"no_hdr":true}']),
)
TOKENS = st.sampled_from(
    [b"", b".s", b".s.a", b".s.*", b".>", b".a..b", b".s.none", b".s.long" * 9]
)


@needsCompiled
@given(
    MESSAGES,
    st.sets(st.integers(1, 5), max_size=1),
    st.booleans(),
    st.lists(
        st.tuples(TOKENS, BODIES, st.sampled_from([b"", b"NATS/1.0\r\nA: 1\r\n\r\n"])), max_size=6
    ),
)
def test_step(
    entries: list[tuple[int, bytes, bytes, bytes]],
    damaged: set[int],
    isInFile: bool,
    requests: list[tuple[bytes, bytes, bytes]],
) -> None:
    """Requests get the same answers with and without the compiled step."""
    assert COMPILED is not None
    entries.sort()
    records = [Record(place, *entry) for place, entry in enumerate(entries, 1)]
    stream = RecalledStream(records, damaged, isInFile)
    assert gotten(COMPILED, stream, requests) == gotten(PURE, stream, requests)


@needsCompiled
def test_stepTakes() -> None:
    """The compiled step answers only requests for messages in memory."""
    assert COMPILED is not None
    stream = RecalledStream([Record(1, 5, b"s.a", b"", b"x")], set(), True)
    with using(COMPILED):
        world = World()
        bus = world.accounts["$G"].busFor(Kind.INTERNAL)
        world.client(HEADERS).send(b"SUB r 1\r\n")
        step = COMPILED.DirectGetStep(RecordSender(bus).publisher, b"S", True, stream.log)
        skip = len(GET) + 1
        requests = [
            (Message(GET.encode(), b'{"seq":1}', b"r"), 0),
            (Message(GET.encode() + b".s.a", b"", b"r"), skip),
            (Message(GET.encode(), b'{"seq":2}', b"r"), 0),
            (Message(GET.encode() + b".s.a", b"{}", b"r"), skip),
        ]
        assert step.take(requests) == requests[2:]


@pytest.mark.parametrize("storage", list(StorageType))
@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "body",
    [
        {"last_by_subj": "s.*"},
        {"last_by_subj": "s.a"},
        {"seq": 1, "next_by_subj": "s.a"},
        {"seq": 1, "next_by_subj": "s.*", "batch": 9},
        {"multi_last": ["s.*"]},
        {"multi_last": ["s.a", "s.b", "s.c"], "batch": 9},
    ],
)
def test_replaced(body: Any, times: int, storage: StorageType) -> None:
    """While messages are being replaced, each subject still has a message in the answer."""
    stage = DirectStage(max_msgs_per_subject=1, storage=storage)
    stage.made.log = ReplacingLog(stage.made.log, [b"s.a", b"s.b", b"s.c"], times)
    answers = [block for block, _ in stage.ask(body)]
    subjects = [re.findall(rb"Nats-Subject: (\S+)\r", answer) for answer in answers]
    assert [b"s.a"] in subjects or b"*" in json.dumps(body).encode()
    assert subjects[0]
    if "multi_last" in body:
        assert sorted(subject[0] for subject in subjects[:-1]) == [b"s.a", b"s.b", b"s.c"]
        last = max(_number(b"Nats-Sequence", answer) for answer in answers[:-1])
        assert _number(b"Nats-UpTo-Sequence", answers[-1]) == last


class StandingLog:
    """
    A log that shows the same bounds after others have appended, as a log on another broker does.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._bounds = log.bounds()

    def bounds(self) -> Any:
        return self._bounds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_replacedElsewhere() -> None:
    """Messages that another broker has replaced in the meantime are found."""
    stage = DirectStage(max_msgs_per_subject=1)
    log = stage.made.log
    stage.made.log = StandingLog(log)
    log.append([(subject, b"", b"new", 0) for subject in (b"s.a", b"s.b", b"s.c")])
    assert stage.made.last == 6
    assert [payload for _, payload in stage.ask({"multi_last": ["s.*"]})] == [b"new"] * 3 + [b""]
