"""
Requests about what other clusters send in vain: advice to the gateway interest policy::

    $NB.API.GATEWAY.ADVISE.GATEWAY        take some
    $NB.API.GATEWAY.WITHDRAW.GATEWAY      forget some
    $NB.API.GATEWAY.ADVICE.GATEWAY        which there is

GATEWAY is what the gateway is called of the cluster that is asked; every member of it answers.
The permission to publish decides who may ask what.

What makes no sense is refused by the name of the field; an answer goes only where whoever
asks may listen.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.export.asking import ApiRequest
from natsbroker.export.questions import LARGEST, RequestFields
from natsbroker.export.texts import (
    ADVICE_REFUSED,
    BAD_REQUEST,
    NO_ACCOUNT,
    NO_ADVICE,
    NO_GATEWAY,
    NO_REQUEST,
    Refusal,
)
from natsbroker.interfaces import IMessageBus, ISubscriber, ISubscription
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

__all__ = ["AdviceService", "Advised", "adviceRow"]

_log = Logger(namespace="natsbroker.export")

_PREFIX = "$NB.API.GATEWAY."

_MODES = ("interest-only", "optimistic")

#: The longest time that advice may last, in seconds: a year.
_LONGEST = 366 * 86400.0


class Advised(Protocol):
    """
    Whoever takes advice.
    """

    def accounts(self) -> Iterable[str]:
        """
        The accounts that there are.
        """

    def clusters(self) -> Iterable[str]:
        """
        The other clusters that are known.
        """

    def advise(self, account: str, gateway: str, mode: str, until: float, most: int | None) -> Any:
        """
        Take advice, from now on.

        @raise ValueError: if that is refused.
        """

    def withdraw(self, account: str, gateway: str) -> bool:
        """
        Forget some; tells whether there was any.
        """

    def advice(self) -> Iterable[Any]:
        """
        All there is.
        """


@implementer(ISubscriber)
class AdviceService:
    """
    Answers those requests.
    """

    def __init__(
        self,
        bus: IMessageBus,
        gateway: str,
        advised: Advised,
        server: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        """
        @param gateway: what our gateway is called.
        @param server: gives the broker's id.
        @param now: tells the time in seconds since the epoch.
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
        """
        Answer no more.
        """
        self._subscription.cancel()

    def deliver(self, message: Message, tag: Any) -> None:
        asker = ApiRequest(self._bus, message)
        if not asker.isThere:
            return
        asker.attempt(lambda: asker.say({**self._served(message), "server": self._server()}))

    def _served(self, message: Message) -> dict[str, Any]:
        serve = self._verbs.get(message.subject)
        if serve is None:
            verb = message.subject[len(_PREFIX) :].split(b".")[0]
            raise Refusal(NO_REQUEST, verb=verb.decode("utf-8", "backslashreplace"))
        return serve(message.payload)

    def subscriptionEnded(self, tag: Any) -> None:
        """
        See L{ISubscriber.subscriptionEnded}.
        """

    def _advise(self, payload: bytes) -> dict[str, Any]:
        known = ("account", "gateway", "mode", "until", "max_no_interest")
        question = RequestFields(payload, known)
        account, gateway = self._about(question)
        mode = question.text("mode")
        if mode not in _MODES:
            raise Refusal(BAD_REQUEST, why=f"mode must be one of: {', '.join(_MODES)}")
        until = _secondsOf(question.text("until"))
        if not 0 < until - self._now() <= _LONGEST:
            raise Refusal(BAD_REQUEST, why="until must be in the future, and within a year")
        most: int | None = None
        if "max_no_interest" in question:
            if mode != "optimistic":
                raise Refusal(BAD_REQUEST, why="max_no_interest needs the mode optimistic")
            most = question.number("max_no_interest", 0, LARGEST)
        try:
            advice = self._advised.advise(account, gateway, mode, until, most)
        except ValueError as error:
            raise Refusal(ADVICE_REFUSED, why=error) from None
        _log.info(
            'Gateway "{gateway}" is advised to be {mode} in account {account} until {until}',
            gateway=gateway,
            mode=mode,
            account=account,
            until=instant(until),
        )
        return {"advice": adviceRow(advice)}

    def _withdraw(self, payload: bytes) -> dict[str, Any]:
        question = RequestFields(payload, ("account", "gateway"))
        account, gateway = question.text("account"), question.text("gateway")
        if not self._advised.withdraw(account, gateway):
            raise Refusal(NO_ADVICE, account=account, gateway=gateway)
        return {"withdrawn": {"account": account, "gateway": gateway}}

    def _list(self, payload: bytes) -> dict[str, Any]:
        RequestFields(payload, ())
        return {"advice": [adviceRow(each) for each in self._advised.advice()]}

    def _about(self, question: RequestFields) -> tuple[str, str]:
        account, gateway = question.text("account"), question.text("gateway")
        if account not in self._advised.accounts():
            raise Refusal(NO_ACCOUNT, account=account)
        if gateway not in self._advised.clusters():
            raise Refusal(NO_GATEWAY, gateway=gateway)
        return account, gateway


def adviceRow(advice: Any) -> dict[str, Any]:
    """
    One piece of advice as JSON has it.

    @param advice: a L{natsbroker.gateways.advice.Advice}.
    """
    shown = {
        "account": advice.account,
        "gateway": advice.gateway,
        "mode": advice.mode,
        "until": instant(advice.until),
    }
    return shown if advice.most is None else {**shown, "max_no_interest": advice.most}


def _secondsOf(text: str) -> float:
    """
    A time in RFC 3339.
    """
    try:
        found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Refusal(BAD_REQUEST, why="until must be a time such as 2026-11-20T16:00:00Z")
    return found.timestamp()
