"""
From the claims of a user and its account to a grant.

A user gets the least of what its own JWT (or its signer's template), its account and the
server allow; a user without rules of its own has its account's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from natsbroker import errors
from natsbroker.auth.fields import FieldError
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
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.grants import Grant

__all__ = [
    "ServerLimits",
    "Values",
    "expand",
    "expiryOf",
    "grantOf",
    "issuerOf",
    "rulesInto",
    "termsOf",
]

#: The most subjects that one list may become.
MOST = 4096

_PLACE = re.compile(r"\{\{([^}]+)\}\}")
_TAG = re.compile(r"(account-)?tag\((.*)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Values:
    """
    What a template can refer to.

    @ivar names: what the functions without arguments give, by their names.
    @ivar tags: the user's tags.
    @ivar accountTags: the account's.
    """

    names: Mapping[str, str]
    tags: tuple[str, ...] = ()
    accountTags: tuple[str, ...] = ()

    def of(self, place: str) -> list[str]:
        """
        The values of what stands between double braces.

        @raise FieldError: if that is nothing that is known.
        """
        function = place.strip()
        found = _TAG.fullmatch(function)
        if found is not None:
            prefix = found[2].lower() + ":"
            tags = self.accountTags if found[1] else self.tags
            given = [each[len(prefix) :] for each in tags if each.startswith(prefix)]
        elif function.lower() in self.names:
            given = [self.names[function.lower()]]
        else:
            raise FieldError(f"the template function {function[:64]!a} is not defined")
        return [each for each in given if isValidLiteral(each.encode("utf-8"))]


def expand(template: PermissionClaims, values: Values) -> PermissionClaims:
    """
    Make a user's rules of a signer's.

    @raise FieldError: if they cannot be made.
    """
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
    """
    @param isNeeded: whether nothing may be left out.
    """
    expanded: list[str] = []
    for subject in subjects:
        pieces = _PLACE.split(subject)
        choices = [values.of(place) for place in pieces[1::2]]
        if isNeeded and not all(choices):
            raise FieldError(f"no value for a place in {subject[:256]!a}")
        if len(expanded) + prod(map(len, choices)) > MOST:
            raise FieldError(f"a template makes more than {MOST} subjects")
        for chosen in product(*choices):
            pieces[1::2] = chosen
            expanded.append("".join(pieces))
    return tuple(expanded)


_SECOND = 1_000_000_000

#: What is meant by no number, or by zero, of answers and their time (nats-server's defaults).
_ANSWERS = 1
_ANSWER_TIME = 120.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """
    What no user may exceed; negative for no limit.

    @ivar payload: bytes of a message.
    @ivar subscriptions: of one connection.
    """

    payload: int = -1
    subscriptions: int = -1


def termsOf(user: UserClaims, account: AccountClaims) -> UserPermissionLimits:
    """
    What a user may do: what its JWT says, or its scoped signer's template.

    @raise errors.Unauthorized: if the issuer may not sign for the account, or the JWT says anything
        although its signer is a scoped one, or the template makes no sense for this user.
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
        raise errors.Unauthorized(f"the signer's template makes no sense: {error}") from error
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
    What a user is granted.

    @param until: when the times of the day end in which it may be there, as seconds since the
        epoch; infinity for never.
    @raise errors.Unauthorized: if it may have no subscription at all, which is how the real server
        reads a JWT that sets no limit.
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
        issuer=issuerOf(user),
        tags=user.tags,
        jwt="" if user.terms.bearer or terms.bearer else user.token.text,
    )
    rules = terms.rules if terms.rules != PermissionClaims() else account.defaults
    return rulesInto(grant, rules)


def issuerOf(user: UserClaims) -> str:
    """
    Who vouches for a user: the signing key that issued its JWT, or its account.
    """
    return user.token.issuer if user.issuerAccount else user.account


def expiryOf(user: UserClaims, until: float) -> float | None:
    """
    When a user's grant ends; C{None} for never.

    @param until: see L{grantOf}.
    """
    expires = min(until, user.token.expires or math.inf)
    return None if expires == math.inf else expires


def rulesInto(grant: Grant, rules: PermissionClaims) -> Grant:
    """
    A grant with some rules in place of its own.

    @raise errors.Unauthorized: if there are more patterns than can be looked up in time.
    """
    responses = rules.responses
    allow: list[bytes] | None = _encoded(rules.publishAllow)
    if not allow:
        allow = None if responses is None else []
    deny = _encoded(rules.publishDeny)
    hear, deaf = _encoded(rules.subscribeAllow), _encoded(rules.subscribeDeny)
    try:
        publish = PermissionSet(allow, deny) if allow is not None or deny else None
        subscribe = SubscribePermissions(hear or None, deaf) if hear or deaf else None
    except TooManyShapes as error:
        raise errors.Unauthorized(f"too many permissions: {error}") from error
    return replace(grant, publish=publish, subscribe=subscribe, responses=_responses(responses))


def _encoded(subjects: tuple[str, ...]) -> list[bytes]:
    return [each.encode("utf-8") for each in subjects]


def _responses(responses: tuple[int, int] | None) -> ResponsePermission | None:
    if responses is None:
        return None
    count, nanoseconds = responses
    return ResponsePermission(
        count or _ANSWERS, nanoseconds / _SECOND if nanoseconds else _ANSWER_TIME
    )


def _least(*limits: int) -> int | None:
    """
    The smallest of some limits, where C{-1} is none; C{None} if all are none.
    """
    return min((limitOf(each) for each in limits if each != NO_LIMIT), default=None)
