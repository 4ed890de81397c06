"""
A server of three workers in simulated time: its parent, the workers, which die, hang and come back,
and clients of two accounts.

The parent and the workers are those of an operation, without the processes around them.
"""

from __future__ import annotations

import io
import json
import re
import socket
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import cache
from hashlib import sha256
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from twisted.internet.error import ProcessExitedAlready
from twisted.logger import globalLogBeginner

from natsbroker.broker import Broker
from natsbroker.clients import adoption
from natsbroker.config.model import Settings
from natsbroker.routes.modern import RouteAccount
from natsbroker.server import composition
from natsbroker.server.configuration.build import buildText
from natsbroker.server.identity import ServerKeys
from natsbroker.workers import placing, worker
from natsbroker.workers.slots import WorkerSlot
from natsbroker.workers.supervisor import Supervisor
from natsbroker.workers.worker import WorkerProcess
from tests.simulation.people import Person
from tests.simulation.processes import Machine, Process, Stream
from tests.simulation.world import CLIENTS, World, address

__all__ = ["ACCOUNTS", "Customer", "WorkerWorld"]

ACCOUNTS = ("A", "B")

#: How long it takes until all is well again, in seconds: until the last worker is there.
RECOVERY = 15.0

#: The longest time that an upgrade may take.
_UPGRADE = 600.0

_TEXT = """
server_name: n, workers: 3, listen: "10.0.0.1:4222", fast_lane: false
authorization { timeout: 60 }
lame_duck_duration: "30s", lame_duck_grace_period: "10s"
accounts {
    A { users: [ { user: A, password: A } ] }
    B { users: [ { user: B, password: B } ] }
}
"""

_HELLO = (
    b'CONNECT {"verbose":false,"headers":true,"no_responders":false,"name":"%d","user":"%b",'
    b'"pass":"%b"}\r\n'
)

_TOKEN = re.compile(rb"<(\d+):(\d+)>")


@cache
def _settings() -> Settings:
    return buildText(_TEXT, {}).settings


class WorkerChoice(NamedTuple):
    """
    A choice of placement.

    @ivar factor: a worker has room below this multiple of the mean of all,
    @ivar spare: and this many connections.
    """

    factor: float
    spare: int


WORKER_CHOICES = (
    WorkerChoice(placing.FACTOR, placing.SPARE),
    WorkerChoice(1.0, 2),
    WorkerChoice(0.0, 0),
)


class Customer(Person):
    """
    A client.

    @ivar account: to which it belongs.
    @ivar cid: the number of its connection; 0 before INFO.
    """

    cid = 0

    def __init__(self, number: int, account: str, host: Any) -> None:
        super().__init__(number, 0, host)
        self.account = account

    def hello(self) -> bytes:
        name = self.account.encode()
        return _HELLO % (self.number, name, name)

    def greeted(self, line: bytes) -> None:
        self.cid = json.loads(line[len(b"INFO ") :])["client_id"]


class _Worker:
    """A worker's process, as its parent sees it."""

    def __init__(self, process: Process, pid: int, ended: Callable[[str], object]) -> None:
        self.process = process
        self.pid = pid
        self._ended = ended

    def signalProcess(self, name: str) -> None:
        if not self.process.isAlive:
            raise ProcessExitedAlready
        self.process.die()
        self._ended(f"signal {name}")


class _Parent(Supervisor):
    def __init__(self, world: WorkerWorld) -> None:
        self._world = world
        super().__init__(
            _settings(), reactor=world.parent, spawn=world.spawn, random=world.random.randbytes
        )

    def ready(self, slot: WorkerSlot) -> None:
        super().ready(slot)
        self._world.over(slot.number)


