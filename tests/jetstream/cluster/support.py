"""
Brokers that share a store in memory, and the buses of their accounts, in one process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock, deferLater
from zope.interface import implementer

from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.config.model import JetStream
from natsbroker.interfaces import IStateStore, IViewableStore
from natsbroker.interfaces.records import (
    LeaseCensus,
    LeaseHolder,
    LeaseLost,
    NoSuchLog,
    StoreFailed,
)
from natsbroker.jetstream.cluster.leadership import ClusterLeadership
from natsbroker.jetstream.model.limits import AccountAllowance
from natsbroker.jetstream.service import JetStreamService
from natsbroker.jetstream.streams.recovery import abandonStream
from natsbroker.wire.values import Kind
from tests.jetstream.support import Stage, hostOf
from tests.support import Router


class Leases:
    """The brokers that hold the leases of logs and spaces."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self.inner = inner
        self.clock = clock
        self.brokers: list[SharedStore] = []
        self.logs: dict[str, SharedStore] = {}
        self.spaces: dict[str, SharedStore] = {}
        self.known: set[str] = set()


class SharedLog:
    """
    A log, as long as its broker has the lease.
    """

    def __init__(self, store: SharedStore, inner: Any) -> None:
        self._store = store
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name in ("append", "delete", "discardBefore", "skipTo"):
            return lambda *args: self._store.ifHeld(self._inner.name, lambda: attribute(*args))
        return attribute


@implementer(IStateStore)
class SharedStates:
    """
    A space of state, as long as its broker has the lease.
    """

    def __init__(self, store: SharedStore, space: str) -> None:
        self._store = store
        self._space = space
        self._inner = store.leases.inner.states(space)

    def load(self, prefix: bytes = b"") -> Deferred[dict[bytes, bytes]]:
        return self._store.inSpace(self._space, lambda: self._inner.load(prefix))

    def put(self, key: bytes, value: bytes) -> Deferred[None]:
        return self.change({key: value})

    def delete(self, key: bytes) -> Deferred[None]:
        return self.change({key: None})

    def change(self, changes: Mapping[bytes, bytes | None]) -> Deferred[None]:
        return self._store.inSpace(self._space, lambda: self._inner.change(changes))


@implementer(IViewableStore)
class SharedStore:
    """
    One broker's view of the store.
    """

    lease = 3.0
    isSure = True

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.name = ""
        self.isAlive = True
        self.isReachable = True
        self.watchers: list[Any] = []
        leases.brokers.append(self)

    def ifHeld(self, log: str, call: Callable[[], Any]) -> Deferred[Any]:
        """Call a function on a log if this broker holds the log's lease."""
        if self.leases.logs.get(log) is not self:
            return fail(LeaseLost(log))
        result: Deferred[Any] = call()
        return result

    def verify(self, name: str) -> Deferred[None]:
        return self.ifHeld(name, lambda: succeed(None))

    def inSpace(self, space: str, call: Callable[[], Any]) -> Deferred[Any]:
        """Call a function on a space, and take the space's lease."""
        if not self._isFree(self.leases.spaces.get(space)):
            return fail(LeaseLost(space))
        self.leases.spaces[space] = self
        result: Deferred[Any] = call()
        return result

    def _isFree(self, holder: SharedStore | None) -> bool:
        return holder is None or holder is self or not holder.isAlive

    def introduce(self, name: str) -> Deferred[None]:
        self.name = name
        return succeed(None)

    def logs(self) -> Deferred[list[str]]:
        listing: Deferred[list[str]] = self.leases.inner.logs()
        return listing

    def open(self, name: str, create: bool = True) -> Deferred[Any]:
        if not self.isAlive:
            return fail(StoreFailed("unreachable"))
        if not self._isFree(self.leases.logs.get(name)):
            return fail(LeaseLost(name))
        opening: Deferred[Any] = self.leases.inner.open(name, create)

        def opened(log: Any) -> SharedLog:
            self.leases.logs[name] = self
            self.leases.known.add(name)
            return SharedLog(self, log)

        return opening.addCallback(opened)

    def drop(self, name: str) -> Deferred[None]:
        self.leases.known.discard(name)
        self.leases.logs.pop(name, None)
        dropped: Deferred[None] = self.leases.inner.drop(name)
        return dropped

    def states(self, space: str) -> IStateStore:
        return SharedStates(self, space)

    def census(self, prefix: str) -> Deferred[LeaseCensus]:
        if not (self.isAlive and self.isReachable):
            return fail(StoreFailed("unreachable"))
        leases = self.leases
        holders = {
            broker.name: LeaseHolder(broker.name, 0.5, broker.isAlive) for broker in leases.brokers
        }
        logs = {
            log: holder.name if (holder := leases.logs.get(log)) and holder.isAlive else None
            for log in leases.known
            if log.startswith(prefix)
        }
        return succeed(LeaseCensus(holders, logs))

    def peek(self, prefix: str, keys: bytes) -> Deferred[dict[str, dict[bytes, bytes]]]:
        if not self.isReachable:
            return fail(StoreFailed("unreachable"))
        contents = {}
        for space in self.leases.spaces:
            if space.startswith(prefix):
                values = self.leases.inner.states(space).load(keys).result
                if values:
                    contents[space] = values
        return succeed(contents)

    def view(self, name: str) -> Deferred[Any]:
        if not (self.isAlive and self.isReachable):
            return fail(StoreFailed("unreachable"))
        if name not in self.leases.known:
            return fail(NoSuchLog(name))
        viewed: Deferred[Any] = self.leases.inner.open(name, create=False)
        return viewed

    def whenFree(self, name: str) -> Deferred[Any]:
        return fail(NotImplementedError())

    def giveUp(self, name: str) -> Deferred[None]:
        if self.leases.logs.get(name) is self:
            del self.leases.logs[name]
        return deferLater(self.leases.clock, 0)

    def giveUpStates(self, space: str) -> Deferred[None]:
        if self.leases.spaces.get(space) is self and self.isAlive:
            self.leases.spaces[space] = Gone()
        return succeed(None)

    def watch(self, watcher: Any) -> Callable[[], None]:
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def close(self) -> Deferred[None]:
        self.isAlive = False
        return succeed(None)


