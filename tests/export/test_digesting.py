"""
Fingerprints of blocks.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from natsbroker.export import digesting
from natsbroker.export.paging import ROWS
from tests.export.support import Stage, result


def blocks(stage: Stage, **question: Any) -> dict[str, Any]:
    """The answer for channel c."""
    return stage.ask("DIGEST.test-cluster.c", question)


@pytest.mark.parametrize("isPlain", [False, True])
def test_sameAsTheStores(isPlain: bool) -> None:
    """Blocks begin at multiples of their size; each has the fingerprint that the store gives it."""
    stage = Stage()
    log = stage.log("c", [b"%d" % n for n in range(1, 26)], isPlain)
    result(log.delete([3, 20]))
    answer = blocks(stage, start=2, stop=100, block=10)
    assert (answer["next"], answer["first"], answer["last"]) == (26, 1, 25)
    expected = []
    for start, stop in ((2, 10), (10, 20), (20, 26)):
        found = result(log.digest(start, stop))
        expected.append(
            {"start": start, "stop": stop, "count": found.count, "sha256": found.sha256.hex()}
        )
    assert answer["blocks"] == expected


def test_largeBlocks() -> None:
    """A block of many pages has one fingerprint."""
    stage = Stage()
    log = stage.log("c", [b"x"] * (2 * ROWS + 7))
    [block] = blocks(stage, start=1, stop=2 * ROWS + 8)["blocks"]
    assert block["sha256"] == result(log.digest(1, 2 * ROWS + 8)).sha256.hex()
    assert block["count"] == 2 * ROWS + 7


def test_nothing() -> None:
    """Where nothing is, there are no blocks; where all is deleted, they are empty."""
    stage = Stage()
    log = stage.log("c", [b"x"] * 10)
    assert blocks(stage, start=11, stop=20) == {"blocks": [], "next": 11, "first": 1, "last": 10}
    result(log.delete(range(1, 9)))
    empty = {"start": 1, "stop": 5, "count": 0, "sha256": hashlib.sha256().hexdigest()}
    assert blocks(stage, start=1, stop=5)["blocks"] == [empty]


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer has so many blocks, or bytes, and says where to go on."""
    stage = Stage()
    stage.log("c", [b"x"] * 600)
    answer = blocks(stage, start=1, stop=601, block=2)
    assert (len(answer["blocks"]), answer["next"]) == (256, 512)
    assert blocks(stage, start=512, stop=601, block=2)["next"] == 601
    monkeypatch.setattr(digesting, "MOST_BYTES", 30)
    assert blocks(stage, start=1, stop=601, block=10)["next"] == 20


def test_logIsDropped() -> None:
    """If the log is deleted meanwhile, that is the answer."""
    stage = Stage()
    stage.log("c", [b"x"] * (3 * ROWS))
    inbox = stage.send("DIGEST.test-cluster.c", {"start": 1, "stop": 3 * ROWS})
    result(stage.store.drop("c"))
    stage.settle()
    assert json.loads(inbox.got[0])["error"]["err_code"] == 20006


def test_askerIsGone() -> None:
    """Nothing more is read for somebody who is gone."""
    stage = Stage()
    log = stage.log("c", [b"x"] * (3 * ROWS))
    inbox = stage.send("DIGEST.test-cluster.c", {"start": 1, "stop": 3 * ROWS})
    result(stage.service.end())
    log.exportRange = None
    stage.settle()
    assert inbox.got == []


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ({"stop": 5}, "start"),
        ({"start": 1}, "stop"),
        ({"start": 1, "stop": 2, "block": 0}, "block"),
        ({"start": 1, "stop": 2, "block": 1_000_001}, "block"),
    ],
)
def test_refused(question: dict[str, int], name: str) -> None:
    """A field that makes no sense is refused by its name."""
    stage = Stage()
    stage.log("c")
    number, text = stage.refused("DIGEST.test-cluster.c", question)
    assert number == 20001
    assert text.startswith(f"bad request: {name} must be")
