"""
The import of data directories of nats-streaming-server.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from natsbroker.config.settings.streaming import Streaming
from natsbroker.interfaces.records import LeaseLost, StoreError, StoreFailed
from natsbroker.storage.lmdb.store import openLMDB
from natsbroker.streaming.filestore.directory import SourceDirectory
from natsbroker.streaming.filestore.framing import Report, SourceError
from natsbroker.streaming.filestore.importer import Importer, ImportRefused, Plan, planImport
from natsbroker.testing.pumped import PumpedReactor
from tests.storage.postgres.harness import PostgresHarness
from tests.streaming.filestore.writer import BEGINNING, STEP, StoreWriter, append, flip
from tests.streaming.stores import HeldStore
from tests.streaming.support import Client, Listener, Stage

UNLIMITED = Streaming(max_channels=0, max_subs=0, max_msgs=0, max_bytes=0)


@pytest.fixture
def writer(tmp_path: Path) -> StoreWriter:
    """A directory without channels."""
    return StoreWriter(tmp_path / "source")


def planned(writer: StoreWriter, settings: Streaming = UNLIMITED, now: int = BEGINNING) -> Plan:
    """The plan of an import."""
    report = Report()
    return planImport(SourceDirectory(writer.root, report), settings, now, report)


def imported(store: Any, plan: Plan) -> bool:
    """Import into a store that answers at once."""
    outcome: list[Any] = []
    ensureDeferred(Importer(store, "test-cluster").run(plan)).addBoth(outcome.append)
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    result: bool = outcome[0]
    return result


def stageOn(writer: StoreWriter, **more: Any) -> Stage:
    """A service that uses the imported store."""
    stage = Stage(UNLIMITED, start=False)
    assert imported(stage.store, planned(writer, **more))
    stage.start()
    return stage


def channelOf(store: Any, name: str) -> Any:
    """The log of a channel."""
    logs: list[Any] = []
    store.open(f"stan/test-cluster/{name}", create=False).addCallback(logs.append)
    return logs[0]


def recordsOf(log: Any) -> list[Any]:
    """All records."""
    results: list[Any] = []
    log.read(1, 10000, 1 << 30).addCallback(results.extend)
    return results


class TestMessages:
    """Messages and sequences."""

    def test_asTheyWere(self, writer: StoreWriter) -> None:
        """Sequences, timestamps, data and reply subjects are those in the source."""
        channel = writer.channel("orders")
        channel.message(1, b"one", reply="answers")
        channel.message(2)
        stage = stageOn(writer)
        one, two = recordsOf(channelOf(stage.store, "orders"))
        assert (one.sequence, one.timestamp, one.subject, one.payload) == (
            1, BEGINNING + STEP, b"orders", b"one",
        )  # fmt: skip
        assert (two.sequence, two.timestamp, two.payload) == (2, BEGINNING + 2 * STEP, b"")
        (first, second) = stage.client().subscribe("orders").got
        assert (first.reply, second.reply) == ("answers", "")

    def test_gaps(self, writer: StoreWriter) -> None:
        """The first sequence may be above 1 and sequences may be missing; the next one follows."""
        channel = writer.channel("orders")
        channel.messages(13, 15, part=5)
        channel.messages(19, 20, part=7)
        stage = stageOn(writer)
        log = channelOf(stage.store, "orders")
        assert [record.sequence for record in recordsOf(log)] == [13, 14, 15, 19, 20]
        assert (log.bounds().first, log.bounds().last) == (13, 20)
        stage.client().publish("orders", b"new")
        assert log.bounds().last == 21

    def test_manyBatches(self, writer: StoreWriter) -> None:
        """A channel of several batches is imported completely."""
        writer.channel("orders").messages(1, 2500)
        stage = stageOn(writer)
        records = recordsOf(channelOf(stage.store, "orders"))
        assert [record.payload for record in records] == [
            b"%d" % number for number in range(1, 2501)
        ]

    def test_maxMessages(self, writer: StoreWriter) -> None:
        """
        The oldest messages beyond max_msgs are not imported; a channel may have limits of its own.
        """
        for name in ("a", "b"):
            writer.channel(name).messages(25, 50)
        settings = replace(UNLIMITED, max_msgs=20, channels={"b": {"max_msgs": 3}})
        stage = stageOn(writer, settings=settings)
        firsts = [channelOf(stage.store, name).bounds().first for name in ("a", "b")]
        assert firsts == [31, 48]

    def test_maxBytes(self, writer: StoreWriter) -> None:
        """
        Bytes are counted as by the server, with 40 more for each message; the last message always
        stays.
        """
        channel = writer.channel("orders")
        channel.messages(1, 9)
        size = channel.path("msgs.1.dat").stat().st_size - 4
        length = size // 9 + 32
        bounds = []
        for limit in (length * 3, length * 3 - 1, 1):
            plan = planned(writer, replace(UNLIMITED, max_bytes=limit))
            bounds.append(plan.channels[0].first)
        assert bounds == [7, 8, 9]

    def test_maxAge(self, writer: StoreWriter) -> None:
        """All messages may be too old; the last sequence stays used."""
        writer.channel("orders").messages(1, 10)
        settings = replace(UNLIMITED, max_age=1.0)
        now = BEGINNING + 10 * STEP + 10**9
        assert planned(writer, settings, now - STEP).channels[0].first == 10
        stage = stageOn(writer, settings=settings, now=now)
        bounds = channelOf(stage.store, "orders").bounds()
        assert (bounds.first, bounds.last, bounds.count) == (11, 10, 0)
        stage.client().publish("orders", b"new")
        assert channelOf(stage.store, "orders").bounds().last == 11

    def test_damagedStaysAGap(self, writer: StoreWriter) -> None:
        """A damaged message is reported; its sequence is not used again, also if it is the last."""
        channel = writer.channel("orders")
        offsets = [channel.message(number, b"data") for number in (1, 2, 3)]
        for offset in offsets[1:]:
            flip(channel.path("msgs.1.dat"), offset + 20)
        plan = planned(writer)
        assert len(plan.report.damaged) == 2
        stage = Stage(start=False)
        imported(stage.store, plan)
        bounds = channelOf(stage.store, "orders").bounds()
        assert (bounds.first, bounds.last, bounds.count) == (1, 3, 1)

    def test_invalidReply(self, writer: StoreWriter) -> None:
        """A reply subject that cannot be stored is left out, and reported."""
        writer.channel("orders").message(1, b"one", reply=" a ")
        plan, stage = planned(writer), Stage(start=False)
        imported(stage.store, plan)
        assert recordsOf(channelOf(stage.store, "orders"))[0].headers == b""
        assert plan.report.notes == ["message 1: its reply subject is not valid and left out"]

    def test_nameWithBlank(self, writer: StoreWriter) -> None:
        """
        A channel whose name has a space is imported, and the import reports that clients cannot use
        it.
        """
        writer.channel("with space").messages(1, 2)
        plan, stage = planned(writer), Stage(start=False)
        imported(stage.store, plan)
        assert channelOf(stage.store, "with space").bounds().last == 2
        assert plan.report.notes == [
            "'with space': jobs can read a channel of this name, clients cannot"
        ]

    def test_namesThatDifferInCase(self, writer: StoreWriter) -> None:
        """
        Channels whose names differ in case only, as servers before 0.25 allowed, are both served,
        and each can be deleted.
        """
        for name in ("orders", "Orders"):
            writer.channel(name).messages(1, 1)
        stage = stageOn(writer)
        client = stage.client()
        assert [client.publish(channel, b"x") for channel in ("orders", "Orders")] == ["", ""]
        channels = stage.service.context.channels
        for name in ("Orders", "orders"):
            known = channels.get(name)
            assert known is not None
            stage.service.run(channels.drop(known))
            stage.settle()
        assert len(channels) == 0


class TestDurables:
    """Durable subscriptions, resumed by their clients."""

    def resumed(self, stage: Stage, clientID: str, **more: Any) -> Listener:
        """A subscription of a client that connects."""
        return stage.client(clientID).subscribe("orders", **more)

    def test_resumes(self, writer: StoreWriter) -> None:
        """
        A message that was sent and not acknowledged is redelivered first; then follow those that
        were never sent.
        """
        channel = writer.channel("orders")
        channel.messages(1, 9)
        channel.subscription(1, clientID="c", durableName="d", isDurable=True, inbox="_INBOX.i")
        channel.sent(1, 1, 2, 3, 4, 5)
        channel.acknowledged(1, 1, 3)
        channel.subscription(1, 2, clientID="c", durableName="d", isDurable=True, isClosed=True)
        got = self.resumed(stageOn(writer), "c", durableName="d").got
        marks = [(message.sequence, message.redelivered) for message in got]
        assert marks == [
            (2, True), (4, True), (5, True), (6, False), (7, False), (8, False), (9, False),
        ]  # fmt: skip

    def test_position(self, writer: StoreWriter) -> None:
        """
        A durable subscription that had acknowledged everything continues behind it, whatever start
        it asks for.
        """
        channel = writer.channel("orders")
        channel.messages(1, 9)
        channel.subscription(1, clientID="c", durableName="d", lastSent=7)
        assert self.resumed(stageOn(writer), "c", durableName="d").sequences == [8, 9]

    def test_unsubscribed(self, writer: StoreWriter) -> None:
        """
        A durable subscription that was unsubscribed is not imported; its name can be used for a new
        one.
        """
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="c", durableName="d", isDurable=True, lastSent=2)
        channel.deleted(1)
        assert self.resumed(stageOn(writer), "c", durableName="d").sequences == [1, 2, 3]

    def test_pendingBelowFirst(self, writer: StoreWriter) -> None:
        """
        A pending message that is gone counts as acknowledged; a position before the first is the
        first.
        """
        channel = writer.channel("orders")
        channel.messages(5, 8)
        channel.subscription(1, clientID="c", durableName="d", isDurable=True)
        channel.sent(1, 1, 2)
        assert self.resumed(stageOn(writer), "c", durableName="d").sequences == [5, 6, 7, 8]

    def test_emptyChannel(self, writer: StoreWriter) -> None:
        """A durable subscription of a channel without messages gets the first one."""
        channel = writer.channel("orders")
        channel.subscription(1, clientID="c", durableName="d", isDurable=True)
        stage = stageOn(writer)
        listener = self.resumed(stage, "c", durableName="d")
        stage.client("p").publish("orders", b"x")
        assert listener.sequences == [1]

    def test_queue(self, writer: StoreWriter) -> None:
        """
        A durable queue group without members keeps its position. Its name is split at the first
        colon.
        """
        channel = writer.channel("orders")
        channel.messages(1, 4)
        channel.subscription(1, qGroup="d:g:h", isDurable=True, lastSent=3)
        channel.sent(1, 2)
        listener = self.resumed(stageOn(writer), "any", durableName="d", qGroup="g:h")
        assert listener.sequences == [2, 4]

    def test_memberWithoutClient(self, writer: StoreWriter) -> None:
        """A pending message of a member whose client is gone goes to the existing members."""
        writer.client("w1", "_INBOX.hb1", b"1")
        channel = writer.channel("orders")
        channel.messages(1, 9)
        for number, clientID in ((1, "w1"), (2, "w2")):
            channel.subscription(
                number, clientID=clientID, qGroup="d:g", isDurable=True,
                inbox=f"_INBOX.{clientID}", ackInbox=f"_INBOX.a{clientID}",
            )  # fmt: skip
        channel.sent(1, 3, 7, 8)
        channel.sent(2, 4, 6, 9)
        stage = stageOn(writer)
        (member,) = stage.service.context.channels.get("orders").subscriptions  # type: ignore[union-attr]
        assert (member.clientID, sorted(member.pending)) == ("w1", [3, 4, 6, 7, 8, 9])
        assert member.group.lastSent == 9

    def test_noMemberHasAClient(self, writer: StoreWriter) -> None:
        """If the clients of all members are gone, the durable queue group still exists."""
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="w", qGroup="d:g", isDurable=True)
        channel.sent(1, 1, 2)
        channel.acknowledged(1, 1)
        listener = self.resumed(stageOn(writer), "any", durableName="d", qGroup="g")
        assert listener.sequences == [2, 3]

    def test_clustered(self, tmp_path: Path) -> None:
        """Subscriptions of a clustered server are not imported, which is reported."""
        writer = StoreWriter(tmp_path / "source", nodeID="n1")
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="c", durableName="d", isDurable=True, lastSent=2)
        plan = planned(writer)
        assert "in its Raft log" in plan.report.notes[0]
        assert self.resumed(stageOn(writer), "c", durableName="d").sequences == [1, 2, 3]


class TestClients:
    """Clients that were connected when the server stopped."""

    def test_goOn(self, writer: StoreWriter) -> None:
        """Clients need not connect again: their subscriptions continue on the old inboxes."""
        stage = Stage(start=False)
        client = Client(stage, "c")
        listener = Listener(client, "orders")
        inbox, ackInbox = listener.inbox.subject.decode(), "_INBOX.acks"
        writer.client("c", client.heartbeats.subject.decode(), client.connID)
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="c", inbox=inbox, ackInbox=ackInbox, lastSent=1)
        imported(stage.store, planned(writer))
        stage.start()
        assert client.ping() == ""
        assert client.publish("orders", b"x") == ""
        assert listener.sequences == [2, 3, 4]

    def test_lostClient(self, writer: StoreWriter) -> None:
        """
        A subscription that is not durable ends with its lost client; a durable one is offline.
        """
        writer.client("c")
        writer.clientGone("c")
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="c", inbox="_INBOX.1", ackInbox="_INBOX.2")
        channel.subscription(2, clientID="c", durableName="d", isDurable=True, lastSent=1)
        plan = planned(writer)
        assert [
            subscription.state.id for subscription in plan.subscriptionsOf(plan.channels[0])
        ] == [2]
        stage = Stage(start=False)
        imported(stage.store, plan)
        stage.start()
        assert stage.model.clientNames() == []

    def test_nowhereToAcknowledge(self, writer: StoreWriter) -> None:
        """A durable subscription whose ackInbox is no subject is offline."""
        writer.client("c")
        channel = writer.channel("orders")
        for number, ackInbox in enumerate(("", "a..b", "_INBOX.ok"), 1):
            channel.subscription(
                number, clientID="c", durableName=f"d{number}", isDurable=True, ackInbox=ackInbox
            )
        channel.subscription(4, clientID="c")
        plan = planned(writer)
        subscriptions = plan.subscriptionsOf(plan.channels[0])
        assert [plan.isActive(subscription) for subscription in subscriptions] == [
            False,
            False,
            True,
        ]

    def test_invalidName(self, writer: StoreWriter) -> None:
        """A client with an invalid client id is left out, and reported."""
        writer.client("a b")
        plan = planned(writer)
        assert (plan.clients, plan.report.notes) == (
            {}, ["client id 'a b' is not valid: left out"],
        )  # fmt: skip


class TestTwice:
    """Imports that are run again."""

    def test_finished(self, writer: StoreWriter) -> None:
        """A second import changes nothing, also if the service has run in between."""
        writer.channel("orders").messages(1, 3)
        stage = stageOn(writer)
        stage.client().publish("orders", b"new")
        stage.stop()
        assert not imported(stage.store, planned(writer))
        assert channelOf(stage.store, "orders").bounds().last == 4

    @pytest.mark.slow
    @pytest.mark.parametrize("commits", range(12))
    def test_interrupted(self, writer: StoreWriter, commits: int) -> None:
        """
        Wherever an import is interrupted, the service does not start, and another run completes the
        import without duplicates.
        """
        writer.client("c", "_INBOX.hb")
        for name in ("a", "b"):
            channel = writer.channel(name)
            channel.messages(11, 13)
            channel.messages(15, 2000, part=2)
            channel.subscription(1, clientID="c", durableName="d", isDurable=True, lastSent=12)
        stage = Stage(UNLIMITED, start=False)
        held = HeldStore(stage.store, isHeld=True)
        running = ensureDeferred(Importer(held, "test-cluster").run(planned(writer)))
        for _ in range(commits):
            held.commit()
        held.failing = StoreFailed("the disk is gone")
        held.commit()
        failed: list[Any] = []
        running.addBoth(failed.append)
        isWhole = failed[0] is True
        if not isWhole:
            failed[0].trap(StoreFailed)
            if commits:
                prepared: list[Any] = []
                stage.service.startService()
                stage.service.whenPrepared().addErrback(prepared.append)
                stage.settle()
                assert "an import into this store was begun and not finished" in str(prepared[0])
                stage.service.stopService()
                stage.service = stage._makeService()
        assert imported(stage.store, planned(writer)) is not isWhole
        for name in ("a", "b"):
            records = recordsOf(channelOf(stage.store, name))
            assert [record.sequence for record in records] == [*range(11, 14), *range(15, 2001)]
        stage.start()
        assert stage.model.clientNames() == ["c"]

    def test_coversEveryStep(self, writer: StoreWriter) -> None:
        """The interrupted imports above cover every commit of an import."""
        for name in ("a", "b"):
            channel = writer.channel(name)
            channel.messages(11, 13)
            channel.messages(15, 2000, part=2)
        store = HeldStore(Stage(start=False).store, isHeld=True)
        running = ensureDeferred(Importer(store, "test-cluster").run(planned(writer)))
        count = 0
        while not running.called:
            store.commit()
            count += 1
        assert 10 <= count <= 14

    def test_otherSource(self, writer: StoreWriter) -> None:
        """An import from other data is not mixed with an earlier one, finished or not."""
        channel = writer.channel("orders")
        channel.messages(1, 3)
        stage = Stage(start=False)
        imported(stage.store, planned(writer))
        channel.messages(4, 4)
        with pytest.raises(ImportRefused, match="the store has an import of other data"):
            imported(stage.store, planned(writer))

    def test_otherPositions(self, writer: StoreWriter) -> None:
        """Other positions of subscriptions mean different data."""
        channel = writer.channel("orders")
        channel.messages(1, 3)
        channel.subscription(1, clientID="c", durableName="d", isDurable=True)
        before = planned(writer).fingerprint
        assert planned(writer).fingerprint == before
        channel.sent(1, 1)
        assert planned(writer).fingerprint != before

    def test_storeInUse(self, writer: StoreWriter) -> None:
        """A store that has channels of the cluster is refused, and stays as it is."""
        writer.channel("orders").messages(1, 3)
        stage = Stage()
        stage.client().publish("other", b"x")
        stage.stop()
        with pytest.raises(ImportRefused, match="has channels or clients of cluster test-cluster"):
            imported(stage.store, planned(writer))
        stage.restart()
        assert stage.model.channelNames() == ["other"]

    def test_emptyService(self, writer: StoreWriter) -> None:
        """A store on which a service ran without any client counts as empty."""
        writer.channel("orders").messages(1, 3)
        stage = Stage()
        stage.stop()
        assert imported(stage.store, planned(writer))


class TestSourceChanges:
    """Directories that change during the import, because a server still uses them."""

    def test_whilePlanning(self, writer: StoreWriter) -> None:
        """Files that change while they are verified are refused."""
        channel = writer.channel("orders")
        channel.messages(1, 3)
        report = Report()
        source = SourceDirectory(writer.root, report)
        channel.messages(4, 4)
        with pytest.raises(SourceError, match="stop nats-streaming-server first"):
            planImport(source, UNLIMITED, BEGINNING, report)

    def test_whileWriting(self, writer: StoreWriter) -> None:
        """
        Files that change while they are imported are refused before the import counts as finished.
        """
        channel = writer.channel("orders")
        channel.messages(1, 3)
        plan, stage = planned(writer), Stage(start=False)
        append(channel.path("subs.dat"), b"\0")
        with pytest.raises(SourceError, match="stop nats-streaming-server first"):
            imported(stage.store, plan)

    def test_bitWhileWriting(self, writer: StoreWriter) -> None:
        """A message that is damaged after it was verified stops the import."""
        channel = writer.channel("orders")
        offset = channel.message(1, b"data")
        plan, stage = planned(writer), Stage(start=False)
        flip(channel.path("msgs.1.dat"), offset + 20)
        with pytest.raises(SourceError, match="orders changed while it was read"):
            imported(stage.store, plan)


def example(root: Path) -> StoreWriter:
    """A directory with a gap, a durable subscription and a client."""
    writer = StoreWriter(root)
    writer.client("c", "_INBOX.hb")
    channel = writer.channel("orders")
    channel.messages(3, 5)
    channel.messages(8, 3000, part=2)
    channel.subscription(1, clientID="d", durableName="d", isDurable=True)
    channel.sent(1, 4, 5)
    return writer


class LMDBImportTests(SynchronousTestCase):
    """Into the store on disk."""

    def setUp(self) -> None:
        """Make a reactor and a directory."""
        self.reactor = PumpedReactor()
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = Path(holder.name)

    def test_survivesReopening(self) -> None:
        """Everything is durable when the import is done."""
        plan = planned(example(self.directory / "source"))
        for expected in (True, False):
            store = self.reactor.wait(openLMDB(self.reactor, self.directory / "store"))
            importer = Importer(store, "test-cluster")
            assert self.reactor.wait(ensureDeferred(importer.run(plan))) is expected
            log: Any = self.reactor.wait(store.open("stan/test-cluster/orders"))
            bounds = log.bounds()
            assert (bounds.first, bounds.last, bounds.count) == (3, 3000, 2996)
            assert importer.written == (2996 if expected else 0)
            self.reactor.wait(store.close())


class PostgresImportTests(PostgresHarness, SynchronousTestCase):
    """Into PostgreSQL."""

    def test_survivesReopening(self) -> None:
        """Everything is durable when the import is done, and no other broker gets between."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        plan = planned(example(Path(holder.name) / "source"))
        store = self.store()
        assert self.wait(ensureDeferred(Importer(store, "test-cluster").run(plan)))
        other = self.store()
        with pytest.raises(LeaseLost):
            self.wait(ensureDeferred(Importer(other, "test-cluster").run(plan)))
        self.wait(store.close())
        assert not self.wait(ensureDeferred(Importer(other, "test-cluster").run(plan)))
        bounds = self.wait(other.open("stan/test-cluster/orders")).bounds()
        assert (bounds.first, bounds.last, bounds.count) == (3, 3000, 2996)


def test_storeThatCannotSkip(writer: StoreWriter) -> None:
    """A store that cannot skip sequences is refused if the source has a gap."""

    class PlainLog:
        nextSequence = 1

    writer.channel("orders").messages(2, 3)
    stage = Stage(start=False)
    stage.store.open = lambda name: stage.store.logs().addCallback(lambda _: PlainLog())
    with pytest.raises(StoreError, match="cannot leave sequences out"):
        imported(stage.store, planned(writer))
