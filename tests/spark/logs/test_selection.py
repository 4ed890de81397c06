"""
Streams or channels.
"""

from __future__ import annotations

import pytest

from natsbroker.spark.errors import ApiError, OptionError
from natsbroker.spark.logs.apis import ChannelApi, StreamApi
from natsbroker.spark.logs.planning import (
    checkedNames,
    hasPatterns,
    isMissing,
    isPattern,
    logsOf,
    selects,
)
from natsbroker.spark.settings import readOptions
from tests.spark.support import BrokerStation, Station


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"stream": "A, B"}, ("A", "B")),
        ({"channel": "a.*, b"}, ("a.*", "b")),
    ],
)
def test_names(given: dict[str, str], expected: tuple[str, ...]) -> None:
    """Options name streams, or channels and patterns of channels."""
    assert checkedNames(readOptions({"servers": "h", **given})) == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "name at least one stream or channel"),
        ({"stream": " , "}, "name at least one stream or channel"),
        ({"stream": "S", "channel": "c"}, "stream and channel exclude each other"),
        ({"channel": "c", "subject": "x"}, "subject and channel exclude each other"),
        ({"stream": "S", "streamPattern": "S"}, "streamPattern excludes stream and channel"),
        ({"channel": "c", "streamPattern": "S"}, "streamPattern excludes stream and channel"),
        ({"streamPattern": "("}, "streamPattern: regular expression expected"),
        ({"stream": "a.b"}, "no stream can be called 'a.b'"),
        ({"channel": "a/b"}, "no channel can be called 'a/b'"),
    ],
)
def test_invalidNames(given: dict[str, str], text: str) -> None:
    """A selection with no log, with an invalid name, or with streams and channels is refused."""
    with pytest.raises(OptionError, match=text):
        checkedNames(readOptions({"servers": "h", **given}))


def test_patterns() -> None:
    """A name with a wildcard is a pattern."""
    assert [isPattern(subject) for subject in ("a.*", ">", "a.b")] == [True, True, False]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"streamPattern": "A-.*"}, (True, True, False)),
        ({"channel": "A-1, B.*"}, (True, True, False)),
        ({"stream": "A-2"}, (False, False, False)),
    ],
)
def test_selects(given: dict[str, str], expected: tuple[bool, ...]) -> None:
    """A pattern must match the whole name."""
    options = readOptions({"servers": "h", **given})
    assert (hasPatterns(options), selects(options, "A-1"), selects(options, "XA-1")) == expected


def test_logsOf(station: Station, broker: BrokerStation) -> None:
    """A stream is requested by name, and the error for a missing one is recognized."""
    streams = logsOf(station.connection, readOptions({"servers": "h", "stream": "NONE"}))
    channels = logsOf(broker.connection, readOptions({"servers": "h", "channel": "none"}))
    assert (type(streams), type(channels)) == (StreamApi, ChannelApi)
    for logs, name in ((streams, "NONE"), (channels, "none")):
        with pytest.raises(ApiError) as caught:
            logs.state(name)
        assert isMissing(caught.value)
    assert not isMissing(ApiError("other", 503))
    assert streams.names(["A", "B"]) == ("A", "B")
