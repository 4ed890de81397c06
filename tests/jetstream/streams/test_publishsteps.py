"""
The compiled step in front of publishing: nobody can tell that it is there.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model.streamconfig import DiscardPolicy, RetentionPolicy, StorageType
from natsbroker.jetstream.streams.publishanswers import StreamBatch
from natsbroker.wire.values import Message, Run
from tests.jetstream.support import SECOND, Stage
from tests.support import COMPILED, PURE, needsCompiled, using

#: Header lines: right and wrong expectations, what the step leaves, and blocks that are odd.
LINES = st.sampled_from(
    [
        b"Nats-Msg-Id: a\r\n",
        b"Nats-Msg-Id: b\r\n",
        b"Nats-Msg-Id:\t c \r\n",
        b"Nats-Msg-Id:\r\n",
        b"nats-msg-id: a\r\n",
        b"Nats-Expected-Stream: S\r\n",
        b"Nats-Expected-Stream: T\r\n",
        b"Nats-Expected-Last-Sequence: 0\r\n",
        b"Nats-Expected-Last-Sequence: 002\r\n",
        b"Nats-Expected-Last-Sequence: +1\r\n",
        b"Nats-Expected-Last-Sequence: 18446744073709551617\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 0\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 1\r\n",
        b"Nats-Expected-Last-Subject-Sequence: 2\r\n",
        b"Nats-Expected-Last-Subject-Sequence-Subject: s.*\r\n",
        b"Nats-Expected-Last-Msg-Id: a\r\n",
        b"Nats-Expected-Last-Msg-Id: b\r\n",
        b"Nats-Rollup: sub\r\n",
        b"Nats-TTL: 1m\r\n",
        b"Nats-Incr: +1\r\n",
        b"Nats-Batch-Id: x\r\n",
        b"Nats-No-Colon\r\n",
        b"A: b\r\n",
        b"A: \n\r Nats-Msg-Id: a\r\n",
        b"\r\n",
        b"A: without an end",
    ]
)

BLOCKS = st.one_of(
    st.just(b""),
    st.lists(LINES, max_size=3).map(lambda lines: b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"),
    st.lists(LINES, max_size=2).map(b"".join),
)

MESSAGES = st.tuples(
    st.sampled_from([b"s.a", b"s.b"]),
    st.sampled_from([b"", b"_INBOX.1", b"_INBOX.2"]),
    BLOCKS,
    st.sampled_from([b"", b"x", b"y" * 30]),
)

#: What several turns bring, with the seconds before each.
TURNS = st.lists(
    st.tuples(st.sampled_from([0, 1, 70]), st.lists(MESSAGES, min_size=1, max_size=6)), max_size=4
)

CONFIGS = st.sampled_from(
    [
        {},
        {"storage": StorageType.MEMORY},
        {"duplicate_window": 0},
        {"max_msg_size": 60},
        {"no_ack": True},
        {"sealed": True},
        {"allow_rollup_hdrs": True, "allow_msg_ttl": True},
        {"allow_msg_counter": True},
        {"allow_atomic": True},
        {"max_msgs_per_subject": 1},
        {"discard": DiscardPolicy.NEW, "max_msgs": 3},
        {"retention": RetentionPolicy.INTEREST},
    ]
)


def history(config: dict[str, Any], turns: list[Any]) -> tuple[Any, ...]:
    """The answers, the messages and what is remembered after publishing."""
    stage = Stage()
    stream = stage.stream(**config)
    inbox = stage.inbox(b"_INBOX.*")
    for seconds, messages in turns:
        stage.clock.advance(seconds)
        for subject, reply, block, payload in messages:
            stage.bus.publish(Message(subject, block + payload, reply, len(block)))
        stage.settle()
    found = stage.wait(stream.read((), 1))
    duplicates, subjects = stream.publisher.duplicates, stream.publisher.subjects
    now = stage.now() + 60 * SECOND
    remembered = [duplicates.find(each, stage.now()) for each in (b"a", b"b", b"c ")]
    later = [duplicates.find(each, now) for each in (b"a", b"b", b"c ")]
    answers = [(each.subject, each.payload) for each in inbox.got]
    return answers, found, remembered, later, duplicates.last, dict(subjects.known)


@needsCompiled
@given(CONFIGS, TURNS)
def test_same(config: dict[str, Any], turns: list[Any]) -> None:
    """A stream does the same with the step and without it."""
    assert COMPILED is not None
    with using(PURE):
        expected = history(config, turns)
    with using(COMPILED):
        assert history(config, turns) == expected


@needsCompiled
def test_taken() -> None:
    """The step takes runs with ids and expectations, and stops in front of what it leaves."""
    assert COMPILED is not None
    with using(COMPILED):
        stage = Stage()
        publisher = stage.stream().publisher
        block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\nNats-Expected-Last-Sequence: %d\r\n\r\n"
        bodies = [block % (each, each) + b"x" for each in range(3)]
        rollup = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
        runs = [
            (Run(b"s.a", b"r", bodies, len(bodies[0]) - 1), None),
            (Run(b"s.a", b"r", [b"1", b"2"]), None),
            (Run(b"s.b", b"", [rollup + b"3"], len(rollup)), None),
        ]
        run, place, batch = publisher.steps.take(runs, 0, 0, None)
        assert (run, place) == (2, 0)
        assert isinstance(batch, StreamBatch)
        assert [each[2] for each in batch.entries] == [b"x", b"x", b"x", b"1", b"2"]
        assert batch.answers == [(b"r", None, 0, b"", 5)]
        assert publisher.steps.take(runs, 2, 0, None) == (2, 0, None)


def test_pure() -> None:
    """Without the compiled lane nothing is taken."""
    with using(PURE):
        publisher = Stage().stream().publisher
        runs = [(Run(b"s.a", b"r", [b"1"]), None)]
        assert publisher.steps.take(runs, 0, 0, None) == (0, 0, None)
