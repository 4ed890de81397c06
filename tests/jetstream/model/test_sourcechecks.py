"""
The checks of mirrors and sources that need other streams. The answers of nats-server to many more
requests are in L{tests.jetstream.model.test_streamupdates}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.names import (
    isLiteralSubject,
    isSubsetSubject,
    isValidSubjectText,
    subjectsOverlap,
)
from natsbroker.jetstream.model.sourcechecks import (
    checkCycles,
    checkFilters,
    checkMirror,
    checkPrefixes,
    checkSources,
    checkTransform,
    mappingText,
    sourceKey,
)
from natsbroker.jetstream.model.streamconfig import (
    ConsumerSource,
    External,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.steps import Steps, finish
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.wire.timestamps import Timestamp

_STREAMS = {
    "A": StreamConfig(name="A", subjects=("a",), sources=(StreamSource("B"),)),
    "B": StreamConfig(name="B", mirror=StreamSource("C")),
}


def _passing(sources: Sequence[StreamSource]) -> list[StreamSource]:
    passing: list[StreamSource] = []
    finish(checkSources(sources, passing.append))
    return passing


def test_cycleOverAnotherStream() -> None:
    """A stream whose source is, over other streams, a copy of itself is refused as a cycle."""
    config = StreamConfig(name="C", sources=(StreamSource("A"),))
    with pytest.raises(JetStreamError, match="detected cycle"):
        finish(checkCycles(config, _STREAMS.get))


@pytest.mark.parametrize(
    "source",
    [StreamSource("S", filter_subject="b"), StreamSource("S", external=External("$JS.x.API"))],
)
def test_noCycle(source: StreamSource) -> None:
    """
    A source with the stream's own name is no cycle if its subjects differ or it is in another
    domain.
    """
    config = StreamConfig(name="S", subjects=("a",), sources=(source,))
    finish(checkCycles(config, _STREAMS.get))
    assert config.sources == (source,)


def test_namedConsumer() -> None:
    """
    A mirror or source may name a consumer to read through. Two sources may not name the same
    consumer.
    """
    source = StreamSource("A", consumer=ConsumerSource("C", "deliver"))
    finish(checkMirror(StreamConfig(name="S", mirror=source), source))
    other = replace(source, consumer=ConsumerSource("D", "deliver"))
    assert _passing([source, other, StreamSource("A")])[1] == other
    with pytest.raises(JetStreamError, match="duplicate source"):
        _passing([source, replace(source, consumer=ConsumerSource("C", "other"))])


@pytest.mark.parametrize(
    "source",
    [
        StreamSource("A", consumer=ConsumerSource("", "deliver")),
        StreamSource("A", consumer=ConsumerSource("C.x", "deliver")),
        StreamSource("A", consumer=ConsumerSource("C", "")),
        StreamSource("A", consumer=ConsumerSource("C", "deliver.*")),
        StreamSource("A", consumer=ConsumerSource("C", "deliver"), opt_start_seq=2),
        StreamSource("A", consumer=ConsumerSource("C", "deliver"), filter_subject="a"),
        StreamSource("A", consumer=ConsumerSource("C", "deliver"), opt_start_time=Timestamp(1)),
    ],
)
def test_wrongConsumer(source: StreamSource) -> None:
    """
    A mirror or source that names a consumer needs its deliver subject, and may have no start or
    filter.
    """
    with pytest.raises(JetStreamError, match="mirror consumer config is invalid"):
        finish(checkMirror(StreamConfig(name="S", mirror=source), source))
    with pytest.raises(JetStreamError, match="source consumer config is invalid"):
        _passing([source])


def test_sourceKey() -> None:
    """
    Sources of one stream differ by prefix, filter and transforms. An empty filter equals
    C{>}.
    """
    assert sourceKey(StreamSource("A")) == sourceKey(StreamSource("A", filter_subject=">"))
    assert sourceKey(StreamSource("A")) != sourceKey(StreamSource("A", external=External("x")))
    one = StreamSource("A", subject_transforms=(SubjectTransformConfig("a", ""),))
    other = StreamSource("A", subject_transforms=(SubjectTransformConfig("a", ">"),))
    assert sourceKey(one) == sourceKey(other)


@pytest.mark.parametrize(
    "other",
    [StreamSource("A", external=External()), StreamSource("A", consumer=ConsumerSource())],
    ids=["external", "consumer"],
)
def test_sourceKeyOfEmptyBlock(other: StreamSource) -> None:
    """A source with an empty C{external} or C{consumer} is not a duplicate of the plain source."""
    assert sourceKey(other) != sourceKey(StreamSource("A"))


def test_emptyConsumerBesidePlain() -> None:
    """A source with an empty C{consumer} is refused as invalid, not as a duplicate."""
    sources = [StreamSource("A"), StreamSource("A", consumer=ConsumerSource())]
    with pytest.raises(JetStreamError, match="source consumer config is invalid"):
        _passing(sources)


def test_checkSources() -> None:
    """Sources are reported as valid up to the first invalid one."""
    passing: list[StreamSource] = []
    with pytest.raises(JetStreamError) as caught:
        finish(checkSources([StreamSource("A"), StreamSource()], passing.append))
    assert caught.value.err_code == 10141
    assert passing == [StreamSource("A")]


def test_prefixOverSubjects() -> None:
    """A delivery prefix that overlaps with a stream's subject is refused."""
    source = StreamSource("X", external=External("", "a"))
    with pytest.raises(JetStreamError) as caught:
        finish(checkPrefixes([source], ["a.>"]))
    assert caught.value.description == (
        "stream external delivery prefix a overlaps with stream subject a.>"
    )


