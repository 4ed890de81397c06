"""
Faults of any kind of link, so that tests see whether they are found.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["double", "lose"]


def double(patch: pytest.MonkeyPatch, way: Any) -> None:
    """Forward each message twice."""
    forward = way.forward

    def doubled(self: Any, message: Any, queues: Any) -> None:
        forward(self, message, queues)
        forward(self, message, queues)

    patch.setattr(way, "forward", doubled)


def lose(patch: pytest.MonkeyPatch, way: Any) -> None:
    """Lose every tenth message."""
    forward, count = way.forward, [0]

    def lossy(self: Any, message: Any, queues: Any) -> None:
        count[0] += 1
        if count[0] % 10:
            forward(self, message, queues)

    patch.setattr(way, "forward", lossy)
