"""
The base class of custom authorizers. Unless a subclass overrides a method, every client is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker import errors
from natsbroker.interfaces import IAuthorizer
from natsbroker.runtime.failures import definedAt
from natsbroker.wire.grants import ConnectRequest, Grant

_log = Logger()


class Revocations:
    @cached_property
    def _watchers(self) -> dict[object, Callable[..., None]]:
        # Not made in the constructor, which subclasses may forget to call.
        return {}

    def watchRevocations(self, revoked: Callable[..., None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = revoked

        def stop() -> None:
            self._watchers.pop(key, None)

        return stop

    def revoke(self, account: str | None = None) -> None:
        """Ask the authorizer again for each connection, or for those of one account."""
        arguments = () if account is None else (account,)
        for revoked in list(self._watchers.values()):
            try:
                revoked(*arguments)
            except BaseException:
                _log.failure("A watcher of revocations failed")


@implementer(IAuthorizer)
class Authenticator(Revocations):
    """
    Decides in two steps, either of which may be overridden: L{authenticate} identifies a
    connection, L{grant} gives its permissions. Both may return a value, a Deferred or a coroutine,
    and raise L{natsbroker.errors.Unauthorized} to deny::

        class Gatekeeper(Authenticator):
            async def authenticate(self, request):
                if not await self.database.check(request.text("user"), request.text("pass")):
                    raise Unauthorized("wrong password")
                return request.text("user")

            def grant(self, avatar, request):
                return Grant(user=avatar, publish=PermissionSet([b"orders.>"]))

    Call L{revoke} when grants may have become invalid. A connection is closed if it is then denied,
    or would get another account or user.
    """

    required: bool = True
    deadline: bool = True
    nonce: bool = False

    _explained: frozenset[str] = frozenset()

    def authenticate(self, request: ConnectRequest) -> Any:
        """Identify a connection by a user name or by a value for L{grant}; C{None} denies it."""
        return None

    def grant(self, avatar: Any, request: ConnectRequest) -> Any:
        """
        The permissions of a connection. By default, a grant is returned unchanged, a name gets
        everything in the global account, and anything else is denied.
        """
        if isinstance(avatar, Grant):
            return avatar
        if isinstance(avatar, str) and avatar:
            return Grant(user=avatar)
        self._explain(avatar)
        raise errors.Unauthorized("neither authenticate nor grant named a user")

    def _explain(self, avatar: Any) -> None:
        """Log, for the author of a subclass, why nobody gets in; once for each kind of avatar."""
        kind = type(avatar).__name__
        if kind in self._explained:
            return
        self._explained |= {kind}
        name, method = type(self).__name__, type(self).authenticate
        if method is Authenticator.authenticate:
            _log.warn("{name} overrides neither authenticate nor grant: nobody gets in", name=name)
            return
        _log.warn(
            "{name}.authenticate ({place}) returned {avatar}, which names no user: denied. To let"
            " somebody in, return the user's name or a Grant, or override grant; to deny, raise"
            " natsbroker.errors.Unauthorized with the reason",
            name=name,
            place=definedAt(method),
            avatar=repr(avatar) if avatar in (None, True, False, "") else kind,
        )

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        avatar = _awaited(self.authenticate(request))
        if isinstance(avatar, Deferred):
            return avatar.addCallback(lambda known: _awaited(self.grant(known, request)))
        answer: Grant | Deferred[Grant] = _awaited(self.grant(avatar, request))
        return answer


def _awaited(answer: Any) -> Any:
    return ensureDeferred(answer) if isinstance(answer, Coroutine) else answer
