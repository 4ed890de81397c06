"""
Tests for L{natsbroker.subjects.index}.
"""

from __future__ import annotations

from hypothesis import settings

from natsbroker.subjects.index import SubjectIndex
from tests.subjects.indexbehaviour import IndexBehaviour, IndexMachine


class TestSubjectIndex(IndexBehaviour):
    """The default index."""

    makeIndex = SubjectIndex


class SubjectIndexMachine(IndexMachine):
    """The default index beside a plain list."""

    makeIndex = SubjectIndex


TestSubjectIndexMachine = SubjectIndexMachine.TestCase
TestSubjectIndexMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
