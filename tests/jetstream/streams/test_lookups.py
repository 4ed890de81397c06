"""
Messages that wait for a look-up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail

from natsbroker.interfaces.records import StoreFailed
from natsbroker.jetstream.model.streamconfig import SubjectTransformConfig
from natsbroker.jetstream.streams import lookups
from natsbroker.subjects.grammar import matches
from natsbroker.wire.headers import Headers
from natsbroker.wire.values import Message
from tests.jetstream.support import Inbox, Stage

LAST = "Nats-Expected-Last-Subject-Sequence"
OF = "Nats-Expected-Last-Subject-Sequence-Subject"


class Gate:
    """
    A log whose searches for subjects return at the test's command, with what they found at their
    start.
    """

    def __init__(self, log: Any) -> None:
        self.log = log
        self.asked: list[tuple[Deferred[None], bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def subjects(self, pattern: bytes, after: bytes = b"", limit: int = 0) -> Deferred[Any]:
        opened: Deferred[None] = Deferred()
        self.asked.append((opened, pattern))
        subjects = self.log.subjects(pattern, after, limit)
        return opened.addCallback(lambda _: subjects)


class Publishers:
    """Several clients that publish to one stream, whose log has searches that can be held up."""

    def __init__(self, **config: Any) -> None:
        self.stage = Stage()
        self.stream = self.stage.stream(**config)
        self.stream.log = self.gate = Gate(self.stream.log)
        self.inboxes: list[Inbox] = []

    def send(self, publisher: object, subject: bytes, **headers: str) -> Inbox:
        """Publish, with headers whose names have underscores for dashes."""
        reply = b"_INBOX.%d" % len(self.inboxes)
        self.inboxes.append(self.stage.inbox(reply))
        block = Headers({name.replace("_", "-"): value for name, value in headers.items()}).block()
        block = block if headers else b""
        self.stage.bus.publish(Message(subject, block, reply, len(block), publisher))
        self.stage.settle()
        return self.inboxes[-1]

    def expect(self, publisher: object, subject: bytes, last: int, pattern: str) -> Inbox:
        """Publish a message that expects the last sequence of a pattern."""
        return self.send(publisher, subject, **{LAST: str(last), OF: pattern})

    def open(self) -> bytes:
        """Let the oldest search return; return its pattern."""
        opened, pattern = self.gate.asked.pop(0)
        opened.callback(None)
        self.stage.settle()
        return pattern


def sequenceOf(inbox: Inbox) -> int | None:
    """The acknowledged sequence, or C{None} before the acknowledgement."""
    payloads = inbox.payloads
    return json.loads(payloads[0])["seq"] if payloads else None


class TestWhoWaits:
    """A search for an expected sequence delays only those messages that could change its result."""

    def test_unconcerned(self) -> None:
        """During a search, another client's message on another subject is stored at once."""
        here = Publishers()
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        assert sequenceOf(here.send("B", b"s.y")) == 1
        assert here.stream.isSettled
        assert sequenceOf(asking) is None
        assert here.open() == b"s.*.nope"
        assert sequenceOf(asking) == 2

    def test_same(self) -> None:
        """During a search, later messages of the same client wait, so that their order is kept."""
        here = Publishers()
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        behind = here.send("A", b"s.y")
        assert sequenceOf(here.send("B", b"s.z")) == 1
        here.open()
        assert (sequenceOf(asking), sequenceOf(behind)) == (2, 3)

    def test_counted(self) -> None:
        """
        During a search, a message that matches its pattern waits, and so do later messages of that
        client.
        """
        here = Publishers()
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        held, behind = here.send("B", b"s.1.nope"), here.send("B", b"s.y")
        here.open()
        assert [sequenceOf(inbox) for inbox in (asking, held, behind)] == [1, 2, 3]

    def test_turns(self) -> None:
        """
        Searches run one after the other. Messages that waited for the first are stored before the
        second.
        """
        here = Publishers()
        first = here.expect("A", b"s.x", 0, "s.*.nope")
        second = here.expect("B", b"s.x", 0, "s.*.nope")
        held = here.send("C", b"s.1.nope")
        here.open()
        assert (sequenceOf(first), sequenceOf(held)) == (1, 2)
        here.open()
        assert here.stage.errorOf(second.payloads[0]) == (10071, "wrong last sequence: 2")

    def test_lookUpsWait(self) -> None:
        """Of one client, only one message at a time is searched for."""
        here = Publishers()
        here.expect("A", b"s.x", 0, "s.*.a")
        here.expect("A", b"s.x", 0, "s.*.b")
        assert [pattern for _, pattern in here.gate.asked] == [b"s.*.a"]
        here.open()
        assert here.open() == b"s.*.b"
        assert here.stream.messages == 2

    def test_atomicBatch(self) -> None:
        """
        The commit of an atomic batch waits during a search whose pattern matches one of its
        messages.
        """
        here = Publishers(allow_atomic=True)
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1"}
        here.send("B", b"s.1.nope", **batch)
        batch["Nats_Batch_Sequence"] = "2"
        commit = here.send("B", b"s.y", **batch, Nats_Batch_Commit="1")
        assert commit.got == []
        here.open()
        assert (sequenceOf(asking), sequenceOf(commit)) == (1, 3)

    def test_askingBatch(self) -> None:
        """During the searches of an atomic batch, messages that match any of its patterns wait."""
        here = Publishers(allow_atomic=True)
        batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", LAST: "0", OF: "s.*.a"}
        here.send("A", b"s.x", **batch)
        batch |= {"Nats_Batch_Sequence": "2", OF: "s.*.b"}
        commit = here.send("A", b"s.y", **batch, Nats_Batch_Commit="1")
        assert here.open() == b"s.*.a"
        held = here.send("B", b"s.1.a")
        assert held.got == []
        assert here.open() == b"s.*.b"
        assert (sequenceOf(commit), sequenceOf(held)) == (2, 3)

    def test_fastBatch(self) -> None:
        """A message of a fast batch that matches the pattern of a search waits."""
        here = Publishers(allow_batched=True)
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        inbox = here.stage.inbox(b"F.>")
        reply = b"F.b.10.ok.1.2.$FI"
        here.stage.bus.publish(Message(b"s.1.nope", b"", reply, origin="B"))
        here.stage.settle()
        assert (inbox.got, here.stream.messages) == ([], 0)
        here.open()
        assert sequenceOf(asking) == 1
        assert json.loads(inbox.payloads[-1])["seq"] == 2

    def test_transform(self) -> None:
        """A message whose transformed subject matches the pattern of a search waits."""
        transform = SubjectTransformConfig("s.in.*", "s.{{wildcard(1)}}.nope")
        here = Publishers(subject_transform=transform)
        asking = here.expect("A", b"s.x", 0, "s.*.nope")
        held, other = here.send("B", b"s.in.1"), here.send("C", b"s.y")
        assert (sequenceOf(held), sequenceOf(other)) == (None, 1)
        here.open()
        assert (sequenceOf(asking), sequenceOf(held)) == (2, 3)

    def test_tooMany(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A limited number of messages wait. Others are refused with nats-server's text for an
        overloaded server.
        """
        monkeypatch.setattr(lookups, "MOST_WAITING", 2)
        here = Publishers()
        asking, held = here.expect("A", b"s.x", 0, "s.*.nope"), here.send("A", b"s.y")
        refused = here.send("A", b"s.z")
        assert here.stage.errorOf(refused.payloads[0]) == (10167, "too many requests")
        assert sequenceOf(here.send("B", b"s.z")) == 1
        here.open()
        assert (sequenceOf(asking), sequenceOf(held)) == (2, 3)


def test_removedMeanwhile() -> None:
    """A message that is removed during a search does not count as the last one."""
    here = Publishers()
    for subject in (b"s.1.a", b"s.2.a"):
        here.send("B", subject)
    asking = here.expect("A", b"s.x", 1, "s.*.a")
    here.stage.wait(here.stream.remove([2]))
    here.open()
    here.open()
    assert sequenceOf(asking) == 3


PATTERNS = ("s.*.a", "s.1.*", "s.2.b", "s.>", "s.*.none")
SUBJECTS = tuple(b"s.%d.%c" % (area, kind) for area in (1, 2) for kind in b"ab")


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from("ABC"),
                st.sampled_from(SUBJECTS),
                st.sampled_from(("", *PATTERNS)),
                st.integers(0, 3),
            ),
            st.just(None),
        ),
        max_size=40,
    )
)
def test_model(steps: list[tuple[str, bytes, str, int] | None]) -> None:
    """
    A message is stored only if its expectation is true, in the order of its client. A refusal names
    a last sequence between publishing and answer.
    """
    here = Publishers()
    stored: list[bytes] = []
    waiting: list[tuple[str, bytes, str, int, int, Inbox]] = []
    sequences: dict[str, list[int]] = {letter: [] for letter in "ABC"}

    def lasts(pattern: str, since: int) -> Iterator[int]:
        for count in range(since, len(stored) + 1):
            known = enumerate(stored[:count], 1)
            yield max(
                (at for at, subject in known if matches(pattern.encode(), subject)), default=0
            )

    def look() -> None:
        matching = here.stage.wait(here.stream.read((), 1, 1000))
        stored[:] = [record.subject for record in matching.records]
        for pending in list(waiting):
            publisher, subject, pattern, last, since, inbox = pending
            if not inbox.got:
                continue
            waiting.remove(pending)
            answer = json.loads(inbox.got[0].payload)
            if "error" in answer:
                named = int(answer["error"]["description"].rpartition(" ")[2])
                assert named != last
                assert named in list(lasts(pattern, since))
                continue
            sequences[publisher].append(answer["seq"])
            assert stored[answer["seq"] - 1] == subject
            if pattern:
                before = list(lasts(pattern, 0))
                assert before[answer["seq"] - 1] == last

    for step in steps:
        if step is None:
            if here.gate.asked:
                here.open()
        else:
            publisher, subject, pattern, back = step
            last = max(next(lasts(pattern, len(stored))) - back, 0) if pattern else 0
            since = len(stored)
            if pattern:
                inbox = here.expect(publisher, subject, last, pattern)
            else:
                inbox = here.send(publisher, subject)
            waiting.append((*step[:3], last, since, inbox))
        look()
    while here.gate.asked:
        here.open()
        look()
    assert waiting == []
    assert all(run == sorted(run) for run in sequences.values())


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later messages of the broker wait for one that needs a search. All barriers wait for both."""
    stage = Stage()
    stream = stage.stream()
    stage.publish(b"s.a")
    subjects = stream.log.subjects(b"s.a")
    gate: Deferred[None] = Deferred()
    inbox = stage.inbox(b"_INBOX.all")
    passed: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: gate.addCallback(lambda _: subjects))
        block = Headers({"Nats-Expected-Last-Subject-Sequence": "1"}).block()
        stage.bus.publish(Message(b"s.a", block + b"1", b"_INBOX.all", len(block)))
        stage.bus.publish(Message(b"s.b", b"2", b"_INBOX.all"))
        stage.settle()
        for _ in range(3):
            stream.publisher.barrier().addCallback(lambda _: passed.append(stream.messages))
        assert (inbox.got, passed) == ([], [])
        gate.callback(None)
        stage.settle()
    assert [json.loads(payload)["seq"] for payload in inbox.payloads] == [2, 3]
    assert passed == [3, 3, 3]
    assert [record[2] for record in stage.stored(stream)] == [b"", b"1", b"2"]


