"""
Grants from the claims of users and accounts.

The least of the limits of the user's JWT (or its scoped signer's template), the account and the
server applies. A user without permissions has its account's.

In a template, C{{{name()}}}, C{{{subject()}}}, C{{{account-name()}}}, C{{{account-subject()}}},
C{{{tag(x)}}} and C{{{account-tag(x)}}} are replaced by values of the JWTs; any other function
denies the user. An allowed subject without a value is left out, and if none is left, nothing is
allowed; a denied one without a value denies the user (nats-server's rules). Stricter than
nats-server 2.15, on purpose: a value with a wildcard or a space counts as missing. In nats-server,
a scoped signer could name a user C{>} and so exceed the template.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from natsbroker import errors
from natsbroker.auth.fields import FieldError, encoded
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.userclaims import (
    NO_LIMIT,
    PermissionClaims,
    UserClaims,
    UserPermissionLimits,
    check,
    limitOf,
)
from natsbroker.subjects.grammar import isValidLiteral
from natsbroker.subjects.permissions import PermissionSet, ResponsePermission, SubscribePermissions
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.grants import Grant

#: The most subjects that one list may become.
MOST = 4096

_PLACE = re.compile(r"\{\{([^}]+)\}\}")
_TAG = re.compile(r"(account-)?tag\((.*)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Values:
    """The values for a template; C{names} by function without argument."""

    names: Mapping[str, str]
    tags: tuple[str, ...] = ()
    accountTags: tuple[str, ...] = ()

    def of(self, place: str) -> list[str]:
        function = place.strip()
        match = _TAG.fullmatch(function)
        if match is not None:
            prefix = match[2].lower() + ":"
            tags = self.accountTags if match[1] else self.tags
            given = [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]
        elif function.lower() in self.names:
            given = [self.names[function.lower()]]
        else:
            raise FieldError(f"the template function {function[:64]!a} is not defined")
        return [value for value in given if isValidLiteral(value.encode("utf-8"))]


def expand(template: PermissionClaims, values: Values) -> PermissionClaims:
    """The permissions for one user; L{FieldError} for a missing value or too many subjects."""
    publishAllow = _expanded(template.publishAllow, values, False)
    subscribeAllow = _expanded(template.subscribeAllow, values, False)
    rules = replace(
        template,
        publishAllow=publishAllow,
        publishDeny=_expanded(template.publishDeny, values, True),
        subscribeAllow=subscribeAllow,
        subscribeDeny=_expanded(template.subscribeDeny, values, True),
    )
    if template.publishAllow and not publishAllow:
        rules = replace(rules, publishDeny=(*rules.publishDeny, ">"))
    if template.subscribeAllow and not subscribeAllow:
        rules = replace(rules, subscribeDeny=(*rules.subscribeDeny, ">"))
    return rules


def _expanded(subjects: Iterable[str], values: Values, isNeeded: bool) -> tuple[str, ...]:
    expanded: list[str] = []
    for subject in subjects:
        pieces = _PLACE.split(subject)
        choices = [values.of(place) for place in pieces[1::2]]
        if isNeeded and not all(choices):
            raise FieldError(f"no value for a template in {subject[:256]!a}")
        if len(expanded) + prod(map(len, choices)) > MOST:
            raise FieldError(f"a template expands to more than {MOST} subjects")
        for chosen in product(*choices):
            pieces[1::2] = chosen
            expanded.append("".join(pieces))
    return tuple(expanded)


_SECOND = 1_000_000_000

#: The number of answers, and the time for them, if a JWT has none or zero (nats-server's defaults).
_ANSWERS = 1
_ANSWER_TIME = 120.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits that no user may exceed; negative for no limit."""

    payload: int = -1
    subscriptions: int = -1


def termsOf(user: UserClaims, account: AccountClaims) -> UserPermissionLimits:
    """
    The limits in a user's JWT, or in its scoped signer's template.

    @raise errors.Unauthorized: if the issuer may not sign for the account, if a scoped signer's
        user has permissions of its own, or if the template is invalid for this user.
    """
    issuer = user.token.issuer
    if issuer not in account.signers:
        raise errors.Unauthorized("the issuer of the user's JWT is not known to its account")
    template = account.signers[issuer]
    if template is None:
        return user.terms
    if user.terms != UserPermissionLimits():
        raise errors.Unauthorized("the JWT of a scoped signer's user has permissions of its own")
    try:
        terms = replace(template, rules=expand(template.rules, _valuesOf(user, account)))
        check(terms)
    except FieldError as error:
        raise errors.Unauthorized(f"the signer's template is malformed: {error}") from error
    return terms


def _valuesOf(user: UserClaims, account: AccountClaims) -> Values:
    names = {
        "name()": user.token.name,
        "subject()": user.token.subject,
        "account-name()": account.token.name,
        "account-subject()": account.token.subject,
    }
    return Values(names, user.tags, account.tags)


def grantOf(
    user: UserClaims,
    terms: UserPermissionLimits,
    account: AccountClaims,
    limits: ServerLimits,
    until: float,
) -> Grant:
    """
    @param until: when the user's time of the day ends, as seconds since the epoch; infinity for
        never.
    @raise errors.Unauthorized: if no subscription is allowed, which is how nats-server reads a JWT
        without limits.
    """
    subscriptions = _least(terms.subscriptions, account.terms.subscriptions, limits.subscriptions)
    if subscriptions == 0:
        raise errors.Unauthorized("the user may have no subscriptions")
    grant = Grant(
        account=account.token.subject,
        user=user.token.subject,
        maxPayload=_least(terms.payload, account.terms.payload, limits.payload),
        maxSubscriptions=subscriptions,
        expires=expiryOf(user, until),
        nameTag=user.token.name,
        issuer=user.token.issuer if user.issuerAccount else user.account,
        tags=user.tags,
        jwt="" if user.terms.bearer or terms.bearer else user.token.text,
    )
    rules = terms.rules if terms.rules != PermissionClaims() else account.defaults
    return rulesInto(grant, rules)


def expiryOf(user: UserClaims, until: float) -> float | None:
    expires = min(until, user.token.expires or math.inf)
    return None if expires == math.inf else expires


def rulesInto(grant: Grant, rules: PermissionClaims) -> Grant:
    """Set permissions; L{errors.Unauthorized} if there are too many patterns."""
    responses = rules.responses
    allow: list[bytes] | None = encoded(rules.publishAllow)
    if not allow:
        allow = None if responses is None else []
    deny = encoded(rules.publishDeny)
    hear, deaf = encoded(rules.subscribeAllow), encoded(rules.subscribeDeny)
    try:
        publish = PermissionSet(allow, deny) if allow is not None or deny else None
        subscribe = SubscribePermissions(hear or None, deaf) if hear or deaf else None
    except TooManyShapes as error:
        raise errors.Unauthorized(f"too many permissions: {error}") from error
    return replace(grant, publish=publish, subscribe=subscribe, responses=_responses(responses))


def _responses(responses: tuple[int, int] | None) -> ResponsePermission | None:
    if responses is None:
        return None
    count, nanoseconds = responses
    return ResponsePermission(
        count or _ANSWERS, nanoseconds / _SECOND if nanoseconds else _ANSWER_TIME
    )


def _least(*limits: int) -> int | None:
    return min((limitOf(limit) for limit in limits if limit != NO_LIMIT), default=None)
