"""
Accounts with exports and imports for tests, with a seeded random number generator and a clock that
only tests move.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, cast

from twisted.internet.task import Clock
from zope.interface import implementer

from natsbroker import hot
from natsbroker.accounts.account import Account
from natsbroker.accounts.core import AccountDependencies
from natsbroker.accounts.imports import ImportedService
from natsbroker.accounts.shadows import ImportedStream
from natsbroker.config.settings.accounts import SINGLETON, Latency, ServiceExport
from natsbroker.interfaces import IOrigin
from natsbroker.subjects.mapping import Destination, Mapping, MappingTable
from natsbroker.subjects.renaming import Renaming
from natsbroker.wire.values import ClientInfo, Kind, Message
from tests.support import Recorder, Router

__all__ = ["Market", "Person"]


@implementer(IOrigin)
class Person(Recorder):
    """
    A client that publishes.

    @ivar info: the description of the client that may be shared with services.
    """

    grant = None

    def __init__(self, account: str, name: str = "", rtt: int = 0) -> None:
        super().__init__()
        self.info = ClientInfo(acc=account, name=name, rtt=rtt, server="here", kind="Client")

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return self.info if isDetailed else ClientInfo(acc=self.info.acc, rtt=self.info.rtt)


class Market:
    """
    Some accounts.

    @ivar clock: the clock of all accounts, which begins at 100 seconds.
    """

    def __init__(self, *names: str) -> None:
        self.clock = Clock()
        self.clock.advance(100.0)
        clock = self.clock
        random, batch = Random(1), hot.FlushBatch(lambda call: None)
        self.accounts = {
            name: Account(name, Router(), AccountDependencies(batch, random, cast(Any, clock)))
            for name in names
        }
        self._services: dict[str, list[ImportedService]] = {name: [] for name in names}
        self._streams: dict[str, list[ImportedStream]] = {name: [] for name in names}

    def __getitem__(self, name: str) -> Account:
        return self.accounts[name]

    def stream(self, importer: str, exporter: str, theirs: bytes, ours: bytes = b"") -> None:
        """
        Have an account import one more stream.
        """
        renaming = Renaming(theirs, ours or theirs)
        self._streams[importer].append(ImportedStream(self[exporter], renaming))
        assert self[importer].importStreams(self._streams[importer]) == []

    def service(
        self,
        importer: str,
        exporter: str,
        theirs: bytes,
        ours: bytes = b"",
        share: bool = False,
        responseType: str = SINGLETON,
        threshold: float = 10.0,
        sampling: int | None = None,
        export: ServiceExport | None = None,
    ) -> ServiceExport:
        """
        Have an account import one more service.

        @return: its export.
        """
        latency = None if sampling is None else Latency("latency", sampling)
        export = export or ServiceExport(
            theirs.decode(),
            response_type=responseType,
            response_threshold=threshold,
            latency=latency,
        )
        made = ImportedService(
            self[importer], self[exporter], export, Renaming(theirs, ours or theirs), share
        )
        self._services[importer].append(made)
        assert self[importer].importServices(self.services(importer)) == []
        return export

    def services(self, importer: str) -> list[Any]:
        """
        @return: the subscriptions that an account's imported services need.
        """
        return [service.subscription() for service in self._services[importer]]

    def map(self, account: str, **destinations: str) -> None:
        """
        Have an account map subjects.
        """
        made = [Mapping(a.encode(), [Destination(b.encode())]) for a, b in destinations.items()]
        self[account].mapSubjects(MappingTable(made, Random(1).randrange))

    def subscribe(
        self, account: str, pattern: bytes, queue: bytes = b"", who: Any = None, tag: Any = b"1"
    ) -> Any:
        """
        @return: a recorder with a subscription, which it has as C{subscription}.
        """
        who = who or Recorder()
        who.subscription = self[account].busFor(Kind.CLIENT).subscribe(pattern, who, tag, queue)
        return who

    def publish(
        self,
        account: str,
        subject: bytes,
        body: bytes = b"",
        reply: bytes = b"",
        kind: Kind = Kind.CLIENT,
        origin: Any = None,
        headers: bytes = b"",
        streamSubject: bytes = b"",
    ) -> int:
        """
        @return: how many receivers there were.
        """
        message = Message(subject, headers + body, reply, len(headers), origin)
        message.streamSubject = streamSubject
        return self[account].busFor(kind).publish(message)

    def advance(self, seconds: float) -> None:
        """
        Let time pass.
        """
        self.clock.advance(seconds)


def subjects(recorder: Any) -> list[bytes]:
    """
    @return: the subjects of what was received.
    """
    return [message.subject for message, _ in recorder.got]


def requestor(message: Message) -> dict[str, Any]:
    """
    @return: the description of the requestor in a request.
    """
    (line,) = [
        line for line in message.headers.split(b"\r\n") if line.startswith(b"Nats-Request-Info: ")
    ]
    document: dict[str, Any] = json.loads(line.partition(b": ")[2])
    return document


def events(recorder: Any) -> list[dict[str, Any]]:
    """
    @return: the events that were received.
    """
    return [json.loads(body) for body in recorder.bodies]
