"""
The compiled subject index passes the tests of the pure one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from natsbroker import hot
from tests.subjects.indexbehaviour import IndexBehaviour, IndexMachine

pytestmark = pytest.mark.skipif(not hot.COMPILED, reason=hot.REASON)

makeIndex: Any = hot.SubjectIndex


class TestCompiledSubjectIndex(IndexBehaviour):
    """The compiled index."""

    makeIndex = makeIndex


class CompiledSubjectIndexMachine(IndexMachine):
    """The compiled index beside a plain list."""

    makeIndex = makeIndex


TestCompiledSubjectIndexMachine = CompiledSubjectIndexMachine.TestCase
TestCompiledSubjectIndexMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
