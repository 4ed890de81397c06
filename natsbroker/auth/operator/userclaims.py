"""The JWT of a user. Its signature and its meaning were checked, but not whether it is trusted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire.nkeys import Role, isKey

NO_LIMIT = -1

_NETWORK = re.compile(r"[0-9a-f:.]+/[0-9]{1,3}", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class PermissionClaims:
    """
    The subjects to publish and subscribe. An empty list of allowed ones allows all.

    @ivar subscribeAllow: subjects, or subject and queue separated by a space; likewise
        C{subscribeDeny}.
    @ivar responses: the most responses to a request, and the nanoseconds for them; C{None} without
        this permission.
    """

    publishAllow: tuple[str, ...] = ()
    publishDeny: tuple[str, ...] = ()
    subscribeAllow: tuple[str, ...] = ()
    subscribeDeny: tuple[str, ...] = ()
    responses: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class UserPermissionLimits:
    """
    The permissions and limits in a user's JWT or a scoped signer's template. The default is that of
    a scoped signer's user, which must have none of its own.

    @ivar sources: networks of allowed addresses; empty for all.
    @ivar times: beginnings and ends of allowed times of the day, as C{15:04:05}; empty for always.
    @ivar zone: their time zone; empty for the machine's.
    @ivar data: bytes; not applied, as in nats-server 2.15.
    @ivar payload: bytes of a message; L{NO_LIMIT} for the server's limit.
    @ivar connectionTypes: upper-case kinds of connection; empty for all.
    """

    rules: PermissionClaims = PermissionClaims()
    sources: tuple[str, ...] = ()
    times: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    subscriptions: int = 0
    data: int = 0
    payload: int = 0
    bearer: bool = False
    proxyRequired: bool = False
    connectionTypes: tuple[str, ...] = ()


def limitOf(number: int) -> int:
    """A limit. Only C{-1} is no limit; other negative numbers are 0 (as in nats-server 2.15)."""
    return number if number == NO_LIMIT else max(number, 0)


def readRules(fields: Fields) -> PermissionClaims:
    publish = fields.block("pub") or Fields([])
    subscribe = fields.block("sub") or Fields([])
    responses = fields.block("resp")
    return PermissionClaims(
        publish.texts("allow"),
        publish.texts("deny"),
        subscribe.texts("allow"),
        subscribe.texts("deny"),
        None if responses is None else (responses.integer("max"), responses.integer("ttl")),
    )


def readTerms(fields: Fields, absent: int) -> UserPermissionLimits:
    """Read terms with a value for absent limits; L{FieldError} if a member is malformed."""
    return UserPermissionLimits(
        readRules(fields),
        _sources(fields),
        tuple((block.text("start"), block.text("end")) for block in fields.blocks("times")),
        fields.text("times_location"),
        fields.integer("subs", absent),
        fields.integer("data", absent),
        fields.integer("payload", absent),
        fields.flag("bearer_token"),
        fields.flag("proxy_required"),
        tuple(text.upper() for text in fields.texts("allowed_connection_types")),
    )


def _sources(fields: Fields) -> tuple[str, ...]:
    if not fields.isText("src"):
        return fields.texts("src")
    parts = [part.strip().lower() for part in fields.text("src").split(",")]
    return tuple(part for part in parts if part)


def check(terms: UserPermissionLimits) -> None:
    checkRules(terms.rules)
    for source in terms.sources:
        networkOf(source)
    for start, end in terms.times:
        if not _TIME.fullmatch(start) or not _TIME.fullmatch(end):
            raise FieldError("times: not a time of a day")
    zoneOf(terms.zone)


def checkRules(rules: PermissionClaims) -> None:
    for subject in (*rules.publishAllow, *rules.publishDeny):
        if not _isSubject(subject):
            raise FieldError(f"pub: {subject[:256]!a} is not a subject")
    _checkScopes((*rules.subscribeAllow, *rules.subscribeDeny))


def _checkScopes(entries: Iterable[str]) -> None:
    for entry in entries:
        words = entry.split(" ")
        if len(words) > 2 or not all(map(_isSubject, words)):
            raise FieldError(f"sub: {entry[:256]!a} is neither a subject nor one with a queue")


def _isSubject(text: str) -> bool:
    return isValidSubject(text.encode("utf-8"))


def networkOf(text: str) -> IPv4Network | IPv6Network:
    if _NETWORK.fullmatch(text):
        try:
            return ip_network(text, strict=False)
        except ValueError:
            pass  # The error below reports it.
    raise FieldError(f"src: {text[:64]!a} is not a network")


def zoneOf(name: str) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise FieldError("times_location: not a time zone") from error


def isFrom(host: str, sources: Iterable[str]) -> bool:
    """Whether an address is in one of the networks; without networks, any is."""
    networks = list(sources)
    if not networks:
        return True
    try:
        address = ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in networkOf(network) for network in networks)
    except (FieldError, ValueError):
        return False


def validUntil(times: Iterable[tuple[str, str]], zone: str, now: float) -> float:
    """
    Find the end of the allowed time of the day.

    @param times: beginnings and ends; a range that ends before it begins spans midnight. Empty for
        always.
    @param zone: the name of their time zone; empty for the machine's.
    @return: seconds since the epoch, the latest of several ranges; infinity for always, minus
        infinity if C{now} is in no range.
    """
    ranges = list(times)
    if not ranges:
        return math.inf
    try:
        today = datetime.fromtimestamp(now, zoneOf(zone))
        return max(_end(today, start, end, now) for start, end in ranges)
    except (FieldError, ValueError, OverflowError, OSError):
        return -math.inf


def _end(today: datetime, start: str, end: str, now: float) -> float:
    begins, ends = _at(today, start), _at(today, end)
    if begins <= ends:
        return ends if begins <= now < ends else -math.inf
    if now < ends:
        return ends
    return _at(today + timedelta(days=1), end) if begins <= now else -math.inf


def _at(day: datetime, time: str) -> float:
    hour, minute, second = map(int, time.split(":"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0).timestamp()


@dataclass(frozen=True, slots=True)
class UserClaims:
    """A user's JWT; C{issuerAccount} has the account of a signing key, or is empty."""

    token: SignedJWT
    issuerAccount: str
    tags: tuple[str, ...]
    terms: UserPermissionLimits

    @classmethod
    def decode(cls, text: str) -> UserClaims:
        token = decodeToken(text, "user")
        nats = token.nats
        # As in nats-server, a missing limit is zero, but unlimited in version 1.
        terms = readTerms(nats, absent=NO_LIMIT if token.isOld else 0)
        claims = cls(token, nats.text("issuer_account"), nats.texts("tags"), terms)
        if not isKey(token.subject, Role.USER):
            raise FieldError("its subject is not a user's public key")
        if claims.issuerAccount and not isKey(claims.issuerAccount, Role.ACCOUNT):
            raise FieldError("issuer_account is not an account's public key")
        check(claims.terms)
        return claims

    @property
    def account(self) -> str:
        return self.issuerAccount or self.token.issuer