def test_filters() -> None:
    """
    The errors about the filters of mirrors and of sources have different texts, as in nats-server.
    """
    with pytest.raises(JetStreamError) as caught:
        checkFilters(StreamConfig(mirror=StreamSource("M", filter_subject="a.")))
    assert caught.value.description == "subject filter 'a.' for the mirror invalid subject"
    with pytest.raises(JetStreamError) as caught:
        checkFilters(StreamConfig(sources=(StreamSource("M", filter_subject="a."),)))
    assert caught.value.description == "subject filter 'a.' for the source: invalid subject"
    assert (caught.value.code, caught.value.err_code) == (500, 10049)


def test_noDestination() -> None:
    """A transform without destination changes nothing, for any source."""
    checkTransform("a..b", "")
    with pytest.raises(InvalidMapping) as caught:
        checkTransform("a.*", "b.*")
    assert mappingText(caught.value) == "invalid subject"


#: Filters and subjects as requests have them: some are empty, or no subjects.
_SUBJECTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "*", ">", ""]), min_size=1, max_size=4).map(".".join),
    max_size=6,
)


def _refusal(steps: Steps[Any]) -> tuple[int, str] | None:
    try:
        finish(steps)
    except JetStreamError as error:
        return error.err_code, error.description
    return None


def _collide(one: str, other: str) -> bool:
    if one and other:
        return subjectsOverlap(one, other)
    return one == other or ">" in (one, other)


def _others(filters: list[str], place: int) -> list[str]:
    return [*filters[:place], *filters[place + 1 :]]


@given(_SUBJECTS)
def test_mirrorTransforms(filters: list[str]) -> None:
    """The error about a mirror's transforms is the one that nats-server finds first."""
    expected = None
    for place, pattern in enumerate(filters):
        if pattern and not isValidSubjectText(pattern):
            expected = errors.MIRROR_INVALID_SUBJECT_FILTER.err_code
        elif any(_collide(pattern, other) for other in _others(filters, place)):
            expected = errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS.err_code
        if expected:
            break
    transforms = tuple(SubjectTransformConfig(pattern, "") for pattern in filters)
    mirror = StreamSource("A", subject_transforms=transforms)
    refusal = _refusal(checkMirror(StreamConfig(name="S", mirror=mirror), mirror))
    assert (refusal and refusal[0]) == expected


