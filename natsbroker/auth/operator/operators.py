"""
What the JWTs of operators ask of a broker.

Settings in which operators contradict themselves or each other are refused with
nats-server's words, before anything listens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natsbroker import NATS_VERSION
from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.operatorclaims import OperatorClaims, TrustedKeys, undecorated
from natsbroker.auth.operator.settings import CACHE, FULL, MEMORY, URL
from natsbroker.auth.operator.terms import UserPermissionLimits
from natsbroker.auth.operator.userclaims import UserClaims
from natsbroker.config.model import SYSTEM_ACCOUNT, Resolver, Settings

__all__ = ["Operators", "operatorsIn"]

#: What the three numbers of a version are called.
_PARTS = ("major", "minor", "update")


@dataclass(frozen=True, slots=True)
class Operators:
    """
    The operators of a broker.

    @ivar trust: whose signature on an account's JWT counts.
    @ivar resolver: where accounts are found.
    @ivar systemAccount: the public key of the system account; the default name if there is none.
    """

    trust: TrustedKeys
    resolver: Resolver
    systemAccount: str


def operatorsIn(settings: Settings) -> Operators:
    """
    The operators that settings name.

    @raise ValueError: if they cannot be served.
    """
    mode = settings.operator
    claims = [_decoded(text) for text in mode.operators]
    for each in claims:
        _checkVersion(each)
    resolver = mode.resolver or _resolverOf(claims)
    if resolver is None:
        raise ValueError("operators require an account resolver to be configured")
    system = _systemAccount(settings.system_account, claims)
    if resolver.type in (FULL, CACHE) and system == SYSTEM_ACCOUNT:
        raise ValueError(
            "using nats based account resolver - the system account needs to be specified in "
            "configuration or the operator jwt"
        )
    _checkPreload(settings)
    if resolver.type == MEMORY and system not in (SYSTEM_ACCOUNT, *mode.resolver_preload):
        raise ValueError("error resolving system account: account missing")
    _checkSentinel(mode.default_sentinel)
    trust = TrustedKeys.of(claims) if claims else TrustedKeys(frozenset(mode.trusted_keys))
    return Operators(trust, resolver, system)


def _decoded(text: str) -> OperatorClaims:
    try:
        return OperatorClaims.decode(undecorated(text))
    except FieldError as error:
        raise ValueError(f"error parsing operator JWT: {error}") from error


def _checkVersion(operator: OperatorClaims) -> None:
    ours = [int(part) for part in NATS_VERSION.split(".")]
    for kind, wanted, number in zip(_PARTS, operator.serverVersion, ours, strict=True):
        if wanted > number:
            raise ValueError(
                f"operator {operator.token.subject} expected {kind} version {wanted} > server "
                f"{kind} version {number}"
            )
        if wanted < number:
            return


def _resolverOf(operators: Sequence[OperatorClaims]) -> Resolver | None:
    """
    The account server that a single operator names.
    """
    if len(operators) != 1 or not operators[0].accountServer:
        return None
    return Resolver(URL, operators[0].accountServer.rstrip("/") + "/accounts/")


def _systemAccount(configured: str, operators: Sequence[OperatorClaims]) -> str:
    named = [each.systemAccount for each in operators if each.systemAccount]
    if configured != SYSTEM_ACCOUNT:
        if named and configured not in named:
            raise ValueError("system_account in config and operator JWT must be identical")
        return configured
    return named[0] if named and len(operators) == 1 else SYSTEM_ACCOUNT


def _checkPreload(settings: Settings) -> None:
    for account, text in settings.operator.resolver_preload.items():
        try:
            claims = AccountClaims.decode(text.strip())
        except FieldError as error:
            raise ValueError(f'preload account error for "{account}": {error}') from error
        if claims.token.subject != account:
            raise ValueError(f'preload account error for "{account}": about another account')


def _checkSentinel(text: str) -> None:
    if not text:
        return
    try:
        user = UserClaims.decode(text)
    except FieldError as error:
        raise ValueError(f"default sentinel JWT not valid: {error}") from error
    isScoped = user.issuerAccount and user.terms == UserPermissionLimits()
    if not user.terms.bearer and not isScoped:
        raise ValueError("default sentinel must be a bearer token")
