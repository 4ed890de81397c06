"""
What several API handlers need.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.api.answering import findConsumer, findStream, shownState
from natsbroker.jetstream.model.errors import JetStreamError
from tests.jetstream.api.support import ApiStage


def test_missing() -> None:
    """A stream or consumer that does not exist is an error."""
    stage = ApiStage()
    stage.make()
    with pytest.raises(JetStreamError, match="stream not found"):
        findStream(stage.jetstream, "X")
    with pytest.raises(JetStreamError, match="consumer not found"):
        findConsumer(stage.jetstream, "S", "X")


def test_state() -> None:
    """The state has what was published before."""
    stage = ApiStage()
    stage.make()
    stage.send(b"s.a", b"1")
    stage.settle()
    state = stage.wait(shownState(stage.jetstream.streams["S"]))
    assert (state["messages"], state["first_seq"], state["num_subjects"]) == (1, 1, 1)
    assert state["first_ts"] == state["last_ts"] == "2023-11-14T22:13:20Z"
