"""The parent of workers: start, connections, deaths, reloads, lame duck, upgrades and the end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from natsbroker.advisories import LameDuckStarted, ShutdownStarted
from natsbroker.errors import BrokerError
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.configuration.build import buildText
from natsbroker.workers.messages import (
    Adopt,
    ApplyReload,
    AskServer,
    Closed,
    CloseExcess,
    DiscardReload,
    Entered,
    Failed,
    Gone,
    PartShown,
    PlanReload,
    Ready,
    ReloadPlanned,
    ReloadRefused,
    ServerAnswered,
    Start,
    StartLameDuck,
    StopWorker,
)
from natsbroker.workers.questions import PATIENCE as SILENCE
from natsbroker.workers.slots import LONGEST, PATIENCE, PAUSE, STEADY
from tests.server.support import Advisories, logLines, settingsOf
from tests.workers.support import INFO, Make, World


def failureOf(deferred: Deferred[Any]) -> list[str]:
    """The text of its failure, once there is one."""
    texts: list[str] = []
    deferred.addErrback(lambda failure: texts.append(failure.getErrorMessage()))
    return texts


class TestStart:
    def test_ready(self, make: Make) -> None:
        """The server is ready when all workers are, and logs this once."""
        world = make("max_payload: 77", count=3)
        ready: list[object] = []
        world.supervisor.whenReady().addCallback(ready.append)
        with logLines() as lines:
            world.supervisor.startService()
            for process in world.started[:2]:
                world.ready(process)
            assert (ready, "[INF] Server is ready" in lines) == ([], False)
            world.ready(world.started[2])
        assert ready == [None]
        assert lines[-2:] == [
            "[INF] Listening for client connections on 127.0.0.1:4333",
            "[INF] Server is ready",
        ]
        assert lines.count("[INF] Starting natsbroker") == 1
        starts = [process.said[0] for process in world.started]
        assert [(start.number, start.count) for start in starts] == [(1, 3), (2, 3), (3, 3)]
        assert {start.settings.max_payload for start in starts} == {77}
        assert len({start.secrets for start in starts}) == 1
        assert world.supervisor.addresses() == {"nats": ["nats://127.0.0.1:4333"]}

    def test_streaming(self, make: Make) -> None:
        """The log line about NATS Streaming follows the one about the server."""
        world = make()
        with logLines() as lines:
            world.supervisor.startService()
            for process, isStreaming in zip(world.started, (True, None), strict=True):
                process.read()
                world.say(process, Ready(INFO, {}, isStreaming))
        assert lines[-2:] == ["[INF] Server is ready", "[INF] Streaming Server is ready"]

    def test_failure(self, make: Make) -> None:
        """If a worker cannot start, the server does not start, for that reason."""
        world = make()
        failed = failureOf(world.supervisor.whenReady())
        world.supervisor.startService()
        process = world.started[1]
        process.channel.send(Failed("no such certificate"))
        process.end("exit code 1")
        assert failed == ["worker 2: no such certificate"]
        assert len(world.started) == 2

    def test_silentEnd(self, make: Make) -> None:
        """A worker that ends without a reason is reported with its exit code."""
        world = make()
        failed = failureOf(world.supervisor.whenReady())
        world.supervisor.startService()
        world.started[0].end("exit code 3")
        assert failed == ["worker 1: exit code 3"]


class TestConnections:
    def test_together(self, make: Make) -> None:
        """Connections that are accepted at once reach a worker in one piece."""
        world = make("", 1).start()
        clients = world.port.acceptAll(3)
        [process] = world.started
        process.said.clear()
        process.channel.doRead()
        adopted = [message for message in process.said if isinstance(message, Adopt)]
        assert (len(adopted), len(process.passed)) == (3, 3)
        for client in clients:
            client.close()

    def test_inTurn(self, make: Make) -> None:
        world = make().start()
        clients = [world.port.accept() for _ in range(4)]
        given = [process.read() for process in world.started]
        assert sorted(message.cid for messages in given for message in messages) == [3, 6, 9, 12]
        assert [len(messages) for messages in given] == [2, 2]
        assert all(isinstance(message, Adopt) for messages in given for message in messages)
        for client in clients:
            client.close()

    def test_accounts(self, make: Make) -> None:
        """The parent knows the account of each connection, until it ends."""
        world = make().start()
        client = world.port.accept()
        slot = next(slot for slot in world.supervisor.slots if slot.connections)
        process = world.started[slot.number - 1]
        world.say(process, Entered(3, "A"), Entered(9, "B"))
        assert slot.connections == {3: "A"}
        world.say(process, Closed(3, "A"))
        assert slot.connections == {}
        client.close()

    def test_accountFull(self, make: Make) -> None:
        """A client that exceeds its account's limit over all workers is disconnected."""
        world = make().start()
        clients = [world.port.accept() for _ in range(4)]
        cids = {process: [adopted.cid for adopted in process.read()] for process in world.started}
        first, second = world.started
        for process in (first, second):
            world.say(process, Entered(cids[process][0], "A", 2))
        assert (first.read(), second.read()) == ([], [])
        world.say(second, Entered(cids[second][1], "A", 2))
        assert (first.read(), second.read()) == ([], [CloseExcess(cids[second][1])])
        world.say(second, Closed(cids[second][1], "A"), Closed(cids[second][0], "A"))
        world.say(first, Entered(cids[first][1], "A", 2))
        assert first.read() == []
        for client in clients:
            client.close()

    def test_leafnodesFull(self, make: Make) -> None:
        """A leafnode that is one too many for its account, over all workers, is closed again."""
        world = make().start()
        first, second = world.started
        world.say(first, Entered(5, "A", 2, isLeafnode=True), Entered(7, "B", 1, isLeafnode=True))
        world.say(second, Entered(5, "A", 2, isLeafnode=True))
        assert (first.read(), second.read()) == ([], [])
        world.say(second, Entered(8, "A", 2, isLeafnode=True))
        assert (first.read(), second.read()) == ([], [CloseExcess(8, isLeafnode=True)])
        world.say(second, Closed(8, "A", isLeafnode=True))
        first.end("signal 9")
        world.say(second, Entered(11, "A", 2, isLeafnode=True))
        assert second.read() == []

    def test_noneReady(self, make: Make) -> None:
        """Connections are not accepted while no worker is ready."""
        world = make()
        world.supervisor.startService()
        assert not world.port.isReading
        for process in world.started:
            world.ready(process)
        assert world.port.isReading
        for process in world.started[:2]:
            process.end("signal 9")
        assert not world.port.isReading
        world.reactor.advance(PAUSE)
        world.ready(world.started[2])
        assert world.port.isReading


