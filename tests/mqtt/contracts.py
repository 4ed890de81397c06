"""
The duties of every provider of the stores of MQTT, as tests. Mix a suite with a trial
C{SynchronousTestCase}, and provide the method that makes an empty store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from natsbroker.mqtt.contracts import (
    NEVER,
    IPublishStore,
    IRetainedStore,
    ISessionStore,
    SessionRecord,
    SessionSubscription,
    SessionTaken,
    StoredPublish,
)
from natsbroker.wire.mqtt.packets import FilterRequest, Will
from natsbroker.wire.mqtt.properties import CONTENT_TYPE, WILL_DELAY


class StoreSuite(SynchronousTestCase):
    def got(self, result: Deferred[Any]) -> Any:
        """The result, after everything that it waits for."""
        return self.successResultOf(result)

    def refused(self, result: Deferred[Any], error: type[Exception]) -> None:
        suite: Any = self
        suite.failureResultOf(result, error)


RECORD = SessionRecord(
    "device 1/ä",
    "A",
    expiry=60,
    subscriptions={
        "a/#": SessionSubscription(FilterRequest("a/#", 1, True, True, 2), 7, "name"),
        "b": SessionSubscription(FilterRequest("b")),
    },
    will=Will("w", b"\0\xff", 1, True, {CONTENT_TYPE: "x", WILL_DELAY: 5}),
    user="u",
)


class SessionContract(StoreSuite):
    """Sessions of clients."""

    def makeSessions(self, name: str) -> Any:
        """The sessions of an account, as a broker of this name sees them."""
        raise NotImplementedError

    def test_interface(self) -> None:
        """The store provides its interface."""
        assert verifyObject(ISessionStore, self.makeSessions("A"))

    def test_none(self) -> None:
        """A session that was never saved is not there."""
        assert self.got(self.makeSessions("A").load("x")) is None

    def test_same(self) -> None:
        """A session is loaded as it was saved, by each broker."""
        store = self.makeSessions("A")
        sequence = self.got(store.save(RECORD, 0))
        assert sequence > 0
        assert self.got(store.load(RECORD.clientID)) == (RECORD, sequence)
        assert self.got(self.makeSessions("B").load(RECORD.clientID)) == (RECORD, sequence)

    def test_owner(self) -> None:
        """A session belongs to the broker that saved it last."""
        first, second = self.makeSessions("A"), self.makeSessions("B")
        sequence = self.got(first.save(RECORD, 0))
        self.got(second.save(RECORD, sequence))
        record, _ = self.got(first.load(RECORD.clientID))
        assert record.owner == "B"

    def test_race(self) -> None:
        """Of two that replace the same record one fails."""
        first, second = self.makeSessions("A"), self.makeSessions("B")
        sequence = self.got(first.save(RECORD, 0))
        self.refused(second.save(RECORD, 0), SessionTaken)
        later = self.got(second.save(RECORD, sequence))
        self.refused(first.save(RECORD, sequence), SessionTaken)
        self.refused(first.delete(RECORD.clientID, sequence), SessionTaken)
        assert later > sequence

    def test_delete(self) -> None:
        """A session that was deleted is not there, and a new one can be saved."""
        store = self.makeSessions("A")
        sequence = self.got(store.save(RECORD, 0))
        self.got(store.delete(RECORD.clientID, sequence))
        assert self.got(store.load(RECORD.clientID)) is None
        self.refused(store.save(RECORD, sequence), SessionTaken)
        assert self.got(store.save(RECORD, 0)) > sequence

    def test_watch(self) -> None:
        """A broker learns of a session that another broker saves, not of its own."""
        first, second = self.makeSessions("A"), self.makeSessions("B")
        seen: list[tuple[str, int]] = []
        stop = first.watch(lambda name, sequence: seen.append((name, sequence)))
        sequence = self.got(first.save(RECORD, 0))
        assert seen == []
        later = self.got(second.save(RECORD, sequence))
        assert seen == [(RECORD.clientID, later)]
        stop()
        self.got(second.save(RECORD, later))
        assert len(seen) == 1

    def test_expired(self) -> None:
        """Sessions are found when they are over, or when their will is due."""
        store = self.makeSessions("A")
        records = {
            "connected": replace(RECORD, left=0.0),
            "will": replace(RECORD, left=100.0),
            "over": replace(RECORD, left=100.0, will=None),
            "never": replace(RECORD, left=100.0, will=None, expiry=NEVER),
        }
        for name, record in records.items():
            self.got(store.save(replace(record, clientID=name), 0))

        def due(now: float, limit: int = 10) -> list[str]:
            rows: Sequence[Any] = self.got(store.expired(now, limit))
            return sorted(record.clientID for record, _ in rows)

        assert due(104.9) == []
        assert due(105.0) == ["will"]
        assert due(160.0) == ["over", "will"]
        assert len(due(1e9, 1)) == 1


def message(subject: bytes, payload: bytes = b"x", **fields: Any) -> StoredPublish:
    head = b"NATS/1.0\r\nNmqtt-Pub: 1\r\n\r\n"
    return StoredPublish(subject, head + payload, len(head), **fields)


class RetainedContract(StoreSuite):
    """Retained messages."""

    def makeRetained(self) -> Any:
        raise NotImplementedError

    def all(self, store: Any, *subjects: bytes, limit: int = 2) -> list[bytes]:
        """The subjects of all pages of a filter."""
        names: list[bytes] = []
        while page := self.got(store.matching(subjects, names[-1] if names else b"", limit)):
            assert len(page) <= limit
            names += [entry.subject for entry in page]
        return names

    def test_interface(self) -> None:
        """The store provides its interface."""
        assert verifyObject(IRetainedStore, self.makeRetained())

    def test_last(self) -> None:
        """A subject has the message that was retained last, unchanged."""
        store = self.makeRetained()
        self.got(store.put(message(b"a.b", b"1")))
        last = message(b"a.b", b"\0\xff", qos=2, source="u")
        self.got(store.put(last))
        assert self.got(store.matching((b"a.b",), b"", 5)) == [last]

    def test_clear(self) -> None:
        """A subject that was cleared has no message, however often it is cleared."""
        store = self.makeRetained()
        self.got(store.put(message(b"a")))
        for _ in range(2):
            self.got(store.clear(b"a"))
        assert self.all(store, b">") == []

    def test_filters(self) -> None:
        """The pages of a filter have each matching message once, in the order of subjects."""
        store = self.makeRetained()
        names = [b"a", b"a.b", b"a.b.c", b"b.a", b"/.a", b"a./", b"$x.a"]
        for name in names:
            self.got(store.put(message(name)))
        assert self.all(store, b">") == sorted(names)
        assert self.all(store, b"a.>", b"a") == [b"a", b"a./", b"a.b", b"a.b.c"]
        assert self.all(store, b"*.a") == [b"$x.a", b"/.a", b"b.a"]
        assert self.all(store, b"c") == []

    def test_largePages(self) -> None:
        """A page has about a megabyte at most, but a message at least."""
        store = self.makeRetained()
        for number in range(4):
            self.got(store.put(message(b"a%d" % number, bytes(600_000))))
        assert len(self.got(store.matching((b">",), b"", 100))) == 1
        assert len(self.all(store, b">", limit=100)) == 4


class PublishContract(StoreSuite):
    """Messages with QoS 1 and 2 of clients."""

    def makePublishes(self) -> Any:
        raise NotImplementedError

    def published(self, store: Any) -> list[StoredPublish]:
        """The messages that were published, in their order."""
        raise NotImplementedError

    def test_interface(self) -> None:
        """The store provides its interface."""
        assert verifyObject(IPublishStore, self.makePublishes())

    def test_order(self) -> None:
        """Messages are published in the order of the calls."""
        store = self.makePublishes()
        messages = [message(b"a", b"%d" % number, qos=1) for number in range(5)]
        for result in [store.publish(sent) for sent in messages]:
            self.got(result)
        assert self.published(store) == messages

    def test_staged(self) -> None:
        """A staged message is published once, when it is released."""
        store = self.makePublishes()
        assert self.got(store.stage("c", 1, message(b"a", b"first", qos=2))) is True
        assert self.got(store.stage("c", 1, message(b"a", b"again", qos=2))) is False
        assert self.published(store) == []
        assert self.got(store.release("c", 1)) is True
        assert self.got(store.release("c", 1)) is False
        assert self.published(store) == [message(b"a", b"first", qos=2)]

    def test_identifiers(self) -> None:
        """Clients have packet identifiers of their own, which can be used again."""
        store = self.makePublishes()
        assert self.got(store.stage("c", 1, message(b"a", qos=2))) is True
        assert self.got(store.stage("d", 1, message(b"a", qos=2))) is True
        assert self.got(store.release("e", 1)) is False
        assert self.got(store.release("c", 1)) is True
        assert self.got(store.stage("c", 1, message(b"b", qos=2))) is True
