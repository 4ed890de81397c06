"""
Limits of streams that are stored on disk.
"""

from __future__ import annotations

from pathlib import Path

from tests.jetstream.crash.place import Place


def test_lowered(tmp_path: Path) -> None:
    """The answer to lowering a limit shows what is left."""
    place = Place(tmp_path / "store")
    place.ask("STREAM.CREATE.L", name="L", subjects=["L.>"])
    answers: list[object] = []
    for _ in range(5):
        place.send(b"L.a", b"x", answers.append)
    place.until(lambda: len(answers) == 5)
    changed = place.ask("STREAM.UPDATE.L", name="L", subjects=["L.>"], max_msgs=2)
    assert changed["state"]["messages"] == 2
    place.close()
