"""Accounts at other servers, as origins of messages."""

from __future__ import annotations

from typing import ClassVar

from zope.interface import implementer

from natsbroker.interfaces import IPeerOrigin
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo


@implementer(IPeerOrigin)
class PeerOrigin:
    """One account at a peer, which has authenticated its clients and checked their permissions."""

    __slots__ = ("_server", "grant")

    ORIGIN: ClassVar[str]
    isPeer: ClassVar[bool] = True

    def __init__(self, account: str, server: str) -> None:
        self._server = server
        self.grant = Grant(account)

    def clientInfo(self, isDetailed: bool) -> ClientInfo:
        account = self.grant.account
        if not isDetailed:
            return ClientInfo(acc=account)
        return ClientInfo(acc=account, server=self._server, kind=self.ORIGIN)