@given(_SUBJECTS)
def test_sourceTransforms(filters: list[str]) -> None:
    """The error about a source's transforms is the one that nats-server finds first."""
    expected = None
    if any(pattern and not isValidSubjectText(pattern) for pattern in filters):
        expected = errors.SOURCE_INVALID_SUBJECT_FILTER.err_code
    elif any(
        isSubsetSubject(pattern, other) if pattern and other else other == ">"
        for place, pattern in enumerate(filters)
        for other in _others(filters, place)
    ):
        expected = errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS.err_code
    transforms = tuple(SubjectTransformConfig(pattern, "") for pattern in filters)
    source = StreamSource("A", subject_transforms=transforms)
    refusal = _refusal(checkSources([source], lambda source: None))
    assert (refusal and refusal[0]) == expected


@given(_SUBJECTS, _SUBJECTS)
def test_prefixes(prefixes: list[str], subjects: list[str]) -> None:
    """The error about delivery prefixes is the one that nats-server finds first."""
    subjects = list(filter(isValidSubjectText, subjects))
    expected = None
    for prefix in filter(None, prefixes):
        if not isValidSubjectText(prefix) or not isLiteralSubject(prefix):
            expected = errors.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ(prefix=prefix)
        for subject in [] if expected else subjects:
            if subjectsOverlap(subject, f"{prefix}.{subject}"):
                expected = errors.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS(
                    prefix=prefix, subject=subject
                )
                break
        if expected:
            break
    sources = [StreamSource("A", external=External("x", apiPrefix)) for apiPrefix in prefixes]
    refusal = _refusal(checkPrefixes(sources, subjects))
    assert refusal == (expected and (expected.err_code, expected.description))


def _hasCycle(config: StreamConfig, streams: dict[str, StreamConfig]) -> bool:
    waiting, visited = [config], set()
    while waiting:
        stream = waiting.pop(0)
        visited.add(stream.name)
        for source in stream.sources:
            if source.name in visited:
                wanted = source.filter_subject
                if not wanted or any(_collide(subject, wanted) for subject in stream.subjects):
                    return True
            elif source.name in streams:
                waiting.append(streams[source.name])
    return False


_SOURCES = st.lists(
    st.builds(
        StreamSource,
        st.sampled_from("ABCS"),
        filter_subject=st.sampled_from(["", "a", "*", ">", "b.a", "x"]),
    ),
    max_size=3,
).map(tuple)
_STREAM = st.builds(StreamConfig, name=st.just(""), subjects=_SUBJECTS.map(tuple), sources=_SOURCES)


@given(st.lists(_STREAM, min_size=4, max_size=4))
def test_cycles(configs: list[StreamConfig]) -> None:
    """The search for cycles has the result of nats-server's, which follows every path."""
    streams = {
        name: replace(stream, name=name) for name, stream in zip("SABC", configs, strict=True)
    }
    config = streams.pop("S")
    assert bool(_refusal(checkCycles(config, streams.get))) == _hasCycle(config, streams)


def test_manyWays() -> None:
    """
    The search for cycles reads each stream a limited number of times, however many paths there are.
    """
    names = [f"L{number}" for number in range(40)]
    asked = Counter[str]()
    streams = {
        name: StreamConfig(
            name=name,
            subjects=(name,),
            sources=tuple(StreamSource(origin, filter_subject=subject) for subject in "abcdefgh"),
        )
        for name, origin in pairwise(names)
    }

    def find(name: str) -> StreamConfig | None:
        asked[name] += 1
        return streams.get(name)

    finish(checkCycles(streams["L0"], find))
    assert asked["L39"] > 0
    assert asked.total() < 100_000
