"""Supervisors in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.workers.support import Make, World


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[World] = []

    def made(*arguments: Any, **named: Any) -> World:
        worlds.append(World(*arguments, **named))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()
