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
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.export.requests import LARGEST, ApiRequest, Reason, Refusal, RequestFields
from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

_log = Logger(namespace="natsbroker.export")

_PREFIX = "$NB.API.GATEWAY."

_MODES = ("interest-only", "optimistic")

_LONGEST = 366 * 86400.0
"""The longest time that advice may last, in seconds."""


class Advised(Protocol):
    def accounts(self) -> Iterable[str]: ...

    def clusters(self) -> Iterable[str]: ...

    def advise(self, account: str, gateway: str, mode: str, until: float, most: int | None) -> Any:
        """
        @return: the advice, which holds from now on.
        @raise ValueError: if it is refused.
        """

    def withdraw(self, account: str, gateway: str) -> bool: ...

    def advice(self) -> Iterable[Any]: ...


@implementer(ISubscriber)
class AdviceService:
    def __init__(
        self,
        bus: IMessageBus,
        gateway: str,
        advised: Advised,
        server: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        """
        @param now: returns the time in seconds since the epoch.
        """
        self._bus = bus
        self._advised = advised
        self._server = server
        self._now = now
        tail = f".{gateway}"
        self._verbs = {
            f"{_PREFIX}{verb}{tail}".encode(): serve
            for verb, serve in (
                ("ADVISE", self._advise),
                ("WITHDRAW", self._withdraw),
                ("ADVICE", self._list),
            )
        }
        pattern = f"{_PREFIX}*{tail}".encode()
        self._subscription: ISubscription = bus.subscribe(pattern, self)

    def stop(self) -> None:
        self._subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        request = ApiRequest(self._bus, message)
        if request.isAnswerable:
            server = {"server": self._server()}
            request.attempt(lambda: request.answer({**self._served(message), **server}))

    def _served(self, message: Message) -> dict[str, Any]:
        serve = self._verbs.get(message.subject)
        if serve is None:
            verb = message.subject[len(_PREFIX) :].split(b".")[0]
            raise Refusal(Reason.NO_REQUEST, verb=verb.decode("utf-8", "backslashreplace"))
        return serve(message.payload)

    def subscriptionEnded(self, tag: Any) -> None:
        """
        Nothing to do: only L{stop} ends it.
        """

    def _advise(self, payload: bytes) -> dict[str, Any]:
        known = ("account", "gateway", "mode", "until", "max_no_interest")
        fields = RequestFields(payload, known)
        account, gateway = fields.text("account"), fields.text("gateway")
        if account not in self._advised.accounts():
            raise Refusal(Reason.NO_ACCOUNT, account=account)
        if gateway not in self._advised.clusters():
            raise Refusal(Reason.NO_GATEWAY, gateway=gateway)
        mode = fields.text("mode")
        if mode not in _MODES:
            raise Refusal(Reason.BAD_REQUEST, why=f"mode must be one of: {', '.join(_MODES)}")
        until = _secondsOf(fields.text("until"))
        if not 0 < until - self._now() <= _LONGEST:
            raise Refusal(Reason.BAD_REQUEST, why="until must be in the future, and within a year")
        most: int | None = None
        if "max_no_interest" in fields:
            if mode != "optimistic":
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
        return {"advice": adviceRow(advice)}

    def _withdraw(self, payload: bytes) -> dict[str, Any]:
        fields = RequestFields(payload, ("account", "gateway"))
        account, gateway = fields.text("account"), fields.text("gateway")
        if not self._advised.withdraw(account, gateway):
            raise Refusal(Reason.NO_ADVICE, account=account, gateway=gateway)
        return {"withdrawn": {"account": account, "gateway": gateway}}

    def _list(self, payload: bytes) -> dict[str, Any]:
        RequestFields(payload, ())
        return {"advice": [adviceRow(each) for each in self._advised.advice()]}


def adviceRow(advice: Any) -> dict[str, Any]:
    row = {
        "account": advice.account,
        "gateway": advice.gateway,
        "mode": advice.mode,
        "until": instant(advice.until),
    }
    return row if advice.most is None else {**row, "max_no_interest": advice.most}


def _secondsOf(text: str) -> float:
    try:
        found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Refusal(Reason.BAD_REQUEST, why="until must be a time such as 2026-11-20T16:00:00Z")
    return found.timestamp()
