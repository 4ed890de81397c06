"""
Promoting standbys under load: C{python -m tests.storage.postgres.promotions}.

Each round kills the primary, promotes its synchronous standby, and has the old primary come back as
one that takes writes, while a store writes and reads. Then all connections are cut, several times;
the connection string names the old primary first. Everything that was acknowledged has to be read,
by every reader, from then on.
"""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import Any

from natsbroker.interfaces.records import Retention, StoreError, StoreFailed
from natsbroker.storage.postgres.connecting import Database
from natsbroker.storage.postgres.store import openPostgres
from natsbroker.testing.pumped import PumpedReactor
from tests.postgresql import USER, PostgresServer

KEYS = [b"kv.%d" % number for number in range(4)]

OPERATIONS = 150
"""The number of appends in each part of a round."""


_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


class Promotions:
    """
    @ivar acknowledged: the last sequence of each key that was acknowledged.
    @ivar checks: how many reads were compared with that.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._reactor = PumpedReactor()
        self.acknowledged: dict[bytes, int] = {}
        self.checks = 0

    def run(self, rounds: int, tell: bool = False) -> None:
        """
        Do some rounds.

        @raise AssertionError: for the first false answer.
        """
        primary = PostgresServer()
        try:
            primary.start()
            for number in range(rounds):
                standby = PostgresServer(primary=primary)
                try:
                    standby.start()
                    self._round(primary, standby)
                except BaseException:
                    standby.remove()
                    raise
                primary.remove()
                primary = standby
                if tell:
                    print(f"round {number + 1}: {self.checks} reads, none of them false")
        finally:
            primary.remove()

    def _round(self, primary: PostgresServer, standby: PostgresServer) -> None:
        database = f"host={primary.directory},{standby.directory} user={USER} dbname=postgres"
        stores = [self._opened(database) for _ in range(2)]
        log = self._reactor.wait(self._led(stores[0]))
        log.retain(Retention(perSubject=1))
        primary.waitForStandbys("*", areThere=True)
        self._work(log, stores[1], OPERATIONS)
        primary.crash()
        standby.promote()
        primary.start()
        primary.waitForStandbys("")
        for _ in range(3):
            self._work(log, stores[1], OPERATIONS // 3)
            standby.execute("public", _CUT)
        self._work(log, stores[1], OPERATIONS // 3)
        for store in stores:
            self._reactor.wait(store.close())

    def _opened(self, source: str) -> Any:
        return self._reactor.wait(openPostgres(self._reactor, Database(source)))

    def _led(self, store: Any) -> Any:
        return store.whenFree("log")

    def _work(self, log: Any, other: Any, count: int) -> None:
        """Append and read until enough appends are acknowledged, whatever fails in between."""
        deadline = time.monotonic() + 60
        while count:
            assert time.monotonic() < deadline, "nothing is acknowledged"
            key = self._random.choice(KEYS)
            writing = log.append([(key, b"", b"x" * self._random.randrange(2000), 0)])
            for reader in (log, other):
                self._check(reader, self._random.choice(KEYS))
            try:
                self.acknowledged[key] = self._reactor.wait(writing)[0]
                count -= 1
            except StoreFailed:
                self._reactor.advance(1)
                self._reactor.turn()

    def _check(self, reader: Any, key: bytes) -> None:
        known = self.acknowledged.get(key)
        try:
            if hasattr(reader, "view"):
                reader = self._reactor.wait(reader.view("log"))
            record = self._reactor.wait(reader.lastFor(key))
        except StoreError:
            return
        if known is not None:
            assert record is not None, f"{key!r} is gone, and had {known}"
            assert record.sequence >= known, f"{key!r} has {record.sequence}, and had {known}"
            self.checks += 1


def main() -> None:
    """Run some rounds from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", default=str(time.time_ns()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    Promotions(options.seed).run(options.rounds, tell=True)


if __name__ == "__main__":
    main()
