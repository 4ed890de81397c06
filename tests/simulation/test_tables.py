"""
The table of workers' streams in histories: streams are made and deleted while workers stop, also in
the middle of a request, and come back with what their stores have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from natsbroker.jetstream.cluster.placedstore import PlacedStates
from natsbroker.jetstream.cluster.streamplaces import StreamPlaces
from tests.jetstream.cluster.workerstage import WorkerStage

pytestmark = pytest.mark.slow

NAMES = ("S1", "S2", "S3", "S4")

STEPS = 40

#: The histories within which each defect must be found.
PATIENCE = 10


class Tables:
    """
    A history of one seed.

    @ivar sure: the streams that answers say are there, or are not.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.stage = WorkerStage(folder)
        self.sure: dict[str, bool] = dict.fromkeys(NAMES, False)
        self._open: set[str] = set()
        self._requests = 0

    def step(self) -> None:
        stage, random = self.stage, self.random
        there, gone = sorted(stage.services), sorted({1, 2, 3} - stage.services.keys())
        chance = random.random()
        if chance < 0.2 and gone:
            stage.add(random.choice(gone))
        elif chance < 0.3 and len(there) > 1:
            stage.stop(random.choice(there))
        else:
            self.ask(random.choice(NAMES), chance < 0.75, isCut=chance > 0.9 and len(there) > 1)

    def ask(self, name: str, isMade: bool, isCut: bool) -> None:
        """Make or delete a stream; a worker stops meanwhile if it is cut."""
        stage = self.stage
        self._requests += 1
        reply = b"_INBOX.%d" % self._requests
        inbox = stage.inbox(reply)
        config = {"name": name, "subjects": [f"{name}.>"]}
        body = json.dumps(config).encode() if isMade else b""
        verb = "CREATE" if isMade else "DELETE"
        stage.send(f"$JS.API.STREAM.{verb}.{name}".encode(), body, reply)
        if isCut:
            for _ in range(self.random.randrange(3)):
                stage.settle()
            stage.stop(self.random.choice(sorted(stage.services)))
        for _ in range(5):
            stage.settle()
        answers: list[Any] = list(map(json.loads, inbox.payloads))
        assert len(answers) <= 1, answers
        if not answers:
            # It may still be done when its worker is back.
            self._open.add(name)
        if name in self._open:
            self.sure.pop(name, None)
        elif "error" not in answers[0]:
            self.sure[name] = isMade

    def check(self) -> None:
        """All workers come back, and agree on what there is."""
        stage = self.stage
        for number in sorted({1, 2, 3} - stage.services.keys()):
            stage.add(number)
        for _ in range(5):
            stage.settle()
        streams = stage.streamsOf()
        count = Counter(name for names in streams.values() for name in names)
        assert set(count.values()) <= {1}, streams
        for worker in stage.workers.values():
            rows = worker.table.rowsOf("A")
            places = {json.loads(row.config)["config"]["name"]: row.worker for row in rows.values()}
            assert places == {name: number for number in streams for name in streams[number]}
        for name, isThere in self.sure.items():
            assert (name in count) == isThere, (name, streams)


def run(folder: Path, seed: int) -> None:
    history = Tables(folder, seed)
    try:
        for _ in range(STEPS):
            history.step()
        history.check()
    finally:
        history.stage.end()


@pytest.mark.parametrize("seed", range(30))
def test_histories(tmp_path: Path, seed: int) -> None:
    """A stream that was made is at one worker, one that was deleted at none, and all know it."""
    run(tmp_path, seed)


def noRows(patch: pytest.MonkeyPatch) -> None:
    """A stream is made without a row."""
    patch.setattr(PlacedStates, "change", lambda self, changes: self._inner.change(changes))


def keptRows(patch: pytest.MonkeyPatch) -> None:
    """The row of a stream that is deleted stays."""
    change = StreamPlaces.change

    def kept(self: Any, account: str, streams: Any) -> None:
        rows = {key: config for key, config in streams.items() if config is not None}
        change(self, account, rows)

    patch.setattr(StreamPlaces, "change", kept)


@pytest.mark.parametrize("defect", [noRows, keptRows])
def test_defects(
    tmp_path: Path,
    defect: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of these defects is found."""
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(PATIENCE):
            run(tmp_path / str(seed), seed)
