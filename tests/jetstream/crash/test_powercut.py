"""
Power cuts: the promises of JetStream are kept afterwards.

A few histories; C{python -m tests.jetstream.crash.powercut} goes through any number.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from natsbroker.jetstream.streams.streamrecords import SLICE
from tests.jetstream.crash.place import Place
from tests.jetstream.crash.powercut import cutPower
from tests.jetstream.crash.worked import contentsOf
from tests.storage import shim
from tests.storage.history import Lost
from tests.storage.powercut import CUTS
from tests.storage.victims import Zygote

WHY_NOT = shim.whyNot()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A process that forks the processes whose power is cut."""
    zygote = Zygote("tests.jetstream.crash.powercut")
    yield zygote
    zygote.close()


@pytest.mark.parametrize("number", range(2))
def test_nothingIsLost(zygote: Zygote, tmp_path: Path, number: int) -> None:
    """
    Acknowledged messages, double acknowledgements and changes of configurations survive. No
    consumer is ahead of its stream, and every message reaches the consumers that did not
    acknowledge it.
    """
    assert cutPower(zygote, tmp_path, str(number)) == CUTS * 4


def test_readsInTurns(tmp_path: Path) -> None:
    """
    A stream whose first sequence is high is recovered, though its range is read over several turns.
    """
    place = Place(tmp_path / "store")
    try:
        place.ask("STREAM.CREATE.S", name="S", subjects=["s"], first_seq=3 * SLICE)
        answers: list[object] = []
        place.send(b"s", b"one", answers.append)
        place.until(lambda: bool(answers))
        for _ in range(2):
            assert contentsOf(place, "S") == {3 * SLICE: b"one"}
    finally:
        place.close()


def test_replacedValues(tmp_path: Path) -> None:
    """A broker that starts after a kill serves no value that was replaced."""
    place = Place(tmp_path / "store")
    place.ask("STREAM.CREATE.K", name="K", subjects=["K.>"], max_msgs_per_subject=1)
    answers: list[object] = []
    for count in (5, 10, 15):
        for number in range(5):
            place.send(b"K.%d" % number, b"value", answers.append)
        place.until(lambda count=count: len(answers) == count)  # type: ignore[misc]
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    place.close()
    place = Place(tmp_path / "killed")
    try:
        assert sorted(contentsOf(place, "K")) == [11, 12, 13, 14, 15]
    finally:
        place.close()


def test_noticesCarelessness(zygote: Zygote, tmp_path: Path) -> None:
    """With a store that does not sync, something is lost."""
    with pytest.raises(Lost):
        for number in range(10):
            part = tmp_path / str(number)
            part.mkdir()
            cutPower(zygote, part, f"careless {number}", careless="nothing synced")