class TestDeaths:
    def test_next(self, make: Make) -> None:
        """
        After a worker's death, the next one starts after a pause, in the same slot and with the
        same keys.
        """
        world = make().start()
        client = world.port.accept()
        with logLines() as lines:
            world.started[0].end("signal 9")
        assert lines == ["[ERR] Worker 1 (pid 100) ended: signal 9; the next one starts in 0.1s"]
        world.reactor.advance(PAUSE / 2)
        assert len(world.started) == 2
        world.reactor.advance(PAUSE / 2)
        [start] = world.started[2].read()
        # Where the server listens was said once.
        assert start == replace(world.started[0].said[0], announces=False)
        with logLines() as lines:
            world.ready(world.started[2])
        assert lines == ["[INF] Worker 1 is ready"]
        assert not world.supervisor.slots[0].connections
        client.close()

    def test_pauses(self, make: Make) -> None:
        """The pauses double up to a limit, and are short again after a worker that ran for long."""
        world = make().start()
        begin, pauses = world.supervisor.slots[1].begin, []
        for _ in range(8):
            world.started[-1].end("signal 9")
            [call] = [call for call in world.reactor.getDelayedCalls() if call.func == begin]
            pauses.append(round(call.getTime() - world.reactor.seconds(), 3))
            world.reactor.advance(pauses[-1])
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, LONGEST, LONGEST]
        world.ready(world.started[-1])
        world.reactor.advance(STEADY)
        world.started[-1].end("signal 9")
        [call] = [call for call in world.reactor.getDelayedCalls() if call.func == begin]
        assert round(call.getTime() - world.reactor.seconds(), 3) == PAUSE

    def test_lines(self, make: Make) -> None:
        """A worker's log lines are lines of the server's log; its other output has its label."""
        world = make().start()
        with logLines() as lines:
            world.started[0].line("WRN [7] [WRN] 127.0.0.1:5 - cid:1 - Slow")
            world.started[1].line("Fatal Python error")
        assert lines == ["[WRN] 127.0.0.1:5 - cid:1 - Slow", "[ERR] Worker 2: Fatal Python error"]


