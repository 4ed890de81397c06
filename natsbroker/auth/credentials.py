"""
From the users of the settings to identities with grants.

Pure functions; everything that a user may do is compiled into data here, once.
"""

from __future__ import annotations

from collections.abc import Iterable

from natsbroker.auth.configured import SettingsAuthorizer, UserEntry
from natsbroker.auth.passwords import PasswordChecks
from natsbroker.auth.settings import UNLIMITED
from natsbroker.config.model import (
    GLOBAL_ACCOUNT,
    AccountLimits,
    Permissions,
    Settings,
    SubjectPermission,
    User,
)
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.wire.grants import Grant

__all__ = ["authorizerFrom", "grantFrom"]


def authorizerFrom(settings: Settings, checks: PasswordChecks) -> SettingsAuthorizer:
    """
    The default authorizer for some settings.

    @raise ValueError: if the settings leave it open who may connect (CVE-2023-47090), or a
        permission is no subject.
    """
    authorization = settings.authorization
    users, keys = (
        {user.user: _identity(user, settings) for user in settings.users() if user.nkey is signs}
        for signs in (False, True)
    )
    single = None
    if authorization.user:
        single = _identity(User(authorization.user, authorization.password), settings)
    token = None
    if authorization.token:
        token = UserEntry(authorization.token, grantFrom(User(""), settings))
    authorizer = SettingsAuthorizer(
        checks,
        users,
        token,
        settings.no_auth_user,
        settings.tls is not None and settings.tls.verify_and_map,
        keys,
        single,
    )
    _checkClear(settings, [*users.values(), *keys.values()])
    return authorizer


def _checkClear(settings: Settings, identities: Iterable[UserEntry]) -> None:
    authorization = settings.authorization
    members = {each.grant.account for each in identities}
    told = authorization.defined or authorization.token or settings.no_auth_user
    if members == {settings.system_account} and not told:
        raise ValueError(
            f"only the system account {settings.system_account} has users, which leaves open who "
            "everybody else is"
        )


def _identity(user: User, settings: Settings) -> UserEntry:
    return UserEntry(user.password, grantFrom(user, settings), user.allowed_connection_types)


def grantFrom(user: User, settings: Settings) -> Grant:
    """
    What a user may do.

    @raise ValueError: if a permission is no subject.
    """
    account = settings.accounts.get(user.account)
    limits = account.limits if account is not None else AccountLimits()
    permissions = user.permissions or Permissions()
    publish, subscribe = permissions.publish, permissions.subscribe
    responses = permissions.allow_responses
    return Grant(
        account=user.account or GLOBAL_ACCOUNT,
        user=user.user,
        publish=None if publish is None else PermissionSet(*_patterns(publish)),
        subscribe=None if subscribe is None else SubscribePermissions(*_patterns(subscribe)),
        responses=None
        if responses is None
        else ResponsePermission(responses.max, responses.expires),
        maxPayload=_smaller(limits.max_payload, settings.max_payload),
        maxSubscriptions=_smaller(limits.max_subscriptions, settings.max_subscriptions),
        issuer=(user.account or GLOBAL_ACCOUNT) if user.nkey else "",
    )


def _patterns(permission: SubjectPermission) -> tuple[list[bytes] | None, list[bytes]]:
    allow = permission.allow
    allowed = None if allow is None else [each.encode("utf-8") for each in allow]
    return allowed, [each.encode("utf-8") for each in permission.deny]


def _smaller(limit: int, ofServer: int) -> int | None:
    """
    An account's limit, unless the server's own (where 0 is none) is as small.
    """
    if limit == UNLIMITED or 0 < ofServer <= limit:
        return None
    return limit
