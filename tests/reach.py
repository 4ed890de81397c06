"""
The tests that pytest's arguments name, and the packages that these need.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

INTEROP = "tests/interop"
SPARK = "tests/spark"
POSTGRES = "tests/storage/postgres"


@dataclass(frozen=True)
class Reach:
    """
    The needs of the named tests, besides the packages of the C{unit} extra.

    @ivar interop: clients and servers of other projects.
    @ivar spark: Spark.
    @ivar postgres: a PostgreSQL server.
    """

    interop: bool
    spark: bool
    postgres: bool

    @property
    def environment(self) -> str:
        """The environment in tox.ini with the packages of these tests."""
        return "checks" if self.interop or self.spark or self.postgres else "unit"


def reachOf(arguments: Sequence[str]) -> Reach:
    """
    @param arguments: for pytest, from the checkout's top directory.
    """
    named = [argument.partition("::")[0] for argument in arguments if not argument.startswith("-")]
    paths = [os.path.relpath(path) for path in named if os.path.exists(path)] or ["tests"]
    return Reach(
        *(any(_overlap(path, place) for path in paths) for place in (INTEROP, SPARK, POSTGRES))
    )


def _overlap(path: str, place: str) -> bool:
    """
    @return: whether one of the two directories contains the other.
    """
    return path == "." or f"{path}/".startswith(f"{place}/") or f"{place}/".startswith(f"{path}/")
