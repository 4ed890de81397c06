"""
The clients that send requests of JetStream's API, as advisories describe them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from zope.interface import implementer

from natsbroker.accounts.withdrawn import RESPONSE
from natsbroker.interfaces import IOrigin, IPeerOrigin
from natsbroker.wire.clientinfo import described, readStamp
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Message


@implementer(IOrigin)
@dataclass(frozen=True)
class PassedRequester:
    """
    The sender of a request that another broker has passed on. All of an account are equal.

    @ivar shown: its description there.
    """

    account: str
    shown: Mapping[str, Any] = field(compare=False)

    @property
    def grant(self) -> Grant:
        return Grant(self.account)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        return ClientInfo(acc=self.account)


def clientOf(message: Message, account: str) -> Mapping[str, Any]:
    """
    The sender of a request in an account, as advisories show it. Of another account's client, who
    asks through an import, they show what the import does: only with C{share} who it is.
    """
    origin = message.origin
    if isinstance(origin, PassedRequester):
        return origin.shown
    if not IOrigin.providedBy(origin):
        return {}
    info = described(origin.clientInfo(True))
    if origin.grant is None or not _isImported(message, account):
        return info
    # An import has replaced this header, so that it cannot be the client's own.
    stamp = readStamp(message.body[: message.headerLength])
    shown = {"server": info.get("server", ""), **stamp, "svc": account}
    return {row.name: shown[row.name] for row in fields(ClientInfo) if shown.get(row.name)}


def _isImported(message: Message, account: str) -> bool:
    """
    Whether a request has come through an import: here, or at another server, which lets no client
    publish with such a reply subject.
    """
    origin: Any = message.origin
    if origin.grant.account != account:
        return True
    isPeer = IPeerOrigin.providedBy(origin) and origin.isPeer
    return isPeer and message.reply.startswith(RESPONSE)
