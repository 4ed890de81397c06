"""The compiled step in front of publishing. Its results are those of the readable path."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from natsbroker.jetstream.streams.publishanswers import StreamBatch
from natsbroker.wire.values import Run
from tests.jetstream.streams.publishhistories import RESTRICTING, TURNS, history
from tests.jetstream.support import Stage
from tests.support import COMPILED, PURE, needsCompiled, using


@needsCompiled
@given(st.sampled_from([{}, *RESTRICTING.values()]), TURNS)
def test_same(config: dict[str, Any], turns: list[Any]) -> None:
    """Publishing has the same results with and without the compiled step."""
    assert COMPILED is not None
    with using(PURE):
        expected = history(config, turns)
    with using(COMPILED):
        assert history(config, turns) == expected


@needsCompiled
def test_taken() -> None:
    """
    The compiled step takes messages with ids and expectations, and stops before one with a rollup.
    """
    assert COMPILED is not None
    with using(COMPILED):
        stage = Stage()
        publisher = stage.stream().publisher
        block = b"NATS/1.0\r\nNats-Msg-Id: %d\r\nNats-Expected-Last-Sequence: %d\r\n\r\n"
        bodies = [block % (number, number) + b"x" for number in range(3)]
        rollup = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
        runs = [
            (Run(b"s.a", b"r", bodies, len(bodies[0]) - 1), None),
            (Run(b"s.a", b"r", [b"1", b"2"]), None),
            (Run(b"s.b", b"", [rollup + b"3"], len(rollup)), None),
        ]
        run, place, batch = publisher.steps.take(runs, 0, 0, None)
        assert (run, place) == (2, 0)
        assert isinstance(batch, StreamBatch)
        assert [entry[2] for entry in batch.entries] == [b"x", b"x", b"x", b"1", b"2"]
        assert batch.answers == [(b"r", None, 0, b"", 5)]
        assert publisher.steps.take(runs, 2, 0, None) == (2, 0, None)


def test_pure() -> None:
    """Without the compiled lane, no messages are taken."""
    with using(PURE):
        publisher = Stage().stream().publisher
        runs = [(Run(b"s.a", b"r", [b"1"]), None)]
        assert publisher.steps.take(runs, 0, 0, None) == (0, 0, None)
