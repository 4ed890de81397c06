"""
The rules of a stream's configuration that need no other request. The answers of nats-server to many
more are in L{tests.jetstream.model.test_streamupdates}.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.limits import ConfiguredLimits, JetStreamLimits
from natsbroker.jetstream.model.names import isValidSubjectText, subjectsOverlap
from natsbroker.jetstream.model.streamchecks import StreamChecker, checkCreateRequest
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.steps import finish
from tests.counting import callsOf

_SECOND = 1_000_000_000


def test_completeTwice() -> None:
    """Completing a complete configuration changes nothing."""
    checker = StreamChecker({})
    once = finish(
        checker.complete(StreamConfig(name="S", allow_msg_schedules=True, deny_purge=True))
    )
    assert finish(checker.complete(once, pedantic=True)) == once
    assert once.allow_rollup_hdrs
    assert not once.deny_purge


def test_duplicateWindow() -> None:
    """The server's duplicate window is the default, and the maximum."""
    checker = StreamChecker({}, server=ConfiguredLimits(duplicate_window=60 * _SECOND))
    assert finish(checker.complete(StreamConfig(name="S"))).duplicate_window == 60 * _SECOND
    with pytest.raises(JetStreamError, match="can not be larger then server limit of 1m0s"):
        finish(checker.complete(StreamConfig(name="S", duplicate_window=61 * _SECOND)))
    with pytest.raises(JetStreamError, match="limits are higher than current limits"):
        finish(checker.complete(StreamConfig(name="S"), pedantic=True))


def test_maxBytes() -> None:
    """An account may require max_bytes, and limit it for memory and files."""
    limits = JetStreamLimits(
        memory_max_stream_bytes=10, storage_max_stream_bytes=20, max_bytes_required=True
    )
    checker = StreamChecker({}, limits)
    with pytest.raises(JetStreamError, match="account requires a stream config to have max bytes"):
        finish(checker.complete(StreamConfig(name="S")))
    assert finish(checker.complete(StreamConfig(name="S", max_bytes=20))).max_bytes == 20
    with pytest.raises(JetStreamError, match="exceeds account limit max stream bytes"):
        finish(checker.complete(StreamConfig(name="S", max_bytes=11, storage=StorageType.MEMORY)))


def test_emptyPlacement() -> None:
    """An empty placement is left out of the configuration."""
    config = finish(StreamChecker({}).complete(StreamConfig(name="S", placement=Placement())))
    assert config.placement is None


@pytest.mark.parametrize(
    ("subjects", "text"),
    [
        (("a.>", "a..b"), 'subject "a.>" overlaps with "a..b"'),
        (("a.*", "a."), "invalid subject"),
        ((">", "x."), 'subject ">" overlaps with "x."'),
        (("a.*.b", "a..b"), "invalid subject"),
        (("a.b.>", "a..c.d"), "invalid subject"),
        (("a.b", "a.>.b"), 'subject "a.b" overlaps with "a.>.b"'),
        (("a.*", "a.>.b"), "invalid subject"),
        (("a.>", "a.>.b"), 'subject "a.>" overlaps with "a.>.b"'),
        (("a.*.c", "a.>.b"), "invalid subject"),
        (("a.*.b", "a.>.b"), 'subject "a.*.b" overlaps with "a.>.b"'),
        (("*", "a b"), 'subject "*" overlaps with "a b"'),
        (("a", "*..b"), "invalid subject"),
        (("*.c.>", "*..b"), "invalid subject"),
    ],
)
def test_unfinishedSubjects(subjects: tuple[str, ...], text: str) -> None:
    """Overlapping subjects are reported before a later invalid subject, as in nats-server."""
    with pytest.raises(JetStreamError) as caught:
        finish(StreamChecker({}).complete(StreamConfig(name="S", subjects=subjects, no_ack=True)))
    assert caught.value.description == text


def test_pathSeparators() -> None:
    """A stream name with a path separator has an error of its own."""
    with pytest.raises(JetStreamError, match="Stream name can not contain path separators"):
        checkCreateRequest(StreamConfig(name="a/b"), "a/b")


_TOKENS = st.sampled_from(["a", "b", "*", ">", "", "$JS"])
_SUBJECTS = st.lists(st.lists(_TOKENS, min_size=1, max_size=4).map(".".join), max_size=6)


def _answer(config: StreamConfig) -> str:
    try:
        finish(StreamChecker({}).complete(config))
    except JetStreamError as error:
        return error.description
    return ""


def _quadratic(subjects: list[str]) -> str:
    """The error that nats-server gives, which compares each subject with all later ones."""
    for place, subject in enumerate(subjects):
        alone = _answer(StreamConfig(name="S", subjects=(subject,)))
        if alone:
            return alone
        for other in subjects[place + 1 :]:
            if _overlap(other, subject):
                shown = f'subject "{subject}" overlaps with "{other}"'
                return _answer(StreamConfig(name="S", max_age=-1)).replace(
                    "max age can not be negative", shown
                )
    return ""


def _overlap(one: str, other: str) -> bool:
    if isValidSubjectText(one):
        return subjectsOverlap(one, other)
    tokens, others = one.split("."), other.split(".")
    if not {"*", ">"} & set(tokens):
        return _isInside(tokens, others)
    if not {"*", ">"} & set(others):
        return _isInside(others, tokens)
    shorter = min(tokens, others, key=len)
    if len(tokens) != len(others) and ">" not in shorter:
        return False
    pairs = zip(tokens, others, strict=False)
    return all(ours and (ours == theirs or {"*", ">"} & {ours, theirs}) for ours, theirs in pairs)


def _isInside(narrow: list[str], wide: list[str]) -> bool:
    for place, wanted in enumerate(wide):
        if place >= len(narrow) or not wanted:
            return False
        if wanted == ">":
            return True
        if not narrow[place] or wanted not in ("*", narrow[place]):
            return False
    return len(narrow) == len(wide)


@given(_SUBJECTS.filter(bool))
def test_subjects(subjects: list[str]) -> None:
    """The error about subjects is the one that nats-server finds first."""
    assert _answer(StreamConfig(name="S", subjects=tuple(subjects))) == _quadratic(subjects)


def test_manyOddSubjects() -> None:
    """Among thousands of subjects, an invalid one is reported rather than an overlap with it."""
    subjects = [f"a.{number}" for number in range(2000)] + ["a.1.", "a.>.x"] * 1000
    assert "invalid subject" in _answer(StreamConfig(name="S", subjects=tuple(subjects)))
    twice = (*subjects[:2000], "a.7", *subjects[2000:])
    assert '"a.7" overlaps' in _answer(StreamConfig(name="S", subjects=twice))


@pytest.mark.parametrize("many", [1000])
def test_work(many: int) -> None:
    """Twice as many subjects take about twice the work."""

    def configured(count: int) -> StreamConfig:
        return StreamConfig(name="S", subjects=tuple(f"a.{number}" for number in range(count)))

    once, twice = (callsOf(partial(_answer, configured(count))) for count in (many, 2 * many))
    assert many < once < 50 * many
    assert twice < 2.4 * once