class TestReload:
    def test_all(self, make: Make) -> None:
        """New settings are in force when every worker has agreed."""
        world = make("max_payload: 100").start()
        with logLines() as lines:
            world.supervisor.reload(listening("max_payload: 50"))
            plans = [process.read() for process in world.started]
            assert [plan.settings.max_payload for [plan] in plans] == [50, 50]
            world.say(world.started[0], ReloadPlanned())
            assert (world.started[0].read(), world.settings.max_payload) == ([], 100)
            world.say(world.started[1], ReloadPlanned())
        assert [process.read() for process in world.started] == [[ApplyReload()], [ApplyReload()]]
        assert world.settings.max_payload == 50
        assert lines[0] == "[INF] Reloaded: max_payload = 50"
        assert lines[1].startswith("[INF] Reloaded server configuration ")
        assert len(lines) == 2

    def test_none(self, make: Make) -> None:
        """If one worker refuses a reload, it fails; the reason is logged once."""
        world = make("max_payload: 100").start()
        with logLines() as lines:
            world.supervisor.reload(listening("max_payload: 50"))
            world.say(world.started[0], ReloadRefused(("no file",)))
            world.say(world.started[1], ReloadRefused(("no file",)))
        for process in world.started:
            assert [type(message) for message in process.read()] == [PlanReload, DiscardReload]
        assert world.settings.max_payload == 100
        assert lines == ["[ERR] Failed to reload server configuration: no file"]

    def test_parent(self, make: Make) -> None:
        """A reload that the parent can refuse itself does not reach the workers."""
        world = make().start()
        with pytest.raises(ReloadError, match="not supported for Workers: old=2, new=3"):
            world.supervisor.reload(settingsOf('workers: 3, listen: "127.0.0.1:4333"'))
        assert [process.read() for process in world.started] == [[], []]

    def test_unshared(self, make: Make) -> None:
        """A reload to settings that several workers cannot share is refused."""
        world = make().start()
        with pytest.raises(ReloadError, match=r"services\.traffic: the service"):
            world.supervisor.reload(listening("services { traffic {} }"))

    def test_twice(self, make: Make) -> None:
        world = make().start()
        world.supervisor.reload(listening("max_payload: 50"))
        with pytest.raises(ReloadError, match="another reload is under way"):
            world.supervisor.reload(listening("max_payload: 60"))

    def test_silentWorker(self, make: Make) -> None:
        """The log names a worker that delays a reload, and none after the reload."""
        world = make().start()
        world.supervisor.reload(listening("max_payload: 50"))
        world.say(world.started[1], ReloadPlanned())
        with logLines() as lines:
            world.reactor.advance(SILENCE)
            assert lines == ["[WRN] The reload waits for worker 1"]
            world.say(world.started[0], ReloadPlanned())
            world.supervisor.reload(listening("max_payload: 60"))
            for process in world.started:
                world.say(process, ReloadPlanned())
            world.reactor.advance(SILENCE)
        assert sum("waits" in line for line in lines) == 1

    def test_deathMeanwhile(self, make: Make) -> None:
        """
        A worker that ends during a reload does not count; the next one gets the decided settings.
        """
        world = make("max_payload: 100").start()
        world.supervisor.reload(listening("max_payload: 50"))
        world.say(world.started[1], ReloadPlanned())
        world.started[0].end("signal 9")
        assert world.settings.max_payload == 50
        world.reactor.advance(PAUSE)
        [start] = world.started[2].read()
        assert start.settings.max_payload == 50

    def test_startMeanwhile(self, make: Make) -> None:
        """A worker that started with the old settings is started again."""
        world = make("max_payload: 100").start()
        world.started[0].end("signal 9")
        world.reactor.advance(PAUSE)
        world.supervisor.reload(listening("max_payload: 50"))
        world.say(world.started[1], ReloadPlanned())
        world.ready(world.started[2])
        assert world.started[2].read() == [StopWorker()]
        world.started[2].end()
        [start] = world.started[3].read()
        assert (start.number, start.settings.max_payload) == (1, 50)

    def test_planners(self, make: Make) -> None:
        """A planner of the surrounding process takes part in a reload."""
        world = make("max_payload: 100").start()
        applied: list[int] = []
        world.supervisor.addPlanner(lambda new, changes: lambda: applied.append(new.max_payload))
        world.supervisor.reload(listening("max_payload: 50"))
        for process in world.started:
            assert applied == []
            world.say(process, ReloadPlanned())
        assert applied == [50]


