"""
The default authorizer: users, nkeys, passwords and the token of the configuration.

It decides as nats-server does (C{auth.go}, observed). Without users and token everything is
allowed. Otherwise a client that names an nkey must have signed the nonce; with C{verify_and_map},
the certificate names the user; else user and password, or the token where no user is named, must
match. A client without credentials becomes C{no_auth_user}. Known and unknown users take the same
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from twisted.internet.defer import Deferred
from zope.interface import implementer

from natsbroker import errors
from natsbroker.auth.authenticator import Revocations
from natsbroker.auth.certificates import CertificateNames
from natsbroker.auth.fields import encoded
from natsbroker.auth.nkeys import checkSignature
from natsbroker.auth.passwords import DummySecrets, PasswordChecks
from natsbroker.auth.proxies import requireProxy
from natsbroker.config.model import (
    GLOBAL_ACCOUNT,
    AccountLimits,
    Permissions,
    Settings,
    SubjectPermission,
    User,
)
from natsbroker.config.settings.authorization import UNLIMITED
from natsbroker.interfaces import IAuthorizer
from natsbroker.subjects.permissions import PermissionSet, SubscribePermissions
from natsbroker.wire.grants import ConnectRequest, Grant

#: The credentials in CONNECT. The nkey is one too where there are users with nkeys.
_CREDENTIALS = ("user", "pass", "auth_token")


GUEST = "nats-guest"
"""The name of clients without credentials where only the system account has users."""


#: The fields that a grant copies from its user.
GRANTED = sorted({key.name for key in fields(User)} & {key.name for key in fields(Grant)})


@dataclass(frozen=True, slots=True)
class UserEntry:
    """
    @ivar secret: the password or token, in plain text or as a bcrypt hash.
    @ivar needsProxy: whether it counts only through a trusted proxy.
    """

    secret: str = field(repr=False)
    grant: Grant
    connectionTypes: frozenset[str] | None = None
    needsProxy: bool = False

    def permits(self, connectionType: str) -> bool:
        return self.connectionTypes is None or connectionType in self.connectionTypes


#: The grant of every client if there are no logins.
_EVERYTHING = Grant()


@dataclass(frozen=True, slots=True)
class Logins:
    """
    @ivar noAuthUser: the user, or nkey, of clients without credentials; empty for none.
    @ivar mapsCertificates: whether the client's certificate names the user. A password that the
        user has must then match too.
    @ivar single: the only user, which certificates do not name.
    """

    users: Mapping[str, UserEntry] = field(default_factory=dict)
    token: UserEntry | None = None
    noAuthUser: str = ""
    mapsCertificates: bool = False
    keys: Mapping[str, UserEntry] = field(default_factory=dict)
    single: UserEntry | None = None

    @property
    def isOpen(self) -> bool:
        return not (self.users or self.keys or self.token or self.single)

    @property
    def isRequired(self) -> bool:
        return not self.isOpen and not self.noAuthUser


@implementer(IAuthorizer)
class SettingsAuthorizer(Revocations):
    def __init__(self, checks: PasswordChecks, logins: Logins) -> None:
        super().__init__()
        self._checks = checks
        self._users = users = dict(logins.users)
        self._keys = keys = dict(logins.keys)
        self._token = logins.token
        self._single = single = logins.single
        self._names = CertificateNames(users) if logins.mapsCertificates and users else None
        self._noAuthUser = noAuthUser = logins.noAuthUser
        if noAuthUser and noAuthUser not in users and noAuthUser not in keys:
            raise ValueError(f'no_auth_user: there is no user "{noAuthUser}"')
        self._open = logins.isOpen
        self.required = logins.isRequired
        self.deadline = not self._open
        self.nonce = bool(keys)
        given = [*users.values(), *([single] if single else [])]
        self._dummySecrets = DummySecrets(identity.secret for identity in given)

    def grantFor(self, request: ConnectRequest) -> Grant | Deferred[Grant]:
        if self._open:
            return _EVERYTHING
        isNobody = not any(request.text(name) for name in _CREDENTIALS)
        key = request.text("nkey") if self._keys else ""
        if isNobody and not key and self._noAuthUser in self._keys:
            key = self._noAuthUser
        if key:
            return self._signed(key, request)
        if self._names is not None:
            return self._mapped(request, self._names)
        if isNobody and self._noAuthUser in self._users:
            return _permitted(self._users[self._noAuthUser], request)
        name = request.text("user")
        if self._users and name:
            return self._checked(self._users.get(name), name, request, request.text("pass"))
        if self._token is not None:
            return self._checked(self._token, "", request, request.text("auth_token"))
        single = self._single
        if single is not None and single.grant.user != name:
            single = None
        return self._checked(single, name, request, request.text("pass"))

    def _signed(self, key: str, request: ConnectRequest) -> Grant:
        """
        The user of a signed nonce. The signature is checked first, so that the time does not show
        whether the key is known. The key of C{no_auth_user} need not sign.
        """
        if key != self._noAuthUser:
            checkSignature(key, request)
        identity = self._keys.get(key)
        if identity is None:
            raise errors.Unauthorized("unknown key", errors.AUTH_GONE)
        return _permitted(identity, request)

    def _mapped(self, request: ConnectRequest, names: CertificateNames) -> Grant | Deferred[Grant]:
        """
        The user that the certificate names. The name in CONNECT does not count; a password must be
        that of this user.
        """
        if request.certificate is not None:
            for name in names.namesIn(request.certificate):
                if self._users[name].permits(request.connectionType):
                    return self._checked(self._users[name], name, request, request.text("pass"))
        raise errors.Unauthorized("the certificate names no user")

    def _checked(
        self, identity: UserEntry | None, name: str, request: ConnectRequest, given: str
    ) -> Grant | Deferred[Grant]:
        known = identity is not None and identity.permits(request.connectionType)
        secret = identity.secret if identity is not None else self._dummySecrets.secretFor(name)
        outcome = self._checks.check(secret, given)
        farewell = self._farewellTo(request)
        if isinstance(outcome, Deferred):
            return outcome.addCallback(_judged, identity if known else None, request, farewell)
        return _judged(outcome, identity if known else None, request, farewell)

    def _farewellTo(self, request: ConnectRequest) -> errors.WireError:
        """
        The error for a client that is denied now. It has no text on the wire if the user or key is
        gone.
        """
        key, name = request.text("nkey"), request.text("user")
        listed = key in self._keys if key else name in self._users
        return errors.AUTHORIZATION if listed or not (key or name) else errors.AUTH_GONE


def _judged(
    same: bool, identity: UserEntry | None, request: ConnectRequest, otherwise: errors.WireError
) -> Grant:
    if identity is None or not same:
        raise errors.Unauthorized("unknown user or wrong secret", otherwise)
    if identity.needsProxy:
        # Only after the secret was compared, so that the time does not show whether the user
        # exists.
        requireProxy(request)
    return identity.grant


def _permitted(identity: UserEntry, request: ConnectRequest) -> Grant:
    if not identity.permits(request.connectionType):
        raise errors.Unauthorized("the user may not use this kind of connection")
    if identity.needsProxy:
        requireProxy(request)
    return identity.grant


def authorizerFrom(settings: Settings, checks: PasswordChecks) -> SettingsAuthorizer:
    """The authorizer of some settings. C{ValueError} if a permission is not a subject."""
    return SettingsAuthorizer(checks, loginsIn(settings))


def loginsIn(settings: Settings) -> Logins:
    """The logins of some settings. C{ValueError} as from L{authorizerFrom}."""
    authorization = settings.authorization
    users, keys = (
        {user.user: _identity(user, settings) for user in settings.users() if user.nkey is signs}
        for signs in (False, True)
    )
    single = None
    if authorization.user:
        user = User(authorization.user, authorization.password)
        user = replace(user, proxy_required=authorization.proxy_required)
        single = _identity(user, settings)
    token = None
    if authorization.token:
        grant = grantFrom(User(""), settings)
        needsProxy = authorization.proxy_required
        token = UserEntry(authorization.token, grant, needsProxy=needsProxy)
    guest = settings.no_auth_user
    if settings.isOpenBesideSystem:
        guest = GUEST
        users[guest] = _identity(User(guest, guest), settings)
    return Logins(
        users,
        token,
        guest,
        settings.tls is not None and settings.tls.verify_and_map,
        keys,
        single,
    )


def _identity(user: User, settings: Settings) -> UserEntry:
    return UserEntry(
        user.password,
        grantFrom(user, settings),
        user.allowed_connection_types,
        user.proxy_required,
    )


def grantFrom(user: User, settings: Settings) -> Grant:
    account = settings.accounts.get(user.account)
    limits = account.limits if account is not None else AccountLimits()
    permissions = user.permissions or Permissions()
    publish, subscribe = permissions.publish, permissions.subscribe
    user = replace(user, account=user.account or GLOBAL_ACCOUNT)
    return Grant(
        **{name: getattr(user, name) for name in GRANTED},
        publish=None if publish is None else PermissionSet(*patternsOf(publish)),
        subscribe=None if subscribe is None else SubscribePermissions(*patternsOf(subscribe)),
        responses=permissions.allow_responses,
        maxPayload=_smaller(limits.max_payload, settings.max_payload),
        maxSubscriptions=_smaller(limits.max_subscriptions, settings.max_subscriptions),
        issuer=user.account if user.nkey else "",
    )


def patternsOf(permission: SubjectPermission) -> tuple[list[bytes] | None, list[bytes]]:
    allow = permission.allow
    return None if allow is None else encoded(allow), encoded(permission.deny)


def _smaller(limit: int, ofServer: int) -> int | None:
    """
    The smaller one of an account's limit and the server's, whose 0 is no limit; none if they are
    equal.
    """
    if limit == UNLIMITED or 0 < ofServer <= limit:
        return None
    return limit
