"""
Logins by the checkers of C{twisted.cred}. The first checker that supports the credentials decides.
An error denies the login, and so does a result that is not an avatar id.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any

from twisted.cred.checkers import ANONYMOUS, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.credentials import (
    IAnonymous,
    ICredentials,
    IUsernameHashedPassword,
    IUsernamePassword,
)
from twisted.cred.error import LoginFailed
from twisted.cred.error import Unauthorized as CredUnauthorized
from twisted.internet.defer import maybeDeferred
from zope.interface import Attribute, Interface, implementer

from natsbroker import errors
from natsbroker.auth.authenticator import Authenticator
from natsbroker.wire.grants import ConnectRequest, Grant

#: The members of CONNECT by which a client can log in.
_SIGNS = ("user", "pass", "auth_token", "nkey", "jwt", "sig")


class IConnection(ICredentials, Interface):
    """All about a connection, for checkers of tokens, keys, certificates, or addresses."""

    request = Attribute("A L{natsbroker.wire.grants.ConnectRequest}.")


class IAvatars(Interface):
    def grantOf(name: str, request: ConnectRequest) -> Grant:
        """
        @param name: empty for a guest.
        @raise natsbroker.errors.Unauthorized: to deny.
        """

    def hasGuests() -> bool:
        """Whether clients without credentials are accepted before any checker."""


@implementer(IAvatars)
class EverythingGranted:
    def grantOf(self, name: str, request: ConnectRequest) -> Grant:
        return Grant(user=name)

    def hasGuests(self) -> bool:
        return False


@implementer(IConnection)
class _ConnectionCredentials:
    def __init__(self, request: ConnectRequest) -> None:
        self.request = request


@implementer(IAnonymous)
class _NoCredentials(_ConnectionCredentials):
    pass


@implementer(IUsernamePassword, IUsernameHashedPassword)
class _PasswordCredentials(_ConnectionCredentials):
    def __init__(self, request: ConnectRequest) -> None:
        super().__init__(request)
        self.username = request.text("user").encode("utf-8")
        self.password = request.text("pass").encode("utf-8")

    def checkPassword(self, password: Any) -> bool:
        return hmac.compare_digest(self.password, _encoded(password))


def credentialsOf(request: ConnectRequest) -> Any:
    """
    L{IConnection} always; C{IUsernamePassword} and C{IUsernameHashedPassword} with a user;
    C{IAnonymous} without credentials.
    """
    if request.text("user"):
        return _PasswordCredentials(request)
    isSilent = not any(request.text(name) for name in _SIGNS)
    return _NoCredentials(request) if isSilent else _ConnectionCredentials(request)


#: The kinds of credentials that a checker can be asked about.
SUPPORTED: Any = (IUsernamePassword, IUsernameHashedPassword, IAnonymous, IConnection)


class CheckerAuthenticator(Authenticator):
    def __init__(self, checkers: Iterable[Any], avatars: Any = None) -> None:
        """
        @param checkers: providers of C{twisted.cred.checkers.ICredentialsChecker}.
        @param avatars: by default L{EverythingGranted}.
        @raise ValueError: if a checker does not support any credentials of a client.
        """
        super().__init__()
        self._checkers = list(map(_inBytes, checkers))
        self._avatars = EverythingGranted() if avatars is None else avatars
        for checker in self._checkers:
            if not any(kind in SUPPORTED for kind in checker.credentialInterfaces):
                raise ValueError(
                    f"{type(checker).__name__} checks no credentials that clients can send"
                )

    @property
    def required(self) -> bool:  # type: ignore[override]
        return not self._avatars.hasGuests() and not any(
            IAnonymous in checker.credentialInterfaces for checker in self._checkers
        )

    async def authenticate(self, request: ConnectRequest) -> str:
        credentials = credentialsOf(request)
        if IAnonymous.providedBy(credentials) and self._avatars.hasGuests():
            return ""
        for checker in self._checkers:
            if not any(kind.providedBy(credentials) for kind in checker.credentialInterfaces):
                continue
            try:
                avatar = await maybeDeferred(checker.requestAvatarId, credentials)
            except (LoginFailed, CredUnauthorized):
                continue
            return _nameOf(avatar)
        raise errors.Unauthorized("no checker accepts the credentials")

    def grant(self, avatar: Any, request: ConnectRequest) -> Any:
        return self._avatars.grantOf(avatar, request)


def _inBytes(checker: Any) -> Any:
    """
    Encode the names of C{--auth memory:...}, which are text there and would never equal the bytes
    of a login.
    """
    if type(checker) is not InMemoryUsernamePasswordDatabaseDontUse:
        return checker
    corrected = InMemoryUsernamePasswordDatabaseDontUse()
    users: dict[Any, Any] = checker.users
    for name, password in users.items():
        corrected.addUser(_encoded(name), _encoded(password))
    return corrected


def _encoded(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _nameOf(avatar: Any) -> str:
    if avatar is ANONYMOUS or avatar == ANONYMOUS:
        return ""
    if isinstance(avatar, bytes):
        avatar = avatar.decode("utf-8")
    if not isinstance(avatar, str):
        raise TypeError(f"{type(avatar).__name__} is not an avatar id")
    if not avatar:
        raise errors.Unauthorized("the checker's answer is an empty avatar id")
    return avatar
