"""
The keys of a stream's configuration, and who heeds them when a message is published.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest

from natsbroker.jetstream.model.streamconfig import (
    DiscardPolicy,
    RetentionPolicy,
    StreamConfig,
    StreamSource,
)
from natsbroker.jetstream.streams import publish
from natsbroker.jetstream.streams.publishkeys import WAYS, Way, wayOf
from tests.jetstream.api.support import ApiStage
from tests.jetstream.streams.publishhistories import PROBE, RESTRICTING, history
from tests.jetstream.support import SECOND
from tests.support import COMPILED, PURE, needsCompiled, using

KEYS = [field.name for field in fields(StreamConfig)]

#: Keys that a mirror cannot have, or that would make it read another stream.
NOT_OF_MIRRORS = {"mirror", "sources", "subjects", "name", "first_seq"}


def placed(way: Way) -> list[str]:
    return [key for key, place in WAYS.items() if place is way]


def misplaced(monkeypatch: pytest.MonkeyPatch, key: str, way: Way) -> None:
    """Move a key to another row of the table."""
    monkeypatch.setitem(WAYS, key, way)


def mirrored(config: dict[str, Any]) -> Any:
    """The messages of a mirror with a configuration, after its origin was filled."""
    stage = ApiStage()
    stage.stream(allow_rollup_hdrs=True)
    mirror = stage.stream(name="M", subjects=(), mirror=StreamSource("S"), **config)
    for _, messages in PROBE:
        for subject, _, _, payload in messages:
            stage.send(subject, payload)
    stage.send(b"s.a", b"last", Nats_Rollup="sub")
    stage.clock.advance(1)
    stage.settle()
    return stage.wait(mirror.read((), 1))


@pytest.mark.parametrize("table", [WAYS, RESTRICTING])
def test_complete(table: dict[str, object]) -> None:
    """Each key of the configuration has a row in the tables, in the same order."""
    assert list(table) == KEYS


@pytest.mark.parametrize("key", KEYS)
def test_restricting(key: str) -> None:
    """Each configuration of these tests sets its key to a value that is not the default."""
    usual = StreamConfig(name="S", duplicate_window=120 * SECOND, max_msg_size=-1)
    assert RESTRICTING[key][key] != getattr(usual, key)


def test_unplaced() -> None:
    """A key that is missing in the table makes each message be checked as soon as it is used."""

    @dataclass(frozen=True)
    class Wider(StreamConfig):
        max_fields: int = 0

    assert wayOf(Wider(max_msg_size=-1)) is Way.ANY
    assert wayOf(Wider(max_msg_size=-1, max_fields=1)) is Way.CHECKED


@pytest.mark.parametrize(
    ("config", "way"),
    [
        ({}, Way.ANY),
        ({"max_msg_size": 0}, Way.STEP),
        ({"retention": RetentionPolicy.WORKQUEUE}, Way.ANY),
        ({"discard": DiscardPolicy.NEW, "max_msgs_per_subject": 1}, Way.ANY),
        ({"discard": DiscardPolicy.NEW, "max_msgs": 1}, Way.CHECKED),
        ({"max_msg_size": 5, "sealed": True}, Way.CHECKED),
    ],
)
def test_way(config: dict[str, Any], way: Way) -> None:
    """The key that demands most decides how messages are stored."""
    assert wayOf(StreamConfig(**{"max_msg_size": -1, **config})) is way


@needsCompiled
class TestStep:
    """The compiled step."""

    @pytest.mark.parametrize("key", KEYS)
    def test_heeded(self, key: str) -> None:
        """A key has the same effect with and without the compiled step."""
        assert COMPILED is not None
        with using(PURE):
            expected = history(RESTRICTING[key], PROBE)
        with using(COMPILED):
            assert history(RESTRICTING[key], PROBE) == expected

    @pytest.mark.parametrize("key", placed(Way.CHECKED))
    def test_misplaced(self, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        """A key that is wrongly marked as known to the compiled step is noticed."""
        assert COMPILED is not None
        with using(COMPILED):
            expected = history(RESTRICTING[key], PROBE)
            misplaced(monkeypatch, key, Way.STEP)
            assert history(RESTRICTING[key], PROBE) != expected


class TestCopies:
    """The copying of a mirror."""

    @pytest.mark.parametrize("key", [key for key in KEYS if key not in NOT_OF_MIRRORS])
    def test_heeded(self, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        """A mirror stores the same messages with and without checking each of them."""
        copied = mirrored(RESTRICTING[key])
        monkeypatch.setattr(publish, "wayOf", lambda config: Way.CHECKED)
        assert mirrored(RESTRICTING[key]) == copied

    @pytest.mark.parametrize("key", placed(Way.STEP))
    def test_misplaced(self, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        """A key that is wrongly marked as irrelevant for copying is noticed."""
        expected = mirrored(RESTRICTING[key])
        misplaced(monkeypatch, key, Way.ANY)
        assert mirrored(RESTRICTING[key]) != expected
