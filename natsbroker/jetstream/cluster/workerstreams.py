"""The streams of a host's workers, each of which serves those in its own directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from natsbroker.errors import NoResponders
from natsbroker.interfaces import IMessageBus
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.cluster.accountpeers import AccountPeers, configOf
from natsbroker.jetstream.cluster.peers import BrokerRequests
from natsbroker.jetstream.cluster.placedstore import Rows
from natsbroker.jetstream.cluster.streamplaces import StreamPlaces
from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.members import JetStreamPeer, JetStreamPeers
from natsbroker.jetstream.model.streamconfig import Placement, StorageType, StreamConfig
from natsbroker.jetstream.streams.stream import Stream, keyOf
from natsbroker.runtime.deadlines import Deadlines
from natsbroker.storage.lmdb.encryption.keyring import Encryption

_log = Logger(namespace="natsbroker.jetstream")

FINDING = 3.0
"""Seconds in which an account has to be found: the worker that asks waits little longer."""

InThread = Callable[..., Awaitable[Any]]
"""Calls a function with arguments in a thread."""


class WorkerStreams:
    """
    One worker's part.

    @ivar table: which worker has which stream.
    @ivar requests: asks the other workers.
    @ivar members: the workers, as they were seen last.
    @ivar isSilent: never: each worker has a store of its own.
    """

    isSilent = False

    def __init__(
        self,
        folder: Path,
        number: int,
        count: int,
        server: str,
        bus: IMessageBus,
        deadlines: Deadlines,
        inThread: InThread,
        locate: Callable[[str], object] = lambda account: None,
        encryption: Encryption | None = None,
    ) -> None:
        """
        The part of the worker C{number} of C{count} of a C{server}, whose files are in C{folder};
        C{bus} is that of the system account, and C{locate} looks up an account. With
        C{encryption}, configurations in their table are encrypted.

        @raise natsbroker.interfaces.records.StoreFailed: if their table cannot be opened.
        """
        name = f"{server}-{number}"
        self.table = StreamPlaces(folder, number, name, encryption)
        self.requests = BrokerRequests(bus, name, deadlines)
        self.members = JetStreamPeers("", name, {name: JetStreamPeer(name)})
        self._accounts: dict[str, WorkerAccount] = {}
        self._awaited: dict[str, list[Deferred[None]]] = {}
        self._deadlines = deadlines
        self._locate = locate
        self._numbers = range(1, count + 1)
        self._names = {number: name}
        self._inThread = inThread
        self.requests.handlers = {"apply": self._apply, "list": self._list, "usage": self._usage}

    async def start(self) -> None:
        """Show this worker to the others, and find out which of them are running."""
        self.requests.open()
        await self._inThread(self.table.appear)
        await self.refresh()

    def close(self) -> None:
        """Answer no other worker."""
        self.requests.close()
        self.table.close()

    def answersFor(self, account: str) -> bool:
        """
        Whether this worker answers for a whole account: the first one that asks for the role does.
        """
        return self.table.lead(account)

    async def refresh(self) -> None:
        """Find out which workers are running."""
        names = self._names = self.table.names()
        alive = self.table.alive(names.keys() & set(self._numbers))
        members = {
            name: JetStreamPeer(name, isAlive=number in alive) for number, name in names.items()
        }
        self.members = JetStreamPeers("", self.members.own, members)

    def nameOf(self, number: int) -> str | None:
        return self._names.get(number)

    @property
    def loads(self) -> Counter[str]:
        """The number of streams of each worker."""
        names = self._names
        return Counter(
            {
                names[number]: streams
                for number, streams in self.table.loads().items()
                if number in names
            }
        )

    async def place(self, account: str, rows: Rows) -> None:
        """Set rows of an account's streams."""
        await self._inThread(self.table.change, account, rows)

    async def enter(self, account: JetStreamAccount) -> None:
        """Show which streams of an account this worker has."""
        streams = await account.states.load(b"stream/")
        await self._inThread(self.table.enter, account.name, streams)
        self._fire(account.name)

    def join(self, account: JetStreamAccount) -> WorkerAccount:
        """This worker's part of an account."""
        part = self._accounts[account.name] = WorkerAccount(self, account)
        return part

    def leave(self, account: JetStreamAccount) -> None:
        """Stop serving an account. Its streams and their rows stay."""
        self._accounts.pop(account.name, None)
        self.table.follow(account.name)

    async def _part(self, name: str) -> WorkerAccount:
        """
        The part of an account. An account that has had no client here is looked up, which may fetch
        its JWT.

        @raise NoResponders: if it is not found in time.
        """
        if name not in self._accounts:
            self._awaited.setdefault(name, []).append(waiting := Deferred[None]())
            timer = self._deadlines.after(FINDING, partial(self._fire, name))
            self._locate(name)
            await waiting
            timer.cancel()
        if name not in self._accounts:
            raise NoResponders(name.encode())
        return self._accounts[name]

    def _fire(self, name: str) -> None:
        for waiting in self._awaited.pop(name, ()):
            waiting.callback(None)

    async def _apply(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        await (await self._part(fields["account"])).apply(fields, body)
        return {}

    async def _list(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        shown = await (await self._part(fields["account"])).listed(fields["names"])
        return {"streams": list(shown.values())}

    async def _usage(self, fields: dict[str, Any], body: bytes) -> dict[str, Any]:
        usage = await (await self._part(fields["account"])).usage()
        accounts = [part.account for part in self._accounts.values()]
        stored = {
            storage: sum(account.usage(storage) for account in accounts) for storage in StorageType
        }
        return {
            **usage,
            "allMemory": stored[StorageType.MEMORY],
            "allStorage": stored[StorageType.FILE],
        }

    def reservedElsewhere(self, storage: StorageType) -> int:
        """The bytes that streams of other workers reserve, those of all accounts."""
        configs = map(configOf, self.table.elsewhere())
        return sum(max(config.max_bytes, 0) for config in configs if config.storage is storage)


class WorkerAccount(AccountPeers):
    """An account's streams among the workers. A stream stays with its worker."""

    def __init__(self, workers: WorkerStreams, account: JetStreamAccount) -> None:
        super().__init__(workers, account)
        self._workers = workers
        self._isCounting = False

    def leads(self, name: str) -> bool:
        return name in self.account.streams

    async def configs(self) -> dict[str, StreamConfig]:
        rows = self._workers.table.rowsOf(self.account.name)
        return self._decoded(row.config for row in rows.values())

    async def exists(self, name: str) -> bool:
        key = keyOf(b"stream", name)
        return self._workers.table.place(self.account.name, key) is not None

    async def leaders(self) -> dict[str, str | None]:
        await self._workers.refresh()
        rows = self._workers.table.rowsOf(self.account.name).values()
        self._decoded(row.config for row in rows)
        return {
            self._logOf(self._configs[row.config].name): self._workers.nameOf(row.worker)
            for row in rows
        }

    async def refresh(self) -> None:
        await self._workers.refresh()

    def verify(self, name: str) -> None:
        """True without asking: a stream stays with its worker."""

    def fitting(self, placement: Placement | None) -> Sequence[str]:
        return self._workers.members.fitting(placement)

    def countElsewhere(self) -> None:
        if not self._isCounting:
            self._isCounting = True
            counting = ensureDeferred(self._countElsewhere())
            counting.addErrback(lambda why: _log.failure("Other workers cannot be asked", why))
            counting.addBoth(self._counted)

    async def _countElsewhere(self) -> None:
        await self.refresh()
        usages = await self._othersUsages()
        self.account.useElsewhere(
            {
                StorageType.MEMORY: sum(usage["memory"] for usage in usages),
                StorageType.FILE: sum(usage["storage"] for usage in usages),
            },
            {
                StorageType.MEMORY: sum(usage["allMemory"] for usage in usages),
                StorageType.FILE: sum(usage["allStorage"] for usage in usages),
            },
        )

    def reservedElsewhere(self, storage: StorageType) -> int:
        return self._workers.reservedElsewhere(storage)

    def _counted(self, _: object) -> None:
        self._isCounting = False

    async def stepDown(self, stream: Stream, placement: Placement | None) -> None:
        raise errors.CLUSTER_REQUIRED()

    async def forgotten(self, name: str) -> None:
        """Nothing to do: the row was deleted with the configuration."""

    def close(self) -> None:
        """Nothing to do: the account's bus ends the requests."""
