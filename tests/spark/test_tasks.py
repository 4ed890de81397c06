"""
Tasks: how they connect, and what passes to workers.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from natsbroker.spark.errors import OptionError
from natsbroker.spark.reading import Span
from natsbroker.spark.settings import readOptions
from natsbroker.spark.tasks import SpanPartition, logLoss, peerOf, readSpan
from tests.spark.support import Station

OPTIONS = {"servers": "h", "stream": "S"}


def test_peer() -> None:
    """Options say how to connect; any option about TLS asks for it."""
    assert not peerOf(readOptions(OPTIONS)).tls.isWanted
    assert peerOf(readOptions({**OPTIONS, "tlsCa": "/ca"})).tls.isWanted
    assert peerOf(readOptions({**OPTIONS, "user": "a", "password": "b"})).identity.user == "a"
    with pytest.raises(OptionError, match="tlsKey needs tlsCert"):
        peerOf(readOptions({**OPTIONS, "tlsKey": "/k"}))


@pytest.mark.parametrize("other", ["token", "nkeySeedFile", "credentialsFile"])
def test_onePeerHasOneIdentity(other: str) -> None:
    """Two kinds of credentials exclude each other."""
    with pytest.raises(OptionError, match=f"user and {other} exclude each other"):
        peerOf(readOptions({**OPTIONS, "user": "a", other: "x"}))


def test_read(station: Station) -> None:
    """A task that went through a pickle gives its range as batches of the columns."""
    stream = station.stream()
    stream.fill([b"a", b"b", b"c"])
    options = readOptions({"servers": station.url, "stream": stream.name})
    created = station.streams.state(stream.name).created
    task = pickle.loads(pickle.dumps(SpanPartition(Span(stream.name, created, 2, 4), ())))
    peer = pickle.loads(pickle.dumps(peerOf(options)))
    batches = list(readSpan(peer, options, ("data", "seq"), task))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"data": b"b", "seq": 2}, {"data": b"c", "seq": 3}]
    task.span = replace(task.span, start=0, stop=0)
    assert list(readSpan(peer, options, ("data",), task)) == []


def test_closes(station: Station) -> None:
    """A task that is not read to its end leaves no connection."""
    stream = station.stream()
    stream.fill([b"x"] * 10)
    options = readOptions({"servers": station.url, "stream": stream.name, "batchRows": "2"})
    created = station.streams.state(stream.name).created
    peer = replace(peerOf(options), connectTimeout=5.0)
    reading = readSpan(
        peer, options, ("seq",), SpanPartition(Span(stream.name, created, 1, 11), ())
    )
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert list(reading) == []


def test_logLoss(caplog: pytest.LogCaptureFixture) -> None:
    """What is passed over stands in the log."""
    logLoss("sequences 1 to 4 are gone")
    assert caplog.messages == ["sequences 1 to 4 are gone"]
