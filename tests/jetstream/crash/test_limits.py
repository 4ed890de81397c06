"""
Answers that wait for the disk.
"""

from __future__ import annotations

from pathlib import Path

from tests.jetstream.crash.place import Place


def test_lowered(tmp_path: Path) -> None:
    """The answer to lowering a limit shows the remaining messages."""
    place = Place(tmp_path / "store")
    place.ask("STREAM.CREATE.L", name="L", subjects=["L.>"])
    answers: list[object] = []
    for _ in range(5):
        place.send(b"L.a", b"x", answers.append)
    place.until(lambda: len(answers) == 5)
    changed = place.ask("STREAM.UPDATE.L", name="L", subjects=["L.>"], max_msgs=2)
    assert changed["state"]["messages"] == 2
    place.close()


def test_listed(tmp_path: Path) -> None:
    """A list of consumers counts messages that were published before."""
    place = Place(tmp_path / "store")
    place.ask("STREAM.CREATE.L", name="L", subjects=["L.>"])
    config = {"durable_name": "c", "ack_policy": "explicit"}
    place.ask("CONSUMER.DURABLE.CREATE.L.c", stream_name="L", config=config)
    for _ in range(2):
        place.send(b"L.a", b"x", lambda message: None)
    [listed] = place.ask("CONSUMER.LIST.L")["consumers"]
    assert listed["num_pending"] == 2
    place.close()
