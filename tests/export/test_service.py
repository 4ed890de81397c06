"""
Requests below C{$NB.API.>}, and their answers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from natsbroker.connections.turns import turnsOn
from natsbroker.export.logs import ILogConsumer
from natsbroker.export.service import exportServiceFor
from natsbroker.interfaces import ISubscriber
from natsbroker.storage.memory import MemoryLog
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import Message
from tests.conftest import FlushLoggedErrors
from tests.export.support import SECOND, Connection, Stage, result
from tests.links.test_origins import Moon


@pytest.fixture
def stage() -> Stage:
    """A service with two channels."""
    made = Stage()
    made.log("orders.eu", [b"one", b"two", b"three"])
    made.log("orders.us", [b"four"])
    return made


def test_provides(stage: Stage) -> None:
    """The export service provides the interfaces of a consumer of logs and of a subscriber."""
    assert verifyObject(ILogConsumer, stage.service)
    assert verifyObject(ISubscriber, stage.service)


class TestNames:
    """Requests for the names of logs."""

    def test_allNames(self, stage: Stage) -> None:
        """All names are listed in order."""
        answer = stage.ask("NAMES.test-cluster")
        assert answer == {"total": 2, "names": ["orders.eu", "orders.us"], "more": False}

    def test_namesOfAPattern(self, stage: Stage) -> None:
        """The names that match a pattern are listed, from a given name on."""
        assert stage.ask("NAMES.test-cluster", {"pattern": "*.us"})["names"] == ["orders.us"]
        answer = stage.ask("NAMES.test-cluster", {"after": "orders.eu"})
        assert answer == {"total": 2, "names": ["orders.us"], "more": False}

    def test_limitOfAList(self) -> None:
        """A list has at most a thousand names."""
        stage = Stage()
        log = stage.log("x")
        stage.shelf.logs = {f"c{n:04}": log for n in range(1500)}
        first = stage.ask("NAMES.test-cluster")
        assert (first["total"], len(first["names"]), first["more"]) == (1500, 1000, True)
        rest = stage.ask("NAMES.test-cluster", {"after": first["names"][-1]})
        assert (len(rest["names"]), rest["more"]) == (500, False)

    @pytest.mark.parametrize("pattern", ["", "a..b", "a b", 7, "\ud800"])
    def test_badPattern(self, stage: Stage, pattern: object) -> None:
        """A pattern that is not a valid subject is refused."""
        assert stage.refused("NAMES.test-cluster", {"pattern": pattern})[0] == 20001


class TestInfo:
    """Requests for the state of a log."""

    def test_state(self, stage: Stage) -> None:
        """
        The state of a log has its first and last sequence, and an identity that a later log of its
        name does not have.
        """
        answer = stage.ask("INFO.test-cluster.orders.eu")
        log = stage.shelf.logs["orders.eu"]
        assert answer == {
            "name": "orders.eu",
            "identity": f"{log.identity:016x}",
            "first": 1,
            "last": 3,
            "messages": 3,
            "bytes": 3 * len("orders.eu") + len("onetwothree"),
            "last_time": 3 * SECOND,
            "holds": [],
        }

    def test_logWithoutHolds(self, stage: Stage) -> None:
        """The state of a log that does not support holds shows none."""
        stage.log("plain", isPlain=True)
        assert "holds" not in stage.ask("INFO.test-cluster.plain")

    def test_madeAgain(self, stage: Stage) -> None:
        """
        A request with the identity of a deleted log is refused if there is a new log of its name.
        """
        before = stage.ask("INFO.test-cluster.orders.us")["identity"]
        result(stage.store.drop("orders.us"))
        stage.log("orders.us", [b"x"])
        assert stage.ask("INFO.test-cluster.orders.us")["identity"] != before
        number, text = stage.refused("INFO.test-cluster.orders.us", {"identity": before})
        assert number == 20004
        deleted = "channel orders.us was deleted and made again"
        assert text == f"{deleted}: its sequences belong to other messages now"

    def test_missing(self, stage: Stage) -> None:
        """A request for a log that does not exist is refused."""
        expected = 20003, "there is no channel orders.de"
        assert stage.refused("INFO.test-cluster.orders.de") == expected


class TestFind:
    """Requests for the sequence at a point in time."""

    @pytest.mark.parametrize(("when", "sequence"), [(0, 1), (2 * SECOND, 2), (4 * SECOND, 4)])
    def test_sequence(self, stage: Stage, when: int, sequence: int) -> None:
        """The answer is the first sequence that is not older, or the next one if all are older."""
        answer = stage.ask("FIND.test-cluster.orders.eu", {"time": when})
        assert answer == {"sequence": sequence, "last": 3}

    def test_storeFails(self, stage: Stage) -> None:
        """An error of the store is returned to the requester."""
        result(stage.store.close())
        expected = 20006, "the store fails: the store is closed"
        assert stage.refused("FIND.test-cluster.orders.eu", {"time": 0}) == expected


class TestRefused:
    """Refused requests."""

    @pytest.mark.parametrize(
        "call", ["EMPTY.test-cluster.orders.eu", "NAMES.test-cluster.x", "INFO.test-cluster"]
    )
    def test_noSuchRequest(self, stage: Stage, call: str) -> None:
        """An unknown request is refused with an error that names it."""
        verb = call.partition(".")[0]
        assert stage.refused(call) == (20002, f"there is no request {verb}")

    @pytest.mark.parametrize("payload", [b"{", b"[1]", b"7", b"\xff", b"[" * 100_000])
    def test_noObject(self, stage: Stage, payload: bytes) -> None:
        """A body that is not a JSON object is refused."""
        expected = 20001, "bad request: a JSON object is expected"
        assert stage.refused("INFO.test-cluster.orders.eu", payload) == expected

    def test_otherCluster(self, stage: Stage) -> None:
        """A request to another cluster is not answered."""
        assert stage.send("INFO.other.orders.eu").got == []

    def test_stopped(self, stage: Stage) -> None:
        """A broker that stops does not answer open requests, and closes the connection."""
        stage.log("long", [b"x"] * 5000)
        inbox = stage.send("DIGEST.test-cluster.long", {"start": 1, "stop": 5001})
        assert inbox.got == []
        stage.turns.stop()
        stage.settle()
        assert inbox.got == []

    def test_unforeseen(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, flushLoggedErrors: FlushLoggedErrors
    ) -> None:
        """An unexpected error is logged, and answered without details."""

        def broken(self: MemoryLog) -> None:
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(MemoryLog, "bounds", broken)
        expected = 20010, "the request failed: the log of the broker says why"
        for call in ("INFO", "EXPORT"):
            question = {"start": 1} if call == "EXPORT" else {}
            assert stage.refused(f"{call}.test-cluster.orders.eu", question) == expected
        assert len(flushLoggedErrors(ZeroDivisionError)) == 2


class TestAskers:
    """Requesters, and their permissions."""

    def test_noReply(self, stage: Stage) -> None:
        """A request without a reply subject is ignored."""
        stage.bus.publish(
            Message(b"$NB.API.CHANNEL.HOLD.test-cluster.orders.eu", b'{"name":"a","floor":1}')
        )
        stage.settle()
        assert stage.shelf.logs["orders.eu"].holds() == {}

    def test_mayListen(self, stage: Stage) -> None:
        """A requester gets an answer only if it may subscribe to the reply subject."""
        grant = Grant(subscribe=SubscribePermissions([b"_INBOX.>"]))
        assert "names" in stage.ask("NAMES.test-cluster", origin=Connection(grant))
        grant = Grant(subscribe=SubscribePermissions([b"other.>"]))
        assert stage.send("NAMES.test-cluster", origin=Connection(grant)).got == []

    def test_readSubjects(self, stage: Stage) -> None:
        """
        A log with an API of its own can be read by users who may send one of that API's requests.
        """
        stage.shelf.needed = (b"$JS.API.STREAM.MSG.GET.S", b"$JS.API.DIRECT.GET.S")
        for allowed in ("$JS.API.DIRECT.GET.*", "$JS.API.STREAM.MSG.GET.S"):
            user = Connection(Grant(publish=PermissionSet([b"$NB.>", allowed.encode()])))
            assert stage.ask("INFO.test-cluster.orders.eu", origin=user)["last"] == 3
            assert stage.ask("NAMES.test-cluster", origin=user)["total"] == 2
        user = Connection(Grant(publish=PermissionSet([b">"], [b"$JS.API.>"])))
        for verb in ("INFO", "EXPORT", "DIGEST", "FIND"):
            answer = stage.ask(f"{verb}.test-cluster.orders.eu", origin=user)
            assert answer["error"]["err_code"] == 20015
        assert stage.ask("NAMES.test-cluster", origin=user)["names"] == []
        assert stage.ask("INFO.test-cluster.orders.eu")["last"] == 3

    def test_peers(self, stage: Stage) -> None:
        """
        A peer can read only logs without an API of their own, because its users' permissions are
        not known.
        """
        peer = Moon("A", "m-1")
        assert stage.ask("NAMES.test-cluster", origin=peer)["total"] == 2
        assert stage.ask("INFO.test-cluster.orders.eu", origin=peer)["last"] == 3
        stage.shelf.needed = (b"$JS.API.DIRECT.GET.S",)
        assert stage.ask("NAMES.test-cluster", origin=peer)["names"] == []
        for verb in ("INFO", "EXPORT", "DIGEST", "FIND"):
            answer = stage.ask(f"{verb}.test-cluster.orders.eu", origin=peer)
            assert answer["error"]["err_code"] == 20015

    @pytest.mark.parametrize("origin", [Connection(None), object()])
    def test_notLetIn(self, stage: Stage, origin: object) -> None:
        """A requester that has not logged in, or is unknown, gets no answer."""
        assert stage.send("NAMES.test-cluster", origin=origin).got == []


class TestEnd:
    """The end of the export service."""

    def test_nothingIsLeft(self, stage: Stage) -> None:
        """After the end there is no subscription and no timer, and no request is answered."""
        held = {"name": "a", "floor": 1, "seconds": 100}
        stage.ask("HOLD.test-cluster.orders.eu", held)
        stage.log("long", [b"x"] * 20_000)
        inbox = stage.send("EXPORT.test-cluster.long", {"start": 1})
        waiting = stage.send("EXPORT.test-cluster.long", {"start": 1})
        before = len(inbox.got), len(waiting.got)
        result(stage.service.end())
        stage.settle()
        assert (len(inbox.got), len(waiting.got)) == before
        assert max(before) < 5
        assert stage.clock.getDelayedCalls() == []
        assert stage.send("NAMES.test-cluster").got == []

    def test_endsBeforeItBegan(self) -> None:
        """A service whose start failed can be ended."""
        stage = Stage()
        for _ in range(2):
            assert result(stage.service.end()) is None
        assert stage.clock.getDelayedCalls() == []

    def test_whatWaitsIsCancelled(self, stage: Stage) -> None:
        """A request that waits for the store is cancelled without an answer."""
        cancelled: list[object] = []
        log = stage.shelf.logs["orders.eu"]
        log.sequenceAt = lambda _: Deferred(cancelled.append)
        inbox = stage.send("FIND.test-cluster.orders.eu", {"time": 1})
        result(stage.service.end())
        assert (len(cancelled), inbox.got) == (1, [])


def test_largestAnswer() -> None:
    """Answers fit into the maximum payload of the server."""
    clock = Clock()
    settings = SimpleNamespace(max_payload=77)
    host: Any = SimpleNamespace(reactor=clock, settings=settings, turns=turnsOn(clock))
    made: Any = exportServiceFor(host, Stage().bus)
    assert made._maxPayload() == 77
    other: Any = exportServiceFor(host, Stage().bus, lambda: 5)
    assert other._maxPayload() == 5
