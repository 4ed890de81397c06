"""
The default authorizer: users, keys, passwords and tokens of a nats-server.conf.

The decisions of the real server (C{auth.go}, observed): without any user or token
everybody gets in; otherwise whoever names a key must have signed the nonce with it, whoever is
named by a certificate must be a user, and else the user, or where none is named the token, must be
right; who brings no credentials at all gets what C{no_auth_user} has. Users that exist and users
that do not take the same path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.certificates import CertificateNames
from natsbroker.auth.decoys import Decoys
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.auth.revocations import Revocations
from natsbroker.auth.signatures import checkSignature
from natsbroker.interfaces import IAuthorizer
from natsbroker.wire.grants import Grant, Hello

__all__ = ["Identity", "SettingsAuthorizer"]

#: Who brings none of these brings no credentials. A key counts too where there are users with keys.
_CREDENTIALS = ("user", "pass", "auth_token")


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
    Decides by tables of users, and perhaps one token.

    @ivar required: see L{IAuthorizer}.
    @ivar deadline: see L{IAuthorizer}.
    @ivar nonce: see L{IAuthorizer}.
    """

    def __init__(
        self,
        checks: PasswordChecks,
        users: Mapping[str, Identity] | None = None,
        token: Identity | None = None,
        noAuthUser: str = "",
        mapsCertificates: bool = False,
        keys: Mapping[str, Identity] | None = None,
        single: Identity | None = None,
    ) -> None:
        """
        @param checks: compares secrets.
        @param users: by name.
        @param token: whoever has the token.
        @param noAuthUser: the user, or key, whose grant they get who bring no credentials; empty
            for nobody.
        @param mapsCertificates: whether the client's certificate names the user; a password that
            the user has must then be right too.
        @param keys: users who sign, by their public keys.
        @param single: the only user, whom no certificate names.
        @raise ValueError: if there is no such user.
        """
        super().__init__()
        self._checks = checks
        self._users = dict(users or {})
        self._keys = dict(keys or {})
        self._token = token
        self._single = single
        self._names = CertificateNames(self._users) if mapsCertificates and users else None
        self._noAuthUser = noAuthUser
        if noAuthUser and noAuthUser not in self._users and noAuthUser not in self._keys:
            raise ValueError(f'no_auth_user: there is no user "{noAuthUser}"')
        self._open = not (self._users or self._keys or token or single)
        self.required = not self._open and not noAuthUser
        self.deadline = not self._open
        self.nonce = bool(self._keys)
        given = [*self._users.values(), *([single] if single else [])]
        self._decoys = Decoys(identity.secret for identity in given)

    def grantFor(self, hello: Hello) -> Grant | Deferred[Grant]:
        if self._open:
            return Grant()
        isNobody = not any(hello.text(name) for name in _CREDENTIALS)
        key = hello.text("nkey") if self._keys else ""
        if isNobody and not key and self._noAuthUser in self._keys:
            key = self._noAuthUser
        if key:
            return self._signed(key, hello)
        if self._names is not None:
            return self._mapped(hello, self._names)
        if isNobody and self._noAuthUser in self._users:
            return _permitted(self._users[self._noAuthUser], hello)
        name = hello.text("user")
        if self._users and name:
            return self._checked(self._users.get(name), name, hello, hello.text("pass"))
        if self._token is not None:
            return self._checked(self._token, "", hello, hello.text("auth_token"))
        single = self._single
        if single is not None and single.grant.user != name:
            single = None
        return self._checked(single, name, hello, hello.text("pass"))

    def _signed(self, key: str, hello: Hello) -> Grant:
        """
        The owner of a key. The one who stands for nobody need not sign. Whether anybody has the key
        is looked at last, so that this cannot be told from the time that it takes.
        """
        if key != self._noAuthUser:
            checkSignature(key, hello)
        identity = self._keys.get(key)
        if identity is None:
            raise errors.Unauthorized("unknown key", errors.AUTH_GONE)
        return _permitted(identity, hello)

    def _mapped(self, hello: Hello, names: CertificateNames) -> Grant | Deferred[Grant]:
        """
        Whoever the client's certificate names. Whom it names in CONNECT does not count, but a
        password must be the user's.
        """
        if hello.certificate is not None:
            for name in names.namesIn(hello.certificate):
                if self._users[name].permits(hello.connectionType):
                    return self._checked(self._users[name], name, hello, hello.text("pass"))
        raise errors.Unauthorized("no user is named by the certificate")

    def _checked(
        self, identity: Identity | None, name: str, hello: Hello, given: str
    ) -> Grant | Deferred[Grant]:
        known = identity is not None and identity.permits(hello.connectionType)
        secret = identity.secret if identity is not None else self._decoys.secretFor(name)
        outcome = self._checks.check(secret, given)
        farewell = self._farewellTo(hello)
        if isinstance(outcome, Deferred):
            return outcome.addCallback(_judged, identity if known else None, farewell)
        return _judged(outcome, identity if known else None, farewell)

    def _farewellTo(self, hello: Hello) -> errors.WireError:
        """
        What somebody is told who was let in before and is denied now: nothing, if the user or key
        is no longer listed.
        """
        key, name = hello.text("nkey"), hello.text("user")
        listed = key in self._keys if key else name in self._users
        return errors.AUTHORIZATION if listed or not (key or name) else errors.AUTH_GONE


def _judged(same: bool, identity: Identity | None, otherwise: errors.WireError) -> Grant:
    if identity is None or not same:
        raise errors.Unauthorized("unknown user or wrong secret", otherwise)
    return identity.grant


def _permitted(identity: Identity, hello: Hello) -> Grant:
    if not identity.permits(hello.connectionType):
        raise errors.Unauthorized("not with this kind of connection")
    return identity.grant
