"""
The events of the system account about clients that come and go::

    $SYS.ACCOUNT.<account>.CONNECT          a client was let in
    $SYS.ACCOUNT.<account>.DISCONNECT       a client that had been let in is gone, or one for which
                                            the account had no room
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR        a client was refused for who it is; said of $G as well

The account whose auth callout service has not let a client in is told as well::

    $SYS.ACCOUNT.CLIENT.AUTH.ERR

The members of nats-server's events in its order (observed of 2.15); no secret among them; where
nobody is subscribed, nothing is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from zope.interface import implementer

from natsbroker import errors
from natsbroker.advisories import Advisory, ClientConnected, ClientDisconnected, ClientRefused
from natsbroker.auth.responder import Describe
from natsbroker.clients.facts import clientInfoOf
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import GLOBAL_ACCOUNT
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.wire.clientinfo import compact, described, eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.values import ClientInfo, Message

_CONNECT = "io.nats.server.advisory.v1.client_connect"
_ACCOUNT_ERROR = "$SYS.ACCOUNT.CLIENT.AUTH.ERR"
_DISCONNECT = "io.nats.server.advisory.v1.client_disconnect"


@dataclass(frozen=True, eq=False)
class ConnectionEvents:
    """
    Publishes events about connections.

    @ivar bus: gives the system account's bus; C{None} while there is none.
    """

    bus: Callable[[], IMessageBus | None]
    describe: Describe
    now: Callable[[], float]
    random: Random

    def publish(self, subject: str, make: Callable[[], dict[str, Any]]) -> None:
        bus, topic = self.bus(), subject.encode("utf-8")
        if bus is not None and bus.hasInterest(topic):
            bus.publish(Message(topic, compact(make())))

    def tell(
        self,
        subject: str,
        describe: Callable[[], ClientInfo],
        nameTag: str,
        reason: str | None = None,
        traffic: Callable[[], tuple[int, int, int, int]] = lambda: (0, 0, 0, 0),
    ) -> None:
        """
        @param nameTag: the account's name; empty for none.
        @param reason: why the connection has ended; C{None} for one that begins.
        @param traffic: gives messages in, bytes in, messages out, bytes out.
        """
        self.publish(subject, lambda: self._event(describe(), nameTag, reason, traffic))

    def _event(
        self,
        info: ClientInfo,
        nameTag: str,
        reason: str | None,
        traffic: Callable[[], tuple[int, int, int, int]],
    ) -> dict[str, Any]:
        now = self.now()
        client = described(info)
        last = {key: client.pop(key) for key in ("kind", "client_type") if key in client}
        if reason is not None:
            client["stop"] = instant(now)
        else:
            client.pop("rtt", None)
        if nameTag:
            client["name_tag"] = nameTag
        event: dict[str, Any] = {
            "type": _CONNECT if reason is None else _DISCONNECT,
            "id": eventId(self.random),
            "timestamp": instant(now),
            "server": self.describe(),
            "client": client | last,
        }
        if reason is not None:
            inMessages, inBytes, outMessages, outBytes = traffic()
            event["sent"] = {"msgs": inMessages, "bytes": inBytes}
            event["received"] = {"msgs": outMessages, "bytes": outBytes}
            event["reason"] = reason
        return event


@implementer(IObserver)
@dataclass(frozen=True, eq=False)
class ClientEvents:
    """
    @ivar busFor: gives the bus of an account.
    """

    events: ConnectionEvents
    session: Callable[[int], ClientSession | None]
    server: Callable[[], str]
    busFor: Callable[[str], IMessageBus]

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, ClientConnected):
            self._tell(f"$SYS.ACCOUNT.{advisory.account}.CONNECT", advisory)
        elif isinstance(advisory, ClientDisconnected):
            self._tell(f"$SYS.ACCOUNT.{advisory.account}.DISCONNECT", advisory, advisory.reason)
        elif isinstance(advisory, ClientRefused):
            if advisory.account:
                subject = f"$SYS.ACCOUNT.{advisory.account}.DISCONNECT"
                self._tell(subject, advisory, advisory.reason)
            elif advisory.reason == errors.AUTHORIZATION.reason:
                for subject in (
                    f"$SYS.SERVER.{self.server()}.CLIENT.AUTH.ERR",
                    f"$SYS.ACCOUNT.{GLOBAL_ACCOUNT}.DISCONNECT",
                ):
                    self._tell(subject, advisory, advisory.reason)
                self._tellAsked(advisory)

    def _tellAsked(self, advisory: ClientRefused) -> None:
        """
        Tell the account whose auth callout service has not let a client in.
        """
        session = self.session(advisory.cid)
        if session is None or not advisory.asked:
            return

        def info() -> ClientInfo:
            facts = session.facts()._replace(account=advisory.asked, user=advisory.user)
            return clientInfoOf(facts, "", True)

        events = replace(self.events, bus=lambda: self.busFor(advisory.asked))
        events.tell(_ACCOUNT_ERROR, info, GLOBAL_ACCOUNT, advisory.why, lambda: session.traffic)

    def _tell(
        self,
        subject: str,
        advisory: ClientConnected | ClientDisconnected | ClientRefused,
        reason: str | None = None,
    ) -> None:
        session = self.session(advisory.cid)
        if session is None:
            return
        account = advisory.account or GLOBAL_ACCOUNT

        def info() -> ClientInfo:
            facts = session.facts()._replace(account=account, user=advisory.user)
            return clientInfoOf(facts, "", True)

        self.events.tell(subject, info, account, reason, lambda: session.traffic)
