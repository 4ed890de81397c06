"""
The bodies of API requests.
"""

from __future__ import annotations

import pytest

from natsbroker.jetstream.model.bodies import ConsumerAction, ConsumerRequest, SnapshotRequest


@pytest.mark.parametrize(
    ("size", "chunk", "window"),
    [
        (0, 131_072, 8_388_608),
        (1, 1024, 1024),
        (-1, 1024, 1024),
        (5000, 5000, 5000),
        (1 << 30, 1_048_576, 33_554_432),
    ],
)
def test_snapshotSizes(size: int, chunk: int, window: int) -> None:
    """Sizes beyond the bounds become the bounds. A missing size means the default."""
    request = SnapshotRequest("d", chunk_size=size, window_size=size)
    assert (request.chunk(), request.window()) == (chunk, window)


def test_action() -> None:
    """A request to create a consumer without an action may also update one."""
    assert ConsumerRequest().action is ConsumerAction.EITHER
    assert ConsumerAction("") is ConsumerAction.EITHER