class WorkerWorld(World):
    """
    @ivar parent: the process that accepts.
    @ivar supervisor: the parent.
    @ivar machine: everybody's.
    """

    def _choose(self) -> None:
        self.machine = Machine(self.clock, self.random)
        self.machine.latency = self.random.choice([0.0001, 0.001, 0.003])
        self.workerChoice = self.random.choice(WORKER_CHOICES)
        self._seen = ACCOUNTS[0]
        self._pids = 0
        self._workers: dict[int, _Worker] = {}
        self._ongoing: dict[int, set[int]] = {}
        self._patch = pytest.MonkeyPatch()
        self._replace()
        self.parent = Process(self.machine)
        self._crowd = Process(self.machine)
        self.supervisor = _Parent(self)
        acceptor: Any = self.supervisor.acceptor
        acceptor._random = Random(self.random.random())
        self.supervisor.startService()

    def _replace(self) -> None:
        """Replace what belongs to a whole process, or has chances of its own."""
        patch = self._patch
        patch.setattr(globalLogBeginner, "beginLoggingTo", lambda *given, **named: None)
        patch.setattr(worker, "gc", SimpleNamespace(freeze=_nothing, enable=_nothing))
        patch.setattr(worker, "FullPasses", _NoPasses)
        patch.setattr(worker, "Broker", self._broker)
        patch.setattr(worker, "adopt", self._adopt)
        patch.setattr(adoption, "Server", Stream)
        patch.setattr(composition, "ServerKeys", lambda: ServerKeys(self.random.randbytes))
        patch.setattr(placing, "FACTOR", self.workerChoice.factor)
        patch.setattr(placing, "SPARE", self.workerChoice.spare)
        forward = RouteAccount.forward

        def counted(target: Any, message: Any, queues: Any) -> None:
            here, there = self.machine.current.number, int(target._server.rpartition("-")[2])
            for token in _TOKEN.findall(message.body):
                key = int(token[0]), int(token[1])
                self.sent[key, address(here), address(there)] += 1
            forward(target, message, queues)

        patch.setattr(RouteAccount, "forward", counted)

    @property
    def account(self) -> str:
        return self._seen

    @property
    def copies(self) -> int:
        return 1

    @property
    def settle(self) -> float:
        return 0.5 + 300 * self.machine.latency

    @property
    def trace(self) -> str:
        got = [
            (person.number, person.broker, wish.sid, wish.got)
            for person in self.people.values()
            for wish in person.wishes.values()
        ]
        return sha256(repr(got).encode()).hexdigest()

    def of(self, account: str) -> WorkerWorld:
        """The world as clients of one account see it."""
        world = copy(self)
        world._seen = account
        world.people = {
            number: person
            for number, person in self.people.items()
            if isinstance(person, Customer) and person.account == account
        }
        world.sent = Counter(
            {way: count for way, count in self.sent.items() if way[0][0] in world.people}
        )
        return world

    def advance(self, amount: float) -> None:
        self.machine.advance(amount)

    def slot(self, number: int) -> WorkerSlot:
        return self.supervisor.slots[number - 1]

    def customers(self) -> list[Customer]:
        """Everybody there has ever been."""
        return [person for person in self.people.values() if isinstance(person, Customer)]

    # Workers.

    def spawn(self, reactor: Any, line: Any, ended: Any) -> tuple[_Worker, socket.socket]:
        def report(how: str) -> None:
            self.parent.callLater(self.random.random() * 0.01, ended, how)

        process = Process(self.machine, lambda code: report(f"exit code {code}"))
        self._pids += 1
        made = _Worker(process, self._pids, report)
        ours, theirs = socket.socketpair()
        running: Any = WorkerProcess(process, theirs, io.StringIO())
        process.exitCode = lambda: running.exitCode
        process.callLater(self.random.random() * 0.3, running._channel.start)
        process.note(running._channel)
        return made, ours

    def _broker(self, settings: Settings, **given: Any) -> Broker:
        number = given["hostCluster"].number
        broker = Broker(settings, random=Random(self.random.random()), **given)
        given["reactor"].number = number
        self.brokers[number] = broker
        return broker

    def _adopt(
        self, process: Process, factory: Any, poller: Any, accepted: Any, *given: Any
    ) -> Any:
        place = given[0]
        self.people[place[1]].broker = process.number
        return adoption.adopt(process, factory, poller, accepted, *given)

    def start(self, number: int) -> None:
        """Workers are started by their parent."""

    def _process(self, number: int) -> Process | None:
        slot: Any = self.slot(number)
        return None if slot._process is None else slot._process.process

    def kill(self, number: int) -> None:
        slot: Any = self.slot(number)
        if slot._process is not None and slot._process.process.isAlive:
            self._troubled(number)
            slot._process.signalProcess("KILL")

    def hang(self, number: int) -> None:
        """Have a worker do nothing until L{resume}."""
        process = self._process(number)
        if process is not None and process.isAlive:
            self._troubled(number)
            process.isHung = True

    def resume(self) -> None:
        for number in self.numbers:
            process = self._process(number)
            if process is not None:
                process.isHung = False

    def upgrade(self) -> None:
        for number in self.numbers:
            self._troubled(number)
        self.supervisor.upgrade()

    def _troubled(self, number: int) -> None:
        first = len(self.troubles)
        for other in self.numbers:
            self.begin(number, other)
        self._ongoing.setdefault(number, set()).update(range(first, len(self.troubles)))

    def over(self, number: int) -> None:
        """End the trouble with a worker."""
        now = self.clock.seconds()
        for place in self._ongoing.pop(number, ()):
            since, _, pair = self.troubles[place]
            self.troubles[place] = since, now, pair

    def heal(self) -> None:
        self.resume()
        self.advance(RECOVERY)
        supervisor: Any = self.supervisor
        until = self.clock.seconds() + _UPGRADE
        while supervisor._isUpgrading and self.clock.seconds() < until:
            self.advance(RECOVERY)
        for number in self.numbers:
            self.over(number)

    def isApart(self, one: int, other: int, since: float, until: float) -> bool:
        # 0 is the place of a client that no worker has.
        return not (one and other) or self.wasTroubled(one, other, since, until)

    # People.

    def welcome(self, broker: int) -> None:
        """Have one more client, which its parent places; C{broker} says of which account."""
        number = len(self.people) + 1
        person = Customer(number, ACCOUNTS[broker % len(ACCOUNTS)], self._crowd)
        self.people[number] = person
        [port] = self.parent.ports
        stream: Any = Stream
        connect: Any = person.makeConnection
        connect(stream(port.call(number), person, ("10.0.0.1", CLIENTS), None, 0, self._crowd))

    def drop(self, person: Person) -> None:
        transport: Any = person.transport
        transport.abortConnection()

    # The end.

    def close(self) -> None:
        stopping = self.supervisor.stopService()
        self.advance(10.0)
        if not stopping.called:
            raise AssertionError("the server does not stop")

    def restore(self) -> None:
        self._patch.undo()


class _NoPasses:
    """The garbage collector is everybody's."""

    def __init__(self, reactor: Any) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


def _nothing() -> None:
    """Do nothing."""