def listening(text: str) -> Any:
    """The settings of the same server with some changes."""
    return buildText(f'workers: 2, listen: "127.0.0.1:4333"\n{text}', {}).settings


class TestLameDuck:
    def test_all(self, make: Make) -> None:
        """
        The lame duck mode ends when the last connection of all workers has ended; then the workers
        end.
        """
        world = make().start()
        observer = Advisories()
        world.supervisor.observe(observing(observer))
        over: list[object] = []
        with logLines() as lines:
            world.supervisor.lameDuck().addCallback(over.append)
            assert world.announced(world.started[0]) == LameDuckStarted()
            world.reactor.advance(world.settings.lame_duck_grace_period)
        assert lines[-1] == "[INF] Closing existing clients"
        assert world.supervisor.isLameDuck
        assert world.port.disconnected
        assert [process.read() for process in world.started] == [
            [StartLameDuck()],
            [StartLameDuck()],
        ]
        world.say(world.started[0], Gone())
        assert over == []
        world.started[1].end("signal 9")
        assert len(over) == 1
        assert len(world.started) == 2
        assert observer.seen == [LameDuckStarted()]
        with pytest.raises(BrokerError, match="already"):
            world.supervisor.lameDuck()


def observing(observer: Advisories) -> Any:
    """As an observer by its interface."""
    from zope.interface import alsoProvides

    from natsbroker.interfaces import IObserver

    alsoProvides(observer, IObserver)
    return observer


class TestUpgrade:
    def test_inTurn(self, make: Make) -> None:
        """Each worker is replaced when its connections have ended; the others accept new ones."""
        world = make().start()
        with logLines() as lines:
            world.supervisor.upgrade()
            first, second = world.started
            assert (first.read(), second.read()) == ([StartLameDuck()], [])
            client = world.port.accept()
            assert [type(message) for message in second.read()] == [Adopt]
            world.say(first, Gone())
            assert first.read() == [StopWorker()]
            first.end()
            assert second.read() == []
            world.ready(world.started[2])
            assert second.read() == [StartLameDuck()]
            world.say(second, Gone())
            second.end()
            world.ready(world.started[3])
        numbers = [process.said[0].number for process in world.started]
        assert numbers == [1, 2, 1, 2]
        assert lines[0] == "[INF] Upgrading worker 1 of 2"
        assert lines[-1].startswith("[INF] Upgraded 2 workers")
        client.close()

    def test_killedMeanwhile(self, make: Make) -> None:
        """A worker that is killed while the upgrade waits for it has one successor."""
        world = make().start()
        world.supervisor.upgrade()
        world.started[0].end("signal 9")
        world.reactor.advance(PAUSE)
        assert [process.pid for process in world.started] == [100, 101, 102]
        world.ready(world.started[2])
        assert world.started[1].read() == [StartLameDuck()]

    def test_newOneFails(self, make: Make) -> None:
        """If the new worker does not start, the old ones stay."""
        world = make().start()
        world.supervisor.upgrade()
        world.say(world.started[0], Gone())
        world.started[0].end()
        with logLines() as lines:
            world.started[2].end("exit code 1")
        assert "[ERR] The upgrade ends early: worker 1 does not start" in lines
        assert world.started[1].read()[1:] == []
        world.reactor.advance(PAUSE)
        assert world.started[3].read()[0].number == 1

    def test_twice(self, make: Make) -> None:
        world = make().start()
        world.supervisor.upgrade()
        with logLines() as lines:
            world.supervisor.upgrade()
        assert lines == ["[WRN] No upgrade now: another is under way, or the server ends"]


