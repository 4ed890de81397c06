"""
The default authorizer: users, passwords and tokens of a nats-server.conf.

Promises: the decisions of the real server (C{auth.go}): without any user or token everybody gets
in; otherwise the user, or where none is named the token, must be right; who brings no credentials
at all gets what C{no_auth_user} has. Users that exist and users that do not take the same path.
Must never know: the configuration, connections, or accounts; it is given identities as data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.certificates import CertificateNames
from natsbroker.auth.passwords import PasswordChecks, isHash
from natsbroker.auth.revocations import Revocations
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import Grant, Hello

__all__ = ["Identity", "SettingsAuthorizer"]

#: Who brings none of these brings no credentials.
_CREDENTIALS = ("user", "pass", "auth_token", "nkey", "jwt")


@dataclass(frozen=True, slots=True)
class Identity:
    """
    Somebody who may get in.

    @ivar secret: the password or token, in plain text or as a bcrypt hash.
    @ivar grant: what the owner of the secret may do.
    @ivar connectionTypes: the kinds of connection that may use it, or C{None} for every kind.
    """

    secret: str = field(repr=False)
    grant: Grant
    connectionTypes: frozenset[str] | None = None

    def permits(self, connectionType: str) -> bool:
        """
        Whether a kind of connection may use it.
        """
        return self.connectionTypes is None or connectionType in self.connectionTypes


@implementer(IAuthorizer)
class SettingsAuthorizer(Revocations):
    """
    Decides by a table of users, and perhaps one token.

    @ivar required: see L{IAuthorizer}.
    @ivar nonce: see L{IAuthorizer}; nobody signs here.
    """

    nonce = False

    def __init__(
        self,
        checks: PasswordChecks,
        users: Mapping[str, Identity] | None = None,
        token: Identity | None = None,
        noAuthUser: str = "",
        mapsCertificates: bool = False,
    ) -> None:
        """
        @param checks: compares secrets.
        @param users: by name.
        @param token: whoever has the token.
        @param noAuthUser: the user whose grant they get who bring no credentials; empty for nobody.
        @param mapsCertificates: whether the client's certificate alone names the user.
        @raise ValueError: if there is no such user.
        """
        super().__init__()
        self._checks = checks
        self._users = dict(users or {})
        self._token = token
        self._names = CertificateNames(self._users) if mapsCertificates else None
        self._nobody: Identity | None = None
        if noAuthUser:
            if noAuthUser not in self._users:
                raise ValueError(f'no_auth_user: there is no user "{noAuthUser}"')
            self._nobody = self._users[noAuthUser]
        self._open = not self._users and token is None
        self._decoy = _decoyAmong(self._users.values())

    @property
    def required(self) -> bool:
        """
        See L{IAuthorizer}.
        """
        return not self._open and (self._nobody is None or self._names is not None)

    def grantFor(self, hello: Hello) -> Grant | Deferred[Grant]:
        """
        See L{IAuthorizer.grantFor}.
        """
        if self._open:
            return Grant()
        if self._users and self._names is not None:
            return self._mapped(hello, self._names)
        if self._nobody is not None and not any(hello.text(name) for name in _CREDENTIALS):
            return _permitted(self._nobody, hello)
        name = hello.text("user")
        if self._users and name:
            return self._checked(self._users.get(name), hello, hello.text("pass"))
        return self._checked(self._token, hello, hello.text("auth_token"))

    def _mapped(self, hello: Hello, names: CertificateNames) -> Grant:
        """
        Whoever the client's certificate names. What it says in CONNECT does not count.
        """
        if hello.certificate is not None:
            for name in names.namesIn(hello.certificate):
                identity = self._users[name]
                if identity.permits(hello.connectionType):
                    return identity.grant
        raise errors.Unauthorized("no user is named by the certificate")

    def _checked(
        self, identity: Identity | None, hello: Hello, given: str
    ) -> Grant | Deferred[Grant]:
        known = identity is not None and identity.permits(hello.connectionType)
        secret = identity.secret if identity is not None else self._decoy
        outcome = self._checks.check(secret, given)
        if isinstance(outcome, Deferred):
            return outcome.addCallback(_judged, identity if known else None)
        return _judged(outcome, identity if known else None)


def _judged(same: bool, identity: Identity | None) -> Grant:
    if identity is None or not same:
        raise errors.Unauthorized("unknown user or wrong secret")
    return identity.grant


def _permitted(identity: Identity, hello: Hello) -> Grant:
    if not identity.permits(hello.connectionType):
        raise errors.Unauthorized("not with this kind of connection")
    return identity.grant


def _decoyAmong(identities: Iterable[Identity]) -> str:
    """
    A secret to compare with for users that do not exist: as expensive as a real one.
    """
    secrets = [identity.secret for identity in identities]
    return next(filter(isHash, secrets), secrets[0] if secrets else "")