def test_storeFails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose search fails is refused, and the next one is stored."""
    stage = Stage()
    stream = stage.stream()
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: fail(StoreFailed("broken")))
        answer = stage.publish(b"s.a", Nats_Expected_Last_Subject_Sequence="0")
    assert stage.errorOf(answer) == (10077, "broken")
    assert json.loads(stage.publish(b"s.a"))["seq"] == 1


def test_fails(monkeypatch: pytest.MonkeyPatch, flushLoggedErrors: Any) -> None:
    """A search that fails by an error in the broker does not block later messages."""
    here = Publishers()
    here.expect("A", b"s.x", 0, "s.*.a")
    behind, held = here.send("A", b"s.y"), here.send("B", b"s.1.a")
    here.expect("C", b"s.x", 0, "s.*.b")
    here.gate.asked.pop()[0].errback(ZeroDivisionError("broken"))
    here.stage.settle()
    assert (sequenceOf(behind), sequenceOf(held)) == (1, 2)
    here.expect("D", b"s.x", 0, "s.*.c")
    assert (here.open(), here.open()) == (b"s.*.b", b"s.*.c")
    assert here.stream.messages == 4
    assert len(flushLoggedErrors(ZeroDivisionError)) == 1


def test_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed stream stores none of the waiting messages."""
    stage = Stage()
    stream = stage.stream()
    gate: Deferred[None] = Deferred()
    with monkeypatch.context() as patch:
        patch.setattr(stream.log, "subjects", lambda *_: gate.addCallback(lambda _: {}))
        stage.send(b"s.a", b"1", Nats_Expected_Last_Subject_Sequence="0")
        stage.settle()
        stream.close()
        gate.callback(None)
        stage.settle()
    assert stream.messages == 0
