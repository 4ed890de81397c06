"""A provider of the stores of MQTT in memory, for the tests of what uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from natsbroker.mqtt.contracts import (
    NEVER,
    IPublishStore,
    IRetainedStore,
    ISessionStore,
    SessionRecord,
    SessionTaken,
    StoredPublish,
)
from natsbroker.subjects.grammar import matches
from natsbroker.wire.mqtt.properties import WILL_DELAY

#: The most bytes of a page of retained messages.
_PAGE = 1 << 20


@implementer(ISessionStore)
class MemorySessions:
    """
    The sessions of an account, as one broker sees them. Another broker uses L{other}.

    @ivar name: of the broker.
    """

    def __init__(self, name: str = "A", shared: MemorySessions | None = None) -> None:
        self.name = name
        self._records: dict[str, tuple[SessionRecord, int]] = {}
        self._sequences = [0]
        self._watchers: list[tuple[str, Callable[[str, int], None]]] = []
        if shared is not None:
            self._records = shared._records
            self._sequences = shared._sequences
            self._watchers = shared._watchers

    def other(self, name: str) -> MemorySessions:
        return MemorySessions(name, self)

    def load(self, clientID: str) -> Deferred[tuple[SessionRecord, int] | None]:
        return succeed(self._records.get(clientID))

    def _isOther(self, clientID: str, sequence: int) -> bool:
        known = self._records.get(clientID)
        return (0 if known is None else known[1]) != sequence

    def save(self, record: SessionRecord, sequence: int) -> Deferred[int]:
        if self._isOther(record.clientID, sequence):
            return fail(SessionTaken(record.clientID))
        self._sequences[0] += 1
        last = self._sequences[0]
        self._records[record.clientID] = replace(record, owner=self.name), last
        for name, taken in list(self._watchers):
            if name != self.name:
                taken(record.clientID, last)
        return succeed(last)

    def delete(self, clientID: str, sequence: int) -> Deferred[None]:
        if self._isOther(clientID, sequence):
            return fail(SessionTaken(clientID))
        del self._records[clientID]
        return succeed(None)

    def expired(self, now: float, limit: int) -> Deferred[Sequence[tuple[SessionRecord, int]]]:
        due = [known for known in self._records.values() if _isDue(known[0], now)]
        return succeed(due[:limit])

    def watch(self, taken: Callable[[str, int], None]) -> Callable[[], None]:
        entry = self.name, taken
        self._watchers.append(entry)
        return lambda: self._watchers.remove(entry)


def _isDue(record: SessionRecord, now: float) -> bool:
    if not record.left:
        return False
    seconds = record.expiry
    if record.will is not None:
        seconds = min(seconds, record.will.properties.get(WILL_DELAY, 0))
    return seconds != NEVER and record.left + seconds <= now


@implementer(IRetainedStore)
class MemoryRetained:
    def __init__(self) -> None:
        self._messages: dict[bytes, StoredPublish] = {}

    def put(self, message: StoredPublish) -> Deferred[None]:
        self._messages[message.subject] = message
        return succeed(None)

    def clear(self, subject: bytes) -> Deferred[None]:
        self._messages.pop(subject, None)
        return succeed(None)

    def matching(
        self, subjects: tuple[bytes, ...], after: bytes, limit: int
    ) -> Deferred[Sequence[StoredPublish]]:
        page: list[StoredPublish] = []
        size = 0
        for name in sorted(self._messages):
            if name <= after or not any(matches(pattern, name) for pattern in subjects):
                continue
            size += len(self._messages[name].body)
            if len(page) == limit or (page and size > _PAGE):
                break
            page.append(self._messages[name])
        return succeed(page)


@implementer(IPublishStore)
class MemoryPublishes:
    """
    @ivar published: the messages in their order.
    """

    def __init__(self) -> None:
        self.published: list[StoredPublish] = []
        self._staged: dict[tuple[str, int], StoredPublish] = {}

    def publish(self, message: StoredPublish) -> Deferred[None]:
        self.published.append(message)
        return succeed(None)

    def stage(self, clientID: str, packetID: int, message: StoredPublish) -> Deferred[bool]:
        key = clientID, packetID
        isNew = key not in self._staged
        self._staged.setdefault(key, message)
        return succeed(isNew)

    def release(self, clientID: str, packetID: int) -> Deferred[bool]:
        message = self._staged.pop((clientID, packetID), None)
        if message is not None:
            self.published.append(message)
        return succeed(message is not None)
