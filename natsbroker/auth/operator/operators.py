"""Operators' JWTs and the settings that they imply; contradictions have nats-server's texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from natsbroker import NATS_VERSION
from natsbroker.auth.fields import FieldError
from natsbroker.auth.nkeys import decodeRaw
from natsbroker.auth.operator.accountclaims import AccountClaims
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.auth.operator.userclaims import UserClaims, UserPermissionLimits
from natsbroker.config.model import SYSTEM_ACCOUNT, Resolver, Settings
from natsbroker.config.settings.operator import CACHE, FULL, GIVEN, MEMORY, URL, OperatorMode
from natsbroker.wire.nkeys import Role, isKey

_DECORATED = re.compile(r"\s*-{3,}[^\n]*-{3,}\r?\n([\w\-.=]+)\r?\n-{3,}[^\n]*-{3,}(?:\r?\n|\Z)")


def undecorated(text: str) -> str:
    """The JWT in a file, which may stand between decorating lines."""
    match = _DECORATED.search(text)
    return match[1] if match else text.strip()


@dataclass(frozen=True, slots=True)
class OperatorClaims:
    """
    @ivar systemAccount: the public key of the system account; empty for none.
    @ivar accountServer: the URL below which its accounts' JWTs are; empty for none.
    @ivar serverVersion: the oldest server that it allows.
    @ivar isStrict: whether its own key may not sign accounts, only its signing keys.
    """

    token: SignedJWT
    signingKeys: tuple[str, ...]
    systemAccount: str
    accountServer: str
    serverVersion: tuple[int, int, int]
    isStrict: bool

    @classmethod
    def decode(cls, text: str) -> OperatorClaims:
        token = decodeToken(text, "operator")
        nats = token.nats
        claims = cls(
            token,
            nats.texts("signing_keys"),
            nats.text("system_account"),
            nats.text("account_server_url"),
            _version(nats.text("assert_server_version")),
            nats.flag("strict_signing_key_usage"),
        )
        for key in (token.subject, *claims.signingKeys):
            if not isKey(key, Role.OPERATOR):
                raise FieldError("not an operator's public key")
        if claims.systemAccount and not isKey(claims.systemAccount, Role.ACCOUNT):
            raise FieldError("system_account is not an account's public key")
        return claims


def _version(text: str) -> tuple[int, int, int]:
    if not text:
        return 0, 0, 0
    match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text, re.ASCII)
    if match is None:
        raise FieldError("assert_server_version is not three numbers")
    return int(match[1]), int(match[2]), int(match[3])


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """
    Keys that may sign accounts: of operators and their signing keys.

    @ivar strictKeys: those whose accounts may not sign users with their own keys.
    """

    keys: frozenset[str]
    strictKeys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, operators: Iterable[OperatorClaims]) -> TrustedKeys:
        keys: set[str] = set()
        strict: set[str] = set()
        for operator in operators:
            keys.update(operator.signingKeys)
            if operator.isStrict:
                strict.update(operator.signingKeys)
            else:
                keys.add(operator.token.subject)
        return cls(frozenset(keys), frozenset(strict))


#: The names of the three numbers of a version.
_PARTS = ("major", "minor", "update")


@dataclass(frozen=True, slots=True)
class Operators:
    trust: TrustedKeys
    resolver: Resolver
    systemAccount: str


def operatorsIn(settings: Settings, hasResolver: bool = False) -> Operators:
    """
    @param hasResolver: whether the embedder's resolver replaces that of the settings.
    @raise ValueError: if the operators and the settings contradict each other.
    """
    mode = settings.operator
    claims = [_decoded(text) for text in mode.operators]
    for claim in claims:
        _checkVersion(claim)
    resolver = Resolver(GIVEN) if hasResolver else mode.resolver or _resolverOf(claims)
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


#: The order of a JWT's members in Go.
_MEMBERS = ("aud", "exp", "jti", "iat", "iss", "name", "nbf", "sub", "nats")


def shownOperators(mode: OperatorMode) -> tuple[list[str], list[dict[str, Any]]]:
    """The operators' JWTs, which are public, and the claims in them."""
    texts = [undecorated(text) for text in mode.operators]
    every = [json.loads(decodeRaw(text.split(".")[1])) for text in texts]
    return texts, [{name: claims[name] for name in _MEMBERS if name in claims} for claims in every]


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
    if len(operators) != 1 or not operators[0].accountServer:
        return None
    return Resolver(URL, operators[0].accountServer.rstrip("/") + "/accounts/")


def _systemAccount(configured: str, operators: Sequence[OperatorClaims]) -> str:
    named = [operator.systemAccount for operator in operators if operator.systemAccount]
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