class TestStop:
    def test_order(self, make: Make) -> None:
        """All workers are stopped, and the server ends after them."""
        world = make().start()
        observer = Advisories()
        world.supervisor.observe(observing(observer))
        over: list[object] = []
        with logLines() as lines:
            world.supervisor.stopService().addCallback(over.append)
            assert world.announced(world.started[0]) == ShutdownStarted()
            assert [process.read() for process in world.started] == [[StopWorker()], [StopWorker()]]
            world.started[0].end()
            assert over == []
            world.started[1].end()
        assert len(over) == 1
        assert lines == ["[INF] Initiating Shutdown...", "[INF] Server Exiting.."]
        assert observer.seen == [ShutdownStarted()]
        assert world.port.disconnected

    def test_deadSlot(self, make: Make) -> None:
        """A slot that waits for its next process gets none during the stop."""
        world = make().start()
        world.started[0].end("signal 9")
        stopping = world.supervisor.stopService()
        world.started[1].end()
        assert stopping.called
        world.reactor.advance(2 * PAUSE)
        assert len(world.started) == 2

    def test_stubborn(self, make: Make) -> None:
        """A worker that does not end is killed."""
        world = make().start()
        stopping = world.supervisor.stopService()
        world.started[0].end()
        with logLines() as lines:
            world.reactor.advance(PATIENCE)
        assert lines[0] == "[ERR] Worker 2 does not stop and is killed"
        assert world.started[1].signals == ["KILL"]
        assert stopping.called


class TestFace:
    """Questions about the server, and the worker that speaks for it."""

    def speaking(self, world: World) -> list[bool]:
        for process in world.started:
            process.read()
        return [process.isSpeaking for process in world.started]

    def test_speaker(self, make: Make) -> None:
        """
        The first worker that accepts connections speaks for the server, and only one at a time.
        """
        world = make().start()
        assert self.speaking(world) == [True, False]
        world.started[0].end("signal 9")
        assert world.started[1].read() == []
        assert world.started[1].isSpeaking
        world.reactor.advance(PAUSE)
        world.ready(world.started[2])
        assert self.speaking(world)[1:] == [False, True]

    def test_lameSpeaker(self, make: Make) -> None:
        """
        A worker that is being replaced does not speak for the server; one of a server in lame duck
        mode does.
        """
        world = make().start()
        world.supervisor.upgrade()
        assert self.speaking(world) == [False, True]
        other = make().start()
        other.supervisor.lameDuck()
        other.announced(other.started[0])
        assert self.speaking(other) == [True, False]

    def test_asked(self, make: Make) -> None:
        """A worker's question about the server is answered with the answers of all workers."""
        world = make().start()
        first, second = world.started
        body = b'{"accounts":["A"],"include_unused":true}'
        world.say(second, AskServer(7, "ofAccount", ("STATZ", "PING", body)))
        for process in world.started:
            world.reactor.advance(0.01)
            [part] = process.read()
            assert (part.name, part.arguments) == ("accounts", (["A"],))
            row = {"acc": "A", "conns": process.pid, "total_conns": process.pid}
            world.say(process, PartShown(part.number, {"account_statz": [row]}))
        world.reactor.advance(0.01)
        world.reactor.advance(0.01)
        [answer] = second.read()
        assert (type(answer), answer.number) == (ServerAnswered, 7)
        document = json.loads(answer.answer)
        assert document["server"]["id"] == INFO.server_id
        assert document["data"]["account_statz"] == [{"acc": "A", "conns": 201, "total_conns": 201}]
        assert first.read() == []

    def test_actions(self, make: Make) -> None:
        """A connection is closed by its worker; a reload is done by the parent."""
        world = make().start()
        problems = ["no such file"]
        world.supervisor.useReload(lambda: problems)
        for number, outcomes in enumerate(((False, True), (False, False))):
            world.say(world.started[0], AskServer(number, "ofAction", ("KICK", b'{"cid":5}')))
            for process, outcome in zip(world.started, outcomes, strict=True):
                [part] = process.read()
                assert (part.name, part.arguments) == ("kick", (5,))
                world.say(process, PartShown(part.number, outcome))
            [answer] = world.started[0].read()
            assert ("error" in json.loads(answer.answer)) is not any(outcomes)
        world.say(world.started[0], AskServer(8, "ofAction", ("RELOAD", b"")))
        [answer] = world.started[0].read()
        assert json.loads(answer.answer)["error"]["description"] == problems[0]


def test_starts(make: Make) -> None:
    """The start message has all that a worker needs to know."""
    world = make().start()
    start = world.started[1].said[0]
    assert isinstance(start, Start)
    assert start.addresses == {"client": ("127.0.0.1", 4333)}