class Gone(SharedStore):
    """A holder of leases that no broker has any more."""

    def __init__(self) -> None:
        self.isAlive = self.isReachable = False
        self.name = ""


class ClusterStage(Stage):
    """
    A cluster: every broker receives every message.

    @ivar services: the brokers' JetStream by name.
    @ivar cluster: the name of the cluster; empty for brokers in none.
    """

    cluster = "C1"

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.system = Account("SYS", Router(), AccountDependencies(self._turn, Random(2)))
        self.leases = Leases(self.files, self.clock)
        self.services: dict[str, JetStreamService] = {}
        self.leaderships: dict[str, ClusterLeadership] = {}
        self.stores: dict[str, SharedStore] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Start a broker."""
        store = self.stores[name] = SharedStore(self.leases)

        def share(leased: Any, deadlines: Any) -> ClusterLeadership:
            bus = self.system.busFor(Kind.INTERNAL)
            tags = [f"az:{name}"]
            made = ClusterLeadership(leased, self.cluster, name, tags, bus, deadlines)
            self.leaderships[name] = made
            return made

        service = self.services[name] = JetStreamService(
            hostOf(self.account, self.clock, name), JetStream(), lambda: succeed(store), share
        )
        service.change("A", AccountAllowance())
        service.startService()
        self.settle()
        self.clock.advance(1)
        self.settle()

    def kill(self, name: str) -> None:
        """Stop a broker without an orderly end; its leases are free at once."""
        service = self.services.pop(name)
        for dispatcher in service._dispatchers.values():
            dispatcher.stop()
        self.leaderships[name].close()
        for stream in service.accounts["A"].streams.values():
            abandonStream(stream)
        self.stores[name].isAlive = False
        self.settle()

    def elapse(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds)):
            self.clock.advance(1)
            self.settle()

    def answers(self, subject: str, body: Any = b"") -> list[Any]:
        """All answers to a request behind C{$JS.API.}."""
        inbox = self.inbox(b"_INBOX.api")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"$JS.API.{subject}".encode(), data, b"_INBOX.api")
        for _ in range(5):
            self.settle()
        answers = [json.loads(payload) for payload in inbox.payloads]
        return answers

    def ask(self, subject: str, body: Any = b"") -> Any:
        """The one answer to a request."""
        (answer,) = self.answers(subject, body)
        return answer

    def make(self, name: str = "S", **config: Any) -> Any:
        """Create a stream with a subject of its own."""
        config = {"name": name, "subjects": [f"{name.lower()}.>"], **config}
        return self.ask(f"STREAM.CREATE.{name}", config)

    def leader(self, name: str = "S") -> str:
        """The broker that leads a stream."""
        leader: str = self.ask(f"STREAM.INFO.{name}")["cluster"]["leader"]
        return leader

    def streamsOf(self) -> dict[str, list[str]]:
        """The streams of each broker."""
        return {
            name: sorted(service.accounts["A"].streams) for name, service in self.services.items()
        }

    def end(self) -> None:
        """Stop all."""
        for service in list(self.services.values()):
            self.wait(service.stopService())
