"""
A JetStream on a full disk: C{python -m tests.jetstream.crash.fulldisk DIRECTORY}. The directory is
the root of a file system of a few megabytes. The program prints C{fine}, or fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.jetstream.crash.place import Place
from tests.jetstream.crash.worked import contentsOf
from tests.storage.fulldisk import execute, fill


def _published(place: Place, count: int) -> list[dict[str, Any]]:
    """
    @return: the answers to publishing that number of messages, one after the other.
    """
    answers: list[dict[str, Any]] = []
    for number in range(count):
        place.send(
            b"L.a",
            b"%d" % number * 4000,
            lambda message: answers.append(json.loads(message.payload)),
        )
        place.until(lambda number=number: len(answers) > number)  # type: ignore[misc]
    return answers


def main(directory: Path) -> None:
    """Fill the disk, check the refusals, make room, and check that publishing works again."""
    ballast = directory / "ballast"
    ballast.write_bytes(b"b" * (2 << 20))
    place = Place(directory / "store")
    place.ask("STREAM.CREATE.L", name="L", subjects=["L.>"])
    place.ask("STREAM.CREATE.T", name="T", sources=[{"name": "L"}])
    place.pass_(1)
    stored = [answer["seq"] for answer in _published(place, 3)]
    assert stored == [1, 2, 3]
    fill(directory / "filler")
    refused: list[dict[str, Any]] = []
    while not refused:
        for answer in _published(place, 20):
            if "error" in answer:
                refused.append(answer["error"])
            else:
                stored.append(answer["seq"])
    assert all(error["err_code"] == 10077 for error in refused), refused
    assert all("no space is left" in error["description"] for error in refused), refused
    assert sorted(contentsOf(place, "L")) == stored
    assert place.ask("STREAM.INFO.L")["state"]["messages"] == len(stored)
    assert contentsOf(place, "T")
    purged = place.ask("STREAM.PURGE.T")
    assert purged.get("success"), purged
    (directory / "filler").unlink()
    ballast.unlink()
    for _ in range(100):
        place.pass_(1)
        [answer] = _published(place, 1)
        if "error" not in answer:
            break
    stored.append(answer["seq"])
    assert sorted(contentsOf(place, "L")) == stored
    place.close()
    print("fine")


if __name__ == "__main__":
    execute(main)
