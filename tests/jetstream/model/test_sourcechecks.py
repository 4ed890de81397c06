"""
The checks of mirrors and sources that need other streams. The answers of nats-server to many more
requests are in L{tests.jetstream.model.test_streamupdates}.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from natsbroker.jetstream.model.errors import JetStreamError
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
from natsbroker.jetstream.model.timestamps import Timestamp
from natsbroker.steps import finish
from natsbroker.subjects.functions import InvalidMapping

_STREAMS = {
    "A": StreamConfig(name="A", subjects=("a",), sources=(StreamSource("B"),)),
    "B": StreamConfig(name="B", mirror=StreamSource("C")),
}


def _passing(sources: list[StreamSource | None]) -> list[StreamSource]:
    passing: list[StreamSource] = []
    finish(checkSources(sources, passing.append))
    return passing


def test_cycleOverAnotherStream() -> None:
    """A stream that comes back to itself through a source's mirror is refused."""
    config = StreamConfig(name="C", sources=(StreamSource("A"),))
    with pytest.raises(JetStreamError, match="detected cycle"):
        finish(checkCycles(config, _STREAMS.get))


@pytest.mark.parametrize(
    "source",
    [StreamSource("S", filter_subject="b"), StreamSource("S", external=External("$JS.x.API"))],
)
def test_noCycle(source: StreamSource) -> None:
    """A source of the same name makes no cycle if it takes other subjects or is elsewhere."""
    config = StreamConfig(name="S", subjects=("a",), sources=(source,))
    finish(checkCycles(config, _STREAMS.get))
    assert config.sources == (source,)


def test_namedConsumer() -> None:
    """A mirror or source may name the consumer that it reads through, with its deliver subject."""
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
    """A name and a deliver subject are needed, and the consumer alone says what is read."""
    with pytest.raises(JetStreamError, match="mirror consumer config is invalid"):
        finish(checkMirror(StreamConfig(name="S", mirror=source), source))
    with pytest.raises(JetStreamError, match="source consumer config is invalid"):
        _passing([source])


def test_sourceKey() -> None:
    """Sources differ by name, prefix, filter and transforms, where empty means everything."""
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
    """An empty C{external} or C{consumer} makes another source, which is then checked itself."""
    assert sourceKey(other) != sourceKey(StreamSource("A"))


def test_emptyConsumerBesidePlain() -> None:
    """A source with an empty consumer is refused for that, not as the second of its name."""
    sources = [StreamSource("A"), StreamSource("A", consumer=ConsumerSource())]
    with pytest.raises(JetStreamError, match="source consumer config is invalid"):
        _passing(sources)


def test_checkSources() -> None:
    """The sources in front of a wrong one have passed."""
    passing: list[StreamSource] = []
    with pytest.raises(JetStreamError) as caught:
        finish(checkSources([StreamSource("A"), None], passing.append))
    assert caught.value.err_code == 10141
    assert passing == [StreamSource("A")]


def test_prefixOverSubjects() -> None:
    """A delivery prefix that leads into a stream of the account is refused."""
    source = StreamSource("X", external=External("", "a"))
    with pytest.raises(JetStreamError) as caught:
        finish(checkPrefixes([source], ["a.>"]))
    assert caught.value.description == (
        "stream external delivery prefix a overlaps with stream subject a.>"
    )


def test_filters() -> None:
    """The filter of a mirror and of a source are refused in different words."""
    with pytest.raises(JetStreamError) as caught:
        checkFilters(StreamConfig(mirror=StreamSource("M", filter_subject="a.")))
    assert caught.value.description == "subject filter 'a.' for the mirror invalid subject"
    with pytest.raises(JetStreamError) as caught:
        checkFilters(StreamConfig(sources=(StreamSource("M", filter_subject="a."),)))
    assert caught.value.description == "subject filter 'a.' for the source: invalid subject"
    assert (caught.value.code, caught.value.err_code) == (500, 10049)


def test_noDestination() -> None:
    """A transform without destination changes nothing, whatever its source is."""
    checkTransform("a..b", "")
    with pytest.raises(InvalidMapping) as caught:
        checkTransform("a.*", "b.*")
    assert mappingText(caught.value) == "invalid subject"
