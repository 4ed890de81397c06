"""
The events of the system account about clients that come and go::

    $SYS.ACCOUNT.<account>.CONNECT          a client was let in
    $SYS.ACCOUNT.<account>.DISCONNECT       a client that had been let in is gone, or one for which
                                            the account had no room
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR        a client was refused for who it is; said of $G as well

The account of an auth callout service gets events about the clients that the service has denied::

    $SYS.ACCOUNT.CLIENT.AUTH.ERR

Events have the members of nats-server's in its order (observed of 2.15), without secrets. Without a
subscriber, no event is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from zope.interface import implementer

from natsbroker import errors
from natsbroker.advisories import Advisory, ClientConnected, ClientDisconnected, ClientRefused
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import GLOBAL_ACCOUNT
from natsbroker.connections.facts import clientInfoOf
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.runtime.responder import Describe
from natsbroker.wire.clientinfo import compact, described, eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.values import ClientInfo, Message

_CONNECT = "io.nats.server.advisory.v1.client_connect"
_ACCOUNT_ERROR = "$SYS.ACCOUNT.CLIENT.AUTH.ERR"
_DISCONNECT = "io.nats.server.advisory.v1.client_disconnect"


@dataclass(frozen=True, eq=False)
class ConnectionEvents:
    """Publishes events about connections on the system account's bus, if there is one."""

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
        papers: Callable[[], Mapping[str, Any]],
        reason: str | None = None,
        traffic: Callable[[], tuple[int, int, int, int]] = lambda: (0, 0, 0, 0),
    ) -> None:
        """
        @param papers: gives C{jwt}, C{issuer_key}, C{name_tag} (the account's name) and C{tags};
            those that are empty are left out.
        @param reason: why the connection has ended; C{None} for one that begins.
        @param traffic: gives messages in, bytes in, messages out, bytes out.
        """
        self.publish(subject, lambda: self._event(describe(), papers(), reason, traffic))

    def _event(
        self,
        info: ClientInfo,
        papers: Mapping[str, Any],
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
        client |= {key: value for key, value in papers.items() if value}
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
    events: ConnectionEvents
    session: Callable[[int], ClientSession | None]
    server: Callable[[], str]
    busFor: Callable[[str], IMessageBus]
    nameOf: Callable[[str], str]

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
        session = self.session(advisory.cid)
        if session is None or not advisory.asked:
            return

        def info() -> ClientInfo:
            facts = session.facts()._replace(account=advisory.asked, user=advisory.user)
            return clientInfoOf(facts, "", True)

        events = replace(self.events, bus=lambda: self.busFor(advisory.asked))
        papers = {"name_tag": GLOBAL_ACCOUNT}
        events.tell(_ACCOUNT_ERROR, info, lambda: papers, advisory.why, lambda: session.traffic)

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
        get = session.lastFacts if isinstance(advisory, ClientDisconnected) else session.facts

        def info() -> ClientInfo:
            return clientInfoOf(get()._replace(account=account, user=advisory.user), "", True)

        def papers() -> Mapping[str, Any]:
            facts = get()
            return {
                "jwt": facts.jwt,
                "issuer_key": facts.issuer,
                "name_tag": self.nameOf(account),
                "tags": list(facts.tags),
            }

        self.events.tell(subject, info, papers, reason, lambda: session.traffic)
