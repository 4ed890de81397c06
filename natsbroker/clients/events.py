"""
The events of the system account about clients that come and go::

    $SYS.ACCOUNT.<account>.CONNECT          a client was let in
    $SYS.ACCOUNT.<account>.DISCONNECT       a client that had been let in is gone
    $SYS.SERVER.<id>.CLIENT.AUTH.ERR        a client was refused for who it is; said of $G as well

The members of nats-server's events in its order (observed of 2.15); no secret among them; where
nobody is subscribed, nothing is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from zope.interface import implementer

from natsbroker import errors
from natsbroker.advisories import Advisory, ClientConnected, ClientDisconnected, ClientRefused
from natsbroker.auth.responder import Describe
from natsbroker.clients.facts import ConnectionFacts, clientInfoOf
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import GLOBAL_ACCOUNT
from natsbroker.interfaces import IMessageBus, IObserver
from natsbroker.wire.clientinfo import compact, described, eventId
from natsbroker.wire.instants import instant
from natsbroker.wire.values import Message

_CONNECT = "io.nats.server.advisory.v1.client_connect"
_DISCONNECT = "io.nats.server.advisory.v1.client_disconnect"


@implementer(IObserver)
@dataclass(frozen=True, eq=False)
class ClientEvents:
    bus: Callable[[], IMessageBus | None]
    session: Callable[[int], ClientSession | None]
    server: Callable[[], str]
    describe: Describe
    now: Callable[[], float]
    random: Random

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, ClientConnected):
            subject = f"$SYS.ACCOUNT.{advisory.account}.CONNECT"
            self._tell(subject, advisory.cid, advisory.account, advisory.user)
        elif isinstance(advisory, ClientDisconnected):
            subject = f"$SYS.ACCOUNT.{advisory.account}.DISCONNECT"
            self._tell(subject, advisory.cid, advisory.account, advisory.user, advisory.reason)
        elif isinstance(advisory, ClientRefused):
            if advisory.reason == errors.AUTHORIZATION.reason:
                for subject in (
                    f"$SYS.SERVER.{self.server()}.CLIENT.AUTH.ERR",
                    f"$SYS.ACCOUNT.{GLOBAL_ACCOUNT}.DISCONNECT",
                ):
                    self._tell(subject, advisory.cid, GLOBAL_ACCOUNT, "", advisory.reason)

    def _tell(self, subject: str, cid: int, account: str, user: str, reason: str = "") -> None:
        bus, session = self.bus(), self.session(cid)
        if bus is None or session is None:
            return
        topic = subject.encode("utf-8")
        if bus.hasInterest(topic):
            facts = session.facts()._replace(account=account, user=user)
            bus.publish(Message(topic, compact(self._event(facts, reason))))

    def _event(self, facts: ConnectionFacts, reason: str) -> dict[str, Any]:
        now = self.now()
        client = described(clientInfoOf(facts, "", True))
        kind = {name: client.pop(name) for name in ("kind", "client_type")}
        if reason:
            client["stop"] = instant(now)
        else:
            client.pop("rtt", None)
        event: dict[str, Any] = {
            "type": _DISCONNECT if reason else _CONNECT,
            "id": eventId(self.random),
            "timestamp": instant(now),
            "server": self.describe(),
            "client": client | {"name_tag": facts.account} | kind,
        }
        if reason:
            event["sent"] = {"msgs": facts.inMessages, "bytes": facts.inBytes}
            event["received"] = {"msgs": facts.outMessages, "bytes": facts.outBytes}
            event["reason"] = reason
        return event
