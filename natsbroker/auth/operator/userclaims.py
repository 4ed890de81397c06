"""
The JWT of a user.

What L{UserClaims.decode} returns has a true signature, is about a user's key, and makes
sense; nothing more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.nkeys import Role, isKey
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.subjects.grammar import isValidSubject

__all__ = [
    "CONNECTION_TYPES",
    "NO_LIMIT",
    "PermissionClaims",
    "UserClaims",
    "UserPermissionLimits",
    "check",
    "checkRules",
    "isFrom",
    "limitOf",
    "networkOf",
    "readRules",
    "readTerms",
    "validUntil",
    "zoneOf",
]

#: The kinds of connection that a JWT may name.
CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)

NO_LIMIT = -1

_NETWORK = re.compile(r"[0-9a-f:.]+/[0-9]{1,3}", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class PermissionClaims:
    """
    What may be published and subscribed. An empty list of what is allowed allows everything.

    @ivar subscribeAllow: subjects, or a subject and a queue with a blank between; likewise
        C{subscribeDeny}.
    @ivar responses: how many answers to each request, and for how many nanoseconds; C{None} if
        requests may not be answered beside the other rules.
    """

    publishAllow: tuple[str, ...] = ()
    publishDeny: tuple[str, ...] = ()
    subscribeAllow: tuple[str, ...] = ()
    subscribeDeny: tuple[str, ...] = ()
    responses: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class UserPermissionLimits:
    """
    What a user may do. Without arguments: what is said about a user of a scoped signer, of whom
    nothing may be said.

    @ivar sources: networks that the user may come from; empty for anywhere.
    @ivar times: beginnings and ends of the times of a day, as C{15:04:05}; empty for always.
    @ivar zone: the name of the time zone of these; empty for the machine's.
    @ivar subscriptions: how many; L{NO_LIMIT} for any number.
    @ivar data: bytes; nats-server 2.15 reads this limit and does not apply it, and neither do we.
    @ivar payload: bytes of a message; L{NO_LIMIT} for what the server allows.
    @ivar bearer: whether the JWT alone is enough, without a signature.
    @ivar proxyRequired: whether the user must come through a trusted proxy.
    @ivar connectionTypes: kinds of connection in capitals; empty for every kind.
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
    """
    What a number in a JWT limits to. Only C{-1} is no limit; other negative numbers allow nothing,
    as C{0} does. (Observed of nats-server 2.15.)
    """
    return number if number == NO_LIMIT else max(number, 0)


def readRules(fields: Fields) -> PermissionClaims:
    """
    Read C{pub}, C{sub} and C{resp}.

    @raise FieldError: if they are not as they should be.
    """
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
    """
    Read the terms of a user or of a template.

    @param absent: what a limit is that is not there.
    @raise FieldError: if they are not as they should be.
    """
    return UserPermissionLimits(
        readRules(fields),
        _sources(fields),
        tuple((each.text("start"), each.text("end")) for each in fields.blocks("times")),
        fields.text("times_location"),
        fields.integer("subs", absent),
        fields.integer("data", absent),
        fields.integer("payload", absent),
        fields.flag("bearer_token"),
        fields.flag("proxy_required"),
        tuple(each.upper() for each in fields.texts("allowed_connection_types")),
    )


def _sources(fields: Fields) -> tuple[str, ...]:
    """
    Networks as an array, or as one text with commas between them.
    """
    if not fields.isText("src"):
        return fields.texts("src")
    parts = [each.strip().lower() for each in fields.text("src").split(",")]
    return tuple(each for each in parts if each)


def check(terms: UserPermissionLimits) -> None:
    """
    Check what a user is to be held to.

    @raise FieldError: if anything in it has no meaning.
    """
    checkRules(terms.rules)
    for each in terms.sources:
        networkOf(each)
    for start, end in terms.times:
        if not _TIME.fullmatch(start) or not _TIME.fullmatch(end):
            raise FieldError("times: not a time of a day")
    zoneOf(terms.zone)


def checkRules(rules: PermissionClaims) -> None:
    """
    Check the subjects of some rules.

    @raise FieldError: if one is none.
    """
    for each in (*rules.publishAllow, *rules.publishDeny):
        if not _isSubject(each):
            raise FieldError(f"pub: {each[:256]!a} is not a subject")
    _checkScopes((*rules.subscribeAllow, *rules.subscribeDeny))


def _checkScopes(entries: Iterable[str]) -> None:
    for each in entries:
        words = each.split(" ")
        if len(words) > 2 or not all(map(_isSubject, words)):
            raise FieldError(f"sub: {each[:256]!a} is neither a subject nor one with a queue")


def _isSubject(text: str) -> bool:
    return isValidSubject(text.encode("utf-8"))


def networkOf(text: str) -> IPv4Network | IPv6Network:
    """
    A network from an address and the length of its prefix.

    @raise FieldError: if the text is none.
    """
    if _NETWORK.fullmatch(text):
        try:
            return ip_network(text, strict=False)
        except ValueError:
            pass  # told below
    raise FieldError(f"src: {text[:64]!a} is not a network")


def zoneOf(name: str) -> ZoneInfo | None:
    """
    A time zone by its name; C{None} for no name.

    @raise FieldError: if there is none of this name.
    """
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise FieldError("times_location: not a time zone") from error


def isFrom(host: str, sources: Iterable[str]) -> bool:
    """
    Whether an address lies in one of some networks.

    @param host: the address of the peer itself; anything that is no address lies in none.
    @param sources: networks; none of them for anywhere.
    """
    networks = list(sources)
    if not networks:
        return True
    try:
        address = ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in networkOf(each) for each in networks)
    except (FieldError, ValueError):
        return False


def validUntil(times: Iterable[tuple[str, str]], zone: str, now: float) -> float:
    """
    When the time of the day ends in which a moment lies.

    @param times: beginnings and ends, as C{15:04:05}; a range that ends before it begins goes on
        over midnight. None of them is for always.
    @param zone: the name of the time zone that they are meant in; empty for the machine's.
    @param now: the moment, in seconds since the epoch.
    @return: seconds since the epoch, the latest if several ranges hold the moment: infinity for
        always, and minus infinity if no range holds it.
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
    """
    What an account says about one of its users.

    @ivar token: the JWT.
    @ivar issuerAccount: the account's public key, if a signing key issued it; else empty.
    @ivar tags: as they stand there.
    @ivar terms: what the user may do.
    """

    token: SignedJWT
    issuerAccount: str
    tags: tuple[str, ...]
    terms: UserPermissionLimits

    @classmethod
    def decode(cls, text: str) -> UserClaims:
        """
        Read a JWT.

        @raise FieldError: if it is not a user's, or makes no sense.
        """
        token = decodeToken(text, "user")
        nats = token.nats
        # A limit that is not there is zero, but none in version 1: as nats-server reads them.
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
        """
        The public key of the account.
        """
        return self.issuerAccount or self.token.issuer
