"""
The broker's side of the data pipeline: requests under C{$NB.API.>} about the logs of a service.

The subject names the request and the log, so the permission to publish decides who may ask::

    $NB.API.CHANNEL.NAMES.CLUSTER            the names of the logs
    $NB.API.CHANNEL.INFO.CLUSTER.CHANNEL     the state of one
    $NB.API.CHANNEL.FIND.CLUSTER.CHANNEL     the first sequence since a time
    $NB.API.CHANNEL.EXPORT.CLUSTER.CHANNEL   a range, as columnar frames
    $NB.API.CHANNEL.DIGEST.CLUSTER.CHANNEL   fingerprints of blocks of a range
    $NB.API.CHANNEL.HOLD.CLUSTER.CHANNEL     hold retention back; RENEW, RELEASE

For JetStream streams STREAM takes the place of CHANNEL, and the domain that of CLUSTER: C{_} where
there is none. Their user needs the permission for JetStream's own request as well.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, DeferredLock, ensureDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.export.holds import HoldTable
from natsbroker.export.logs import ILogConsumer, ILogDirectory
from natsbroker.export.ranges import DigestAnswer, ExportAnswer
from natsbroker.export.requests import LARGEST, ApiRequest, Reason, Refusal, RequestFields
from natsbroker.interfaces import (
    IBrokerHost,
    IHeldLog,
    IMessageBus,
    IStreamLog,
    ISubscriber,
    ISubscription,
    ITurns,
)
from natsbroker.interfaces.records import StoreError
from natsbroker.storage.stores import wallClockOf
from natsbroker.subjects.grammar import isValidSubject, matches
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.export")

PREFIX = "$NB.API"

_NAMES = 1000
"""The most names in an answer."""

_LONGEST = 366 * 86400
"""The longest time that a hold may last without being renewed, in seconds."""

MOST = 256
"""The most exports and digests that may wait."""

MOST_EACH = 32
"""The most of one connection that may wait."""


class _LogRequest(NamedTuple):
    log: IStreamLog
    name: str
    headerPrefix: int
    fields: RequestFields
    request: ApiRequest


@implementer(ILogConsumer, ISubscriber)
@dataclass(eq=False)
class ExportService:
    _bus: IMessageBus
    _reactor: IReactorTime
    _turns: ITurns
    _now: Callable[[], int] = time.time_ns
    _maxPayload: Callable[[], int] = lambda: 1 << 20
    _catalogue: ILogDirectory | None = field(default=None, init=False)
    _holds: HoldTable | None = field(default=None, init=False)
    _reading: DeferredLock = field(default_factory=DeferredLock, init=False)
    _counts: Counter[object] = field(default_factory=Counter, init=False)
    _subscriptions: list[ISubscription] = field(default_factory=list, init=False)
    _running: set[Deferred[None]] = field(default_factory=set, init=False)

    def begin(self, catalogue: ILogDirectory) -> Deferred[None]:
        return ensureDeferred(self._begin(catalogue))

    async def _begin(self, catalogue: ILogDirectory) -> None:
        self._holds = HoldTable(catalogue, self._reactor, self._now)
        await self._holds.load()
        self._catalogue = catalogue
        pattern = f"{PREFIX}.{catalogue.kind}.*.{catalogue.realm}".encode()
        self._subscriptions = [
            self._bus.serve(pattern, self),
            self._bus.serve(pattern + b".>", self),
        ]

    def end(self) -> Deferred[None]:
        self._catalogue = None
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            subscription.cancel()
        for running in list(self._running):
            running.cancel()
        holds, self._holds = self._holds, None
        if holds is not None:
            holds.stop()
        return succeed(None)

    def deliver(self, message: Message, tag: Any) -> None:
        request = ApiRequest(self._bus, message)
        catalogue = self._catalogue
        if catalogue is None or not request.isAnswerable:
            return
        kind = f"{PREFIX}.{catalogue.kind}.".encode()
        verb, _, rest = message.subject[len(kind) :].partition(b".")
        name = rest[len(catalogue.realm.encode()) + 1 :].decode("utf-8", "surrogateescape")
        what = decoded(verb)
        request.attempt(lambda: self._serve(catalogue, what, name, message, request))

    def subscriptionEnded(self, tag: Any) -> None:
        """Nothing to do: only L{end} ends it."""

    def _serve(
        self, catalogue: ILogDirectory, verb: str, name: str, message: Message, request: ApiRequest
    ) -> None:
        payload = message.payload
        if verb == "NAMES" and not name:
            fields = RequestFields(payload, ("pattern", "after"))
            request.answer(_names(catalogue, fields, request))
            return
        known, serve = VERBS.get(verb, ((), None))
        if serve is None or not name:
            raise Refusal(Reason.NO_REQUEST, verb=verb)
        if not request.mayPublishAny(catalogue.readSubjects(name)):
            raise Refusal(Reason.NOT_ALLOWED, kind=self._kind, name=name)
        log = catalogue.find(name)
        if log is None:
            raise Refusal(Reason.NO_LOG, kind=self._kind, name=name)
        prefix = catalogue.headerPrefix(name)
        fields = RequestFields(payload, ("identity", *known))
        if "identity" in fields and fields.text("identity") != _identityOf(log):
            # The identity is that of an earlier log with the same name.
            raise Refusal(Reason.MADE_AGAIN, kind=self._kind, name=name)
        self._run(serve(self, _LogRequest(log, name, prefix, fields, request)), request)

    @property
    def _kind(self) -> str:
        return "" if self._catalogue is None else str(self._catalogue.kind).lower()

    async def _info(self, asked: _LogRequest) -> None:
        bounds = asked.log.bounds()
        state = {
            "name": asked.name,
            "identity": _identityOf(asked.log),
            "first": bounds.first,
            "last": bounds.last,
            "messages": bounds.count,
            "bytes": bounds.size,
            "last_time": bounds.lastTime,
        }
        if IHeldLog.providedBy(asked.log) and self._holds is not None:
            state["holds"] = self._holds.rows(asked.log)
        asked.request.answer(state)

    async def _find(self, asked: _LogRequest) -> None:
        sequence = await asked.log.sequenceAt(asked.fields.number("time", -LARGEST))
        asked.request.answer({"sequence": sequence, "last": asked.log.bounds().last})

    async def _export(self, asked: _LogRequest) -> None:
        given = asked.log, asked.fields, asked.request
        answer = ExportAnswer(*given, self._maxPayload(), asked.headerPrefix)
        await self._answer(answer, asked.request.origin)

    async def _digest(self, asked: _LogRequest) -> None:
        given = asked.log, asked.fields, asked.request
        await self._answer(DigestAnswer(*given, asked.headerPrefix), asked.request.origin)

    async def _answer(self, answer: ExportAnswer | DigestAnswer, origin: object) -> None:
        """Do the steps of an answer in slices. Only one answer reads at a time, to save memory."""
        counts = self._counts
        if counts.total() >= MOST or counts[origin] >= MOST_EACH:
            raise Refusal(Reason.TOO_MANY)
        counts[origin] += 1
        try:
            isDone = False
            while not isDone:
                await self._turns.turn()
                await self._reading.acquire()
                try:
                    isDone = await answer.step()
                finally:
                    self._reading.release()
        finally:
            counts[origin] -= 1
            if not counts[origin]:
                del counts[origin]

    async def _hold(self, asked: _LogRequest, before: int | None = None) -> None:
        log, hold = self._held(asked)
        floor = asked.fields.number("floor", 1, default=before)
        seconds = asked.fields.number("seconds", 0, _LONGEST, 0)
        if self._holds is None:
            return
        try:
            await self._holds.set(log, hold, floor, seconds)
        except ValueError as error:
            raise Refusal(Reason.HOLD_REFUSED, why=error) from None
        row = self._holds.row(log, hold, floor)
        asked.request.answer({"hold": row, "first": log.bounds().first})

    async def _renew(self, asked: _LogRequest) -> None:
        log, hold = self._held(asked)
        floor = log.holds().get(hold)
        if floor is None:
            raise Refusal(Reason.NO_HOLD, kind=self._kind, name=asked.name, hold=hold)
        await self._hold(asked, floor)

    async def _release(self, asked: _LogRequest) -> None:
        log, hold = self._held(asked)
        if self._holds is not None:
            await self._holds.release(log, hold)
            asked.request.answer({"released": hold})

    def _held(self, asked: _LogRequest) -> tuple[IHeldLog, str]:
        if not IHeldLog.providedBy(asked.log):
            raise Refusal(Reason.CANNOT_HOLD, kind=self._kind, name=asked.name)
        name = asked.fields.text("name")
        if not name or not name.isprintable():
            raise Refusal(Reason.BAD_REQUEST, why="name must be a text that can be printed")
        return asked.log, name

    def _run(self, coroutine: Coroutine[Any, Any, None], request: ApiRequest) -> None:
        running = self._turns.begin(coroutine, request.origin, request.isHeard)
        self._running.add(running)
        running.addBoth(self._ran, running, request)

    def _ran(self, result: Failure | None, running: Deferred[None], request: ApiRequest) -> None:
        self._running.discard(running)
        if not isinstance(result, Failure) or self._catalogue is None:
            return
        # The broker stops, or nobody waits for the answer: a job then sees its connection closed.
        if result.check(CancelledError):
            return
        if isinstance(result.value, StoreError):
            request.refuse(Reason.STORE, why=result.value)
        elif isinstance(result.value, Refusal):
            request.answer(result.value.answer())
        else:
            _log.failure("A request of a job failed", result)
            request.refuse(Reason.FAILED)


VERBS: dict[str, tuple[tuple[str, ...], Callable[..., Coroutine[Any, Any, None]] | None]] = {
    "INFO": ((), ExportService._info),
    "FIND": (("time",), ExportService._find),
    "EXPORT": (ExportAnswer.FIELDS, ExportService._export),
    "DIGEST": (DigestAnswer.FIELDS, ExportService._digest),
    "HOLD": (("name", "floor", "seconds"), ExportService._hold),
    "RENEW": (("name", "floor", "seconds"), ExportService._renew),
    "RELEASE": (("name",), ExportService._release),
}
"""The fields of each request besides C{identity}, and the function that answers it."""


def _identityOf(log: IStreamLog) -> str:
    return f"{log.identity:016x}"


def _names(catalogue: ILogDirectory, fields: RequestFields, request: ApiRequest) -> dict[str, Any]:
    pattern = fields.text("pattern", ">").encode("utf-8")
    if not isValidSubject(pattern):
        raise Refusal(Reason.BAD_REQUEST, why="pattern must be a subject")
    after = fields.text("after", "")
    names = [
        name
        for name in catalogue.names()
        if matches(pattern, name.encode("utf-8"))
        and request.mayPublishAny(catalogue.readSubjects(name))
    ]
    left = [name for name in names if name > after]
    return {"total": len(names), "names": left[:_NAMES], "more": len(left) > _NAMES}


def exportServiceFor(
    host: IBrokerHost, bus: IMessageBus, maxPayload: Callable[[], int] | None = None
) -> ExportService:
    """C{maxPayload} is that of the bus's server; by default this broker's."""
    reactor, turns = host.reactor, host.turns.of(bus.account)
    largest = maxPayload or (lambda: int(host.settings.max_payload))
    return ExportService(bus, reactor, turns, wallClockOf(reactor), largest)
