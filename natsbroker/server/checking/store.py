"""A report about a stopped store: its streams, channels, and damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from natsbroker.jetstream.damage import Unreadable, readConfig
from natsbroker.jetstream.model.streamconfig import StorageType, StreamConfig
from natsbroker.jetstream.storenames import logName
from natsbroker.storage.lmdb.checking import CheckedLog, CheckedStore, checkDirectory
from natsbroker.storage.lmdb.encryption.keyring import Encryption

_KINDS = {"jetstream": "stream", "stan": "channel"}


@dataclass(frozen=True)
class LogReport:
    """A log; C{kind} is C{stream}, C{channel} or C{log}, C{owner} an account or cluster id."""

    kind: str
    owner: str
    name: str
    records: int
    first: int
    last: int
    damaged: list[tuple[int, int]]


@dataclass(frozen=True)
class StoreReport:
    store: str
    logs: list[LogReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def isFine(self) -> bool:
        return not self.problems and not any(log.damaged for log in self.logs)

    @property
    def isRight(self) -> bool:
        return self.isFine

    def toJSON(self) -> dict[str, Any]:
        return {"fine": self.isFine, **asdict(self)}

    def lines(self) -> Iterator[str]:
        for log in self.logs:
            bounds = f"sequences {log.first} to {log.last}" if log.records else "empty"
            where = f"{log.kind} {log.owner}/{log.name}"
            yield f"{where}: {log.records} records, {bounds}"
            for first, last in log.damaged:
                which = f"record {first}" if first == last else f"records {first} to {last}"
                yield f"{where}: damaged: {which}"
        for problem in self.problems:
            yield f"damaged: {problem}"
        records = sum(log.records for log in self.logs)
        state = "intact" if self.isFine else "damaged"
        yield f"{self.store}: {len(self.logs)} logs, {records} records, {state}"


def storeReport(directory: Path, encryption: Encryption | None = None) -> StoreReport:
    """Raise L{natsbroker.interfaces.records.StoreError} for an open or unreadable store."""
    checked = checkDirectory(directory, encryption)
    logs = sorted(checked.logs.values(), key=lambda log: log.row.name)
    problems = [*checked.problems, *_streamProblems(checked)]
    return StoreReport(str(directory), [_logReport(log) for log in logs], problems)


def _logReport(log: CheckedLog) -> LogReport:
    row = log.row
    kind, _, rest = row.name.partition("/")
    owner, _, name = rest.partition("/")
    if kind not in _KINDS:
        owner, name = "", row.name
    damaged = [(start, stop - 1) for start, stop in sorted(set(log.damaged))]
    return LogReport(
        _KINDS.get(kind, "log"), unquote(owner), name, row.count, row.first, row.last, damaged
    )


def _streamProblems(checked: CheckedStore) -> Iterator[str]:
    """Compare the configurations of streams with the logs that have their messages."""
    unclaimed = {log.row.name: log.row for log in checked.logs.values()}
    names = set(unclaimed)
    for space, key, value in checked.states:
        if not (space.startswith("jetstream/") and key.startswith(b"stream/")):
            continue
        account = space.removeprefix("jetstream/")
        try:
            _, config = readConfig(value, StreamConfig)
        except Unreadable as error:
            yield f"stream {account}/{error.name or '(unknown)'}: {error}"
            continue
        name = logName(account, config.name)
        unclaimed.pop(name, None)
        if config.storage is StorageType.FILE and name not in names:
            yield f"stream {account}/{config.name}: its messages are missing"
    for name, row in unclaimed.items():
        if name.startswith("jetstream/") and row.count:
            yield f"{name}: its configuration is lost"
