"""
The requests of mirrors and sources to their origins.
"""

from __future__ import annotations

from typing import Any

import pytest

from natsbroker.jetstream.model.sourceconsumers import (
    OriginDelivery,
    deliveryOf,
    filtersOfSource,
    mirrorHash,
    shortHash,
    sourceHash,
    sourceWords,
    sourcingConsumer,
)
from natsbroker.jetstream.model.streamconfig import (
    External,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.wire.timestamps import Timestamp


def test_filters() -> None:
    """The filters of a source with transforms are the subjects that the transforms match."""
    transforms = (SubjectTransformConfig("a", "b"), SubjectTransformConfig("c", ""))
    assert filtersOfSource(StreamSource("S", subject_transforms=transforms)) == ["a", "c"]
    assert filtersOfSource(StreamSource("S")) == []


class TestWords:
    """The words of the header."""

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            (StreamSource("S"), ("S", ">", ">")),
            (StreamSource("S", filter_subject="a"), ("S", "a", ">")),
            (
                StreamSource(
                    "S",
                    subject_transforms=(
                        SubjectTransformConfig("a", "b"),
                        SubjectTransformConfig("c", ""),
                    ),
                ),
                ("S", "a\fc", "b\f>"),
            ),
        ],
    )
    def test_words(self, source: StreamSource, words: tuple[str, str, str]) -> None:
        """The words of the header are those of nats-server."""
        assert sourceWords(source) == words

    def test_external(self) -> None:
        """In the header, the name of an external origin is followed by a hash of its API prefix."""
        source = StreamSource("S", external=External("$JS.hub.API"))
        name, mark = sourceWords(source)[0].split(":")
        assert (name, mark) == ("S", shortHash("$JS.hub.API"))
        assert len(mark) == 8


def _with(sources: list[StreamSource]) -> StreamConfig:
    return StreamConfig(sources=tuple(sources))


class TestNames:
    """The names of consumers, as nats-server makes them."""

    def test_mirror(self) -> None:
        """The consumer's name is a hash of stream, account and domain."""
        assert mirrorHash("TW", "$G", "") == shortHash("TW $G")
        assert mirrorHash("TW", "$G", "hub") == shortHash("TW $G hub")

    def test_source(self) -> None:
        """The consumer's name is the one that nats-server 2.15.1 gives."""
        source = StreamSource("W")
        assert sourceHash(mirrorHash("TW", "$G", ""), source, _with([source])) == "iEFuVuzB"

    def test_severalOfOneOrigin(self) -> None:
        """Several sources of one origin have consumers with different names."""
        sources = [StreamSource("W", filter_subject=pattern) for pattern in ("a", "b", "c")]
        names = {sourceHash("x", source, _with(sources)) for source in sources}
        assert len(names) == 3
        assert sourceHash("x", sources[0], _with(sources)) == shortHash("x")
        assert sourceHash("x", sources[1], _with(sources)) == shortHash("x W b >")


@pytest.mark.parametrize(
    ("source", "position", "expected"),
    [
        (StreamSource("S"), 0, {"deliver_policy": "all"}),
        (StreamSource("S"), 4, {"deliver_policy": "by_start_sequence", "opt_start_seq": 5}),
        (
            StreamSource("S", opt_start_seq=9),
            0,
            {"deliver_policy": "by_start_sequence", "opt_start_seq": 9},
        ),
        (
            StreamSource("S", opt_start_time=Timestamp(0), filter_subject="a"),
            0,
            {
                "deliver_policy": "by_start_time",
                "opt_start_time": "1970-01-01T00:00:00Z",
                "filter_subject": "a",
            },
        ),
    ],
)
def test_consumer(source: StreamSource, position: int, expected: dict[str, Any]) -> None:
    """
    A source's consumer begins after the last known message, or else where the configuration says.
    """
    config = sourcingConsumer(source, "N", "$JS.S.x", position, {})
    assert expected.items() <= config.items()
    assert config["name"] == "N"
    assert config["deliver_subject"] == "$JS.S.x"


class TestDelivery:
    """The reply subjects of deliveries."""

    @pytest.mark.parametrize(
        "reply",
        [b"$JS.ACK.S.C.1.7.3.99.5", b"$JS.ACK.d.h.S.C.1.7.3.99.5", b"$JS.ACK.d.h.S.C.1.7.3.99.5.t"],
    )
    def test_read(self, reply: bytes) -> None:
        """The reply subject of a delivery is parsed with and without a domain."""
        assert deliveryOf(reply, b"o") == OriginDelivery(7, 3, 99, 5, b"o")

    @pytest.mark.parametrize("reply", [b"", b"_INBOX.1", b"$JS.ACK.S.C.1.x.3.99.5"])
    def test_other(self, reply: bytes) -> None:
        """Other reply subjects are not parsed as deliveries."""
        assert deliveryOf(reply) is None
