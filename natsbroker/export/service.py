"""
The broker's side of the data pipeline: requests under C{$NB.API.>} about the logs of a service.

The subject of a request says what is asked, and of which log::

    $NB.API.CHANNEL.NAMES.CLUSTER            which there are
    $NB.API.CHANNEL.INFO.CLUSTER.CHANNEL     its state
    $NB.API.CHANNEL.FIND.CLUSTER.CHANNEL     the first sequence since a time
    $NB.API.CHANNEL.EXPORT.CLUSTER.CHANNEL   a range, as columnar frames
    $NB.API.CHANNEL.DIGEST.CLUSTER.CHANNEL   fingerprints of blocks of a range
    $NB.API.CHANNEL.HOLD.CLUSTER.CHANNEL     hold retention back; RENEW, RELEASE

So the permission to publish decides who may ask what.

Every request whose answer may be heard is answered; what takes long is done within the
budget; nothing is asked of logs that the service does not serve any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from natsbroker.export import digesting, exporting
from natsbroker.export.asking import ApiRequest
from natsbroker.export.budget import Budget
from natsbroker.export.digesting import DigestAnswer, DigestRequest
from natsbroker.export.exporting import RangeAnswer, RangeRequest
from natsbroker.export.holding import HoldTable
from natsbroker.export.logs import ILogConsumer, ILogDirectory
from natsbroker.export.questions import LARGEST, RequestFields
from natsbroker.export.texts import (
    BAD_REQUEST,
    CANNOT_HOLD,
    FAILED,
    HOLD_REFUSED,
    MADE_AGAIN,
    NO_HOLD,
    NO_LOG,
    NO_REQUEST,
    STORE,
    Refusal,
)
from natsbroker.interfaces import IHeldLog, IMessageBus, IStreamLog, ISubscriber, ISubscription
from natsbroker.interfaces.records import StoreError
from natsbroker.subjects.grammar import isValidSubject, matches
from natsbroker.wire.values import Message

__all__ = ["PREFIX", "ExportService"]

_log = Logger(namespace="natsbroker.export")

PREFIX = "$NB.API"

#: How many names an answer has at most.
_NAMES = 1000

#: The longest time that a hold may last without being renewed, in seconds: a year.
_LONGEST = 366 * 86400


@implementer(ILogConsumer, ISubscriber)
class ExportService:
    """
    Answers requests about the logs of one service.
    """

    def __init__(
        self,
        bus: IMessageBus,
        reactor: IReactorTime,
        worked: Callable[[], float] = time.process_time,
        now: Callable[[], int] = time.time_ns,
        maxPayload: Callable[[], int] = lambda: 1 << 20,
    ) -> None:
        """
        @param worked: seconds of work that were done, or that passed; see L{Budget}.
        @param now: the wall clock, in nanoseconds.
        @param maxPayload: how large a message may be.
        """
        self._bus = bus
        self._reactor = reactor
        self._worked = worked
        self._now = now
        self._maxPayload = maxPayload
        self._catalogue: ILogDirectory | None = None
        self._holds: HoldTable | None = None
        self._budget: Budget | None = None
        self._subscriptions: list[ISubscription] = []
        self._running: set[Deferred[None]] = set()

    def begin(self, catalogue: ILogDirectory) -> Deferred[None]:
        return ensureDeferred(self._begin(catalogue))

    async def _begin(self, catalogue: ILogDirectory) -> None:
        self._holds = HoldTable(catalogue, self._reactor, self._now)
        await self._holds.load()
        self._catalogue = catalogue
        self._budget = Budget(self._reactor, self._worked)
        pattern = f"{PREFIX}.{catalogue.kind}.*.{catalogue.realm}".encode()
        self._subscriptions = [
            self._bus.subscribe(pattern, self),
            self._bus.subscribe(pattern + b".>", self),
        ]

    def end(self) -> Deferred[None]:
        self._catalogue = None
        subscriptions, self._subscriptions = self._subscriptions, []
        for each in subscriptions:
            each.cancel()
        for running in list(self._running):
            running.cancel()
        budget, self._budget = self._budget, None
        if budget is not None:
            budget.stop()
        holds, self._holds = self._holds, None
        if holds is not None:
            holds.stop()
        return succeed(None)

    # Requests.

    def deliver(self, message: Message, tag: Any) -> None:
        asker = ApiRequest(self._bus, message)
        catalogue = self._catalogue
        if catalogue is None or not asker.isThere:
            return
        kind = f"{PREFIX}.{catalogue.kind}.".encode()
        verb, _, rest = message.subject[len(kind) :].partition(b".")
        name = rest[len(catalogue.realm.encode()) + 1 :].decode("utf-8", "backslashreplace")
        what = verb.decode("utf-8", "backslashreplace")
        asker.attempt(lambda: self._serve(catalogue, what, name, message, asker))

    def subscriptionEnded(self, tag: Any) -> None:
        """
        See L{ISubscriber.subscriptionEnded}.
        """

    def _serve(
        self, catalogue: ILogDirectory, verb: str, name: str, message: Message, asker: ApiRequest
    ) -> None:
        payload = message.payload
        if verb == "NAMES" and not name:
            asker.say(_names(catalogue, RequestFields(payload, ("pattern", "after"))))
            return
        serve = {
            "INFO": self._info,
            "FIND": self._find,
            "EXPORT": self._export,
            "DIGEST": self._digest,
            "HOLD": self._hold,
            "RENEW": self._renew,
            "RELEASE": self._release,
        }.get(verb)
        if serve is None or not name:
            raise Refusal(NO_REQUEST, verb=verb)
        log = catalogue.find(name)
        if log is None:
            raise Refusal(NO_LOG, kind=catalogue.kind.lower(), name=name)
        serve(log, name, payload, asker)

    def _checked(self, log: IStreamLog, name: str, question: RequestFields) -> None:
        """
        A request that names an identity is about the log that had it.
        """
        if "identity" in question and question.text("identity") != _identityOf(log):
            raise Refusal(MADE_AGAIN, kind=self._kind, name=name)

    @property
    def _kind(self) -> str:
        return "" if self._catalogue is None else str(self._catalogue.kind).lower()

    def _info(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, ("identity",))
        self._checked(log, name, question)
        asker.say(self._state(log, name))

    def _state(self, log: IStreamLog, name: str) -> dict[str, Any]:
        bounds = log.bounds()
        state = {
            "name": name,
            "identity": _identityOf(log),
            "first": bounds.first,
            "last": bounds.last,
            "messages": bounds.count,
            "bytes": bounds.size,
            "last_time": bounds.lastTime,
        }
        if IHeldLog.providedBy(log) and self._holds is not None:
            state["holds"] = self._holds.rows(log)
        return state

    def _find(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, ("identity", "time"))
        self._checked(log, name, question)
        self._run(self._findAt(log, question.number("time", -LARGEST), asker), asker)

    async def _findAt(self, log: IStreamLog, when: int, asker: ApiRequest) -> None:
        asker.say({"sequence": await log.sequenceAt(when), "last": log.bounds().last})

    def _export(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, exporting.FIELDS)
        self._checked(log, name, question)
        export = RangeAnswer(log, RangeRequest.read(question), asker, self._maxPayload())
        self._within.add(export, asker.origin)

    def _digest(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, digesting.FIELDS)
        self._checked(log, name, question)
        self._within.add(DigestAnswer(log, DigestRequest.read(question), asker), asker.origin)

    @property
    def _within(self) -> Budget:
        if self._budget is None:
            raise RuntimeError("the service is not running")
        return self._budget

    # Holds.

    def _hold(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, ("identity", "name", "floor", "seconds"))
        held = self._held(log, name, question)
        floor = question.number("floor", 1)
        seconds = question.number("seconds", 0, _LONGEST, 0)
        self._run(self._setHold(held, _holdName(question), floor, seconds, asker), asker)

    def _renew(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, ("identity", "name", "floor", "seconds"))
        held = self._held(log, name, question)
        hold = _holdName(question)
        floor = held.holds().get(hold)
        if floor is None:
            raise Refusal(NO_HOLD, kind=self._kind, name=name, hold=hold)
        floor = question.number("floor", 1, default=floor)
        seconds = question.number("seconds", 0, _LONGEST, 0)
        self._run(self._setHold(held, hold, floor, seconds, asker), asker)

    async def _setHold(
        self, log: IHeldLog, hold: str, floor: int, seconds: int, asker: ApiRequest
    ) -> None:
        if self._holds is None:
            return
        try:
            await self._holds.set(log, hold, floor, seconds)
        except ValueError as error:
            raise Refusal(HOLD_REFUSED, why=error) from None
        asker.say({"hold": self._holds.row(log, hold, floor), "first": log.bounds().first})

    def _release(self, log: IStreamLog, name: str, payload: bytes, asker: ApiRequest) -> None:
        question = RequestFields(payload, ("identity", "name"))
        held = self._held(log, name, question)
        self._run(self._endHold(held, _holdName(question), asker), asker)

    async def _endHold(self, log: IHeldLog, hold: str, asker: ApiRequest) -> None:
        if self._holds is None:
            return
        await self._holds.release(log, hold)
        asker.say({"released": hold})

    def _held(self, log: IStreamLog, name: str, question: RequestFields) -> IHeldLog:
        self._checked(log, name, question)
        if not IHeldLog.providedBy(log):
            raise Refusal(CANNOT_HOLD, kind=self._kind, name=name)
        return log

    # What is not answered at once.

    def _run(self, coroutine: Coroutine[Any, Any, None], asker: ApiRequest) -> None:
        running = ensureDeferred(coroutine)
        self._running.add(running)
        running.addBoth(self._ran, running, asker)

    def _ran(self, result: Failure | None, running: Deferred[None], asker: ApiRequest) -> None:
        self._running.discard(running)
        if not isinstance(result, Failure) or self._catalogue is None:
            return
        if isinstance(result.value, StoreError):
            asker.say(Refusal(STORE, why=result.value).answer())
        elif isinstance(result.value, Refusal):
            asker.say(result.value.answer())
        else:
            _log.failure("A request of a job failed", result)
            asker.say(Refusal(FAILED).answer())


def _identityOf(log: IStreamLog) -> str:
    return f"{log.identity:016x}"


def _holdName(question: RequestFields) -> str:
    name = question.text("name")
    if not name or not name.isprintable():
        raise Refusal(BAD_REQUEST, why="name must be a text that can be printed")
    return name


def _names(catalogue: ILogDirectory, question: RequestFields) -> dict[str, Any]:
    """
    The names behind one, so many as fit.
    """
    pattern = question.text("pattern", ">").encode("utf-8")
    if not isValidSubject(pattern):
        raise Refusal(BAD_REQUEST, why="pattern must be a subject")
    after = question.text("after", "")
    found = [each for each in catalogue.names() if matches(pattern, each.encode("utf-8"))]
    left = [each for each in found if each > after]
    return {"total": len(found), "names": left[:_NAMES], "more": len(left) > _NAMES}
