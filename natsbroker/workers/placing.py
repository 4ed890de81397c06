"""
The choice of a worker for a connection: clients of one account go to one worker, as long as it has
room.

A message between clients of one account costs least if both are at the same worker, and accounts
that share nothing need no route between their workers. A worker has room while its connections are
not many more than the mean of all. Otherwise the connection goes to the less loaded of two random
workers: with two choices the loads stay close, and no worker is favoured among equals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from random import Random

#: A worker has room below this multiple of the mean of all workers,
FACTOR = 1.25

#: and this many connections.
SPARE = 64


class WorkerLoad(MutableMapping[int, str]):
    """The account of each connection of a worker, by number; empty while it is unknown."""

    def __init__(self) -> None:
        self._connections: dict[int, str] = {}
        self._accounts: Counter[str] = Counter()
        self._entered: set[int] = set()
        self._members: Counter[str] = Counter()

    def of(self, account: str) -> int:
        """The number of connections of an account."""
        return self._accounts[account]

    def enter(self, cid: int, account: str) -> None:
        """Record that a connection has logged in to an account."""
        self[cid] = account
        self._entered.add(cid)
        self._members[account] += 1

    def membersOf(self, account: str) -> int:
        """The number of connections that have logged in to an account."""
        return self._members[account]

    def __getitem__(self, cid: int) -> str:
        return self._connections[cid]

    def __setitem__(self, cid: int, account: str) -> None:
        self.pop(cid, None)
        self._connections[cid] = account
        self._accounts[account] += 1

    def __delitem__(self, cid: int) -> None:
        account = self._connections.pop(cid)
        self._accounts[account] -= 1
        if not self._accounts[account]:
            del self._accounts[account]
        if cid in self._entered:
            self._entered.discard(cid)
            self._members[account] -= 1
            if not self._members[account]:
                del self._members[account]

    def __iter__(self) -> Iterator[int]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def clear(self) -> None:
        self._connections.clear()
        self._accounts.clear()
        self._entered.clear()
        self._members.clear()


def chosen(account: str, loads: Sequence[WorkerLoad], random: Random) -> int:
    """
    The index of the worker for a new connection, among those that accept connections.

    @param account: the account; empty if it is unknown.
    """
    if account:
        home = max(range(len(loads)), key=lambda place: loads[place].of(account))
        limit = FACTOR * sum(map(len, loads)) / len(loads) + SPARE
        if loads[home].of(account) and len(loads[home]) < limit:
            return home
    one = int(random.random() * len(loads))
    other = (one + 1 + int(random.random() * (len(loads) - 1))) % len(loads)
    return one if len(loads[one]) <= len(loads[other]) else other
