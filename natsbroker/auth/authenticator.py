"""
The class to subclass for authorization of one's own.

Whoever is not positively let in stays out: a subclass that overrides nothing denies
everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import ConnectRequest, Grant

__all__ = ["Authenticator", "Revocations"]

_log = Logger()


class Revocations:
    """
    The part of an authorizer that announces revocations.
    """

    def __init__(self) -> None:
        self._watchers: dict[object, Callable[..., None]] = {}

    def watchRevocations(self, revoked: Callable[..., None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = revoked

        def stop() -> None:
            self._watchers.pop(key, None)

        return stop

    def revoke(self, account: str | None = None) -> None:
        """
        Announce that grants may no longer hold: every connection is asked for again.

        @param account: the account whose connections are meant; C{None} for all.
        """
        arguments = () if account is None else (account,)
        for revoked in list(self._watchers.values()):
            try:
                revoked(*arguments)
            except BaseException:
                _log.failure("A watcher of revocations failed")


@implementer(IAuthorizer)
class Authenticator(Revocations):
    """
    Decides in two steps, of which either or both may be overridden: L{authenticate} says who a
    connection is, L{grant} what that may do. Both may return a plain value, a Deferred or a
    coroutine, and raise L{natsbroker.errors.Unauthorized} to deny::

        class Gatekeeper(Authenticator):
            async def authenticate(self, request):
                if not await self.database.check(request.text("user"), request.text("pass")):
                    raise Unauthorized("wrong password")
                return request.text("user")

            def grant(self, avatar, request):
                return Grant(user=avatar, publish=PermissionSet([b"orders.>"]))

    When what was granted may no longer hold, call L{revoke}: every connection is asked for again,
    and cut if it is denied, or if it would get another account or user.

    @ivar required: see L{IAuthorizer}.
    @ivar deadline: see L{IAuthorizer}.
    @ivar nonce: see L{IAuthorizer}.
    """

    required: bool = True
    deadline: bool = True
    nonce: bool = False

    def authenticate(self, request: ConnectRequest) -> Any:
        """
        Say who a connection is.

        @param request: what is known of it.
        @return: a user name, or anything that L{grant} understands. C{None}, the default, is
            nobody.
        @raise natsbroker.errors.Unauthorized: to deny.
        """
        return None

    def grant(self, avatar: Any, request: ConnectRequest) -> Any:
        """
        Say what somebody may do.

        @param avatar: what L{authenticate} answered. By default a grant is taken as it is, a
            name may do everything in the global account, and nobody may do anything.
        @param request: what is known of the connection.
        @return: a L{Grant}.
        @raise natsbroker.errors.Unauthorized: to deny.
        """
        if isinstance(avatar, Grant):
            return avatar
        if isinstance(avatar, str) and avatar:
            return Grant(user=avatar)
        raise errors.Unauthorized("nobody said who this is")

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        avatar = _awaited(self.authenticate(request))
        if isinstance(avatar, Deferred):
            return avatar.addCallback(lambda known: _awaited(self.grant(known, request)))
        answer: Grant | Deferred[Grant] = _awaited(self.grant(avatar, request))
        return answer


def _awaited(answer: Any) -> Any:
    """
    The answer, with a coroutine made a Deferred.
    """
    return ensureDeferred(answer) if isinstance(answer, Coroutine) else answer
