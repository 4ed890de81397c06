"""
Requests about advice to the gateway interest policy::

    $NB.API.GATEWAY.ADVISE.GATEWAY        take advice
    $NB.API.GATEWAY.WITHDRAW.GATEWAY      drop advice
    $NB.API.GATEWAY.ADVICE.GATEWAY        list advice

GATEWAY is the name of the cluster that is asked; every member of it answers. The permission to
publish decides who may ask.
"""

from __future__ import annotations

import datetime
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.export.requests import LARGEST, ApiRequest, Reason, Refusal, RequestFields
from natsbroker.gateways.advice import MODES, OPTIMISTIC, GatewayAdvice
from natsbroker.interfaces import ISubscriber, ISubscription
from natsbroker.links.context import LinkDependencies
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.wire.instants import instant
from natsbroker.wire.text import decoded
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.export")

_PREFIX = b"$NB.API.GATEWAY."

_LONGEST = 366 * 86400.0
"""The longest time that advice may last, in seconds."""


@implementer(ISubscriber)
class AdviceResponder(Service):
    """Answers while it runs, in the system account."""

    def __init__(self, advice: GatewayAdvice, dependencies: LinkDependencies) -> None:
        self._advised = advice
        self._dependencies = dependencies
        self._subscription: ISubscription | None = None
        self._verbs = {b"ADVISE": self._advise, b"WITHDRAW": self._withdraw, b"ADVICE": self._list}

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        bus = self._dependencies.systemBus()
        gateway = self._advised.name.encode("utf-8", "surrogateescape")
        if bus is not None and isValidLiteral(gateway):
            self._subscription = bus.serve(b"%b*.%b" % (_PREFIX, gateway), self, bus)

    def stopService(self) -> Deferred[None] | None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()
        stopping: Deferred[None] | None = super().stopService()  # type: ignore[no-untyped-call]
        return stopping

    def deliver(self, message: Message, tag: Any) -> None:
        request = ApiRequest(tag, message)
        if request.isAnswerable:
            server = {"server": self._dependencies.serverId}
            request.attempt(lambda: request.answer({**self._served(message), **server}))

    def _served(self, message: Message) -> dict[str, Any]:
        verb = message.subject[len(_PREFIX) :].split(b".")[0]
        serve = self._verbs.get(verb)
        if serve is None:
            raise Refusal(Reason.NO_REQUEST, verb=decoded(verb))
        return serve(message.payload)

    def subscriptionEnded(self, tag: Any) -> None:
        """Nothing to do: only L{stopService} ends it."""

    def _advise(self, payload: bytes) -> dict[str, Any]:
        known = ("account", "gateway", "mode", "until", "max_no_interest")
        fields = RequestFields(payload, known)
        account, gateway = fields.text("account"), fields.text("gateway")
        if account not in self._advised.accounts():
            raise Refusal(Reason.NO_ACCOUNT, account=account)
        if gateway not in self._advised.clusters():
            raise Refusal(Reason.NO_GATEWAY, gateway=gateway)
        mode = fields.text("mode")
        if mode not in MODES:
            raise Refusal(Reason.BAD_REQUEST, why=f"mode must be one of: {', '.join(MODES)}")
        until = _secondsOf(fields.text("until"))
        if not 0 < until - self._dependencies.reactor.seconds() <= _LONGEST:
            raise Refusal(Reason.BAD_REQUEST, why="until must be in the future, and within a year")
        most: int | None = None
        if "max_no_interest" in fields:
            if mode != OPTIMISTIC:
                raise Refusal(Reason.BAD_REQUEST, why="max_no_interest needs the mode optimistic")
            most = fields.number("max_no_interest", 0, LARGEST)
        try:
            advice = self._advised.advise(account, gateway, mode, until, most)
        except ValueError as error:
            raise Refusal(Reason.ADVICE_REFUSED, why=error) from None
        _log.info(
            'Gateway "{gateway}" is advised to be {mode} in account {account} until {until}',
            gateway=gateway,
            mode=mode,
            account=account,
            until=instant(until),
        )
        return {"advice": advice.row()}

    def _withdraw(self, payload: bytes) -> dict[str, Any]:
        fields = RequestFields(payload, ("account", "gateway"))
        account, gateway = fields.text("account"), fields.text("gateway")
        if not self._advised.withdraw(account, gateway):
            raise Refusal(Reason.NO_ADVICE, account=account, gateway=gateway)
        return {"withdrawn": {"account": account, "gateway": gateway}}

    def _list(self, payload: bytes) -> dict[str, Any]:
        RequestFields(payload, ())
        return {"advice": [advice.row() for advice in self._advised.advice()]}


def _secondsOf(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Refusal(Reason.BAD_REQUEST, why="until must be a time such as 2026-11-20T16:00:00Z")
    return moment.timestamp()
