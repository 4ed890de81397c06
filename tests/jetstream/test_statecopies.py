"""
Second copies of configurations.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.statecopies import CopiedStates
from tests.jetstream.api.support import ApiStage


class TestCopies:
    """Configurations are stored twice."""

    @pytest.mark.parametrize("key", [b"stream/1", b"consumer/1"])
    def test_damage(self, key: bytes) -> None:
        """A configuration is recovered if one of its two copies is lost."""
        stage = ApiStage()
        inner = stage.files.states("space")
        states = CopiedStates(inner)
        for lost in (key, b"copy/" + key):
            stage.wait(states.put(key, b"value"))
            stage.wait(inner.delete(lost))
            assert stage.wait(states.load()) == {key: b"value"}
            assert stage.wait(states.load(key[:3])) == {key: b"value"}

    def test_deletion(self) -> None:
        """A deletion leaves nothing."""
        stage = ApiStage()
        inner = stage.files.states("space")
        states = CopiedStates(inner)
        stage.wait(states.change({b"stream/1": b"a", b"stream/2": b"b"}))
        stage.wait(states.delete(b"stream/1"))
        stage.wait(states.change({b"stream/2": None}))
        assert stage.wait(inner.load()) == {}

    def test_positions(self) -> None:
        """Positions, which change all the time, are stored once."""
        stage = ApiStage()
        inner = stage.files.states("space")
        stage.wait(CopiedStates(inner).put(b"position/1", b"value"))
        assert stage.wait(inner.load()) == {b"position/1": b"value"}
