"""
The JWT of an account. Its signature and its meaning were checked, but not whether it is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.exchangeclaims import (
    ExportClaim,
    ImportClaim,
    readExports,
    readImports,
    readMappings,
)
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.auth.operator.userclaims import (
    NO_LIMIT,
    PermissionClaims,
    UserPermissionLimits,
    checkRules,
    limitOf,
    readRules,
    readTerms,
)
from natsbroker.config.settings.accounts import SubjectMapping
from natsbroker.config.settings.authorization import MessageTraces
from natsbroker.subjects.grammar import hasWildcard, isValidLiteral
from natsbroker.wire.nkeys import Role, isKey

#: The name that stands for all users, or for all accounts.
EVERYBODY = "*"

#: The sampling of a trace: all of a hundred.
_EVERY = 100


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """
    @ivar noBearers: whether bearer JWTs of its users are refused.
    @ivar jetstream: whether the account has JetStream.
    @ivar jetstreamLimits: its limits, with the keys of a JetStream account's information.
    @ivar jetstreamTiers: the same by tier, such as C{R1}: the number of replicas. Where there are
        tiers, nothing else holds.
    """

    connections: int = NO_LIMIT
    leafnodes: int = NO_LIMIT
    subscriptions: int = NO_LIMIT
    payload: int = NO_LIMIT
    noBearers: bool = False
    jetstream: bool = False
    jetstreamLimits: Mapping[str, Any] = field(default_factory=dict)
    jetstreamTiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExternalAuthorization:
    """
    The auth callout of an account.

    @ivar users: the public keys of the service's own users; empty without auth callout.
    @ivar accounts: the accounts that the service may place users into, or L{EVERYBODY}; empty for
        its own only.
    @ivar xkey: the public key for encryption; empty for none.
    """

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    xkey: str = ""

    def allows(self, account: str) -> bool:
        return self.accounts == (EVERYBODY,) or account in self.accounts


@dataclass(frozen=True, slots=True)
class AccountClaims:
    """
    @ivar signers: the keys that may sign users, each with the limits of all its users (a scoped
        signer), or C{None} if the users' own JWTs have them.
    @ivar revocations: by user, or L{EVERYBODY}: JWTs that were issued until then are invalid.
        Seconds since the epoch.
    @ivar defaults: the permissions of users without any.
    @ivar trace: where messages with a C{traceparent} header are traced.
    """

    token: SignedJWT
    tags: tuple[str, ...] = ()
    terms: OperatorLimits = OperatorLimits()
    signers: Mapping[str, UserPermissionLimits | None] = field(default_factory=dict)
    revocations: Mapping[str, int] = field(default_factory=dict)
    defaults: PermissionClaims = field(default_factory=PermissionClaims)
    external: ExternalAuthorization = ExternalAuthorization()
    exports: tuple[ExportClaim, ...] = ()
    imports: tuple[ImportClaim, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    trace: MessageTraces = field(default_factory=MessageTraces)

    @classmethod
    def decode(cls, text: str) -> AccountClaims:
        token = decodeToken(text, "account")
        nats = token.nats
        limits = nats.block("limits") or Fields([])
        claims = cls(
            token,
            nats.texts("tags"),
            _terms(limits),
            _signers(nats),
            nats.integers("revocations"),
            readRules(nats.block("default_permissions") or Fields([])),
            _external(nats.block("authorization") or Fields([])),
            readExports(nats),
            readImports(nats, token.subject),
            readMappings(nats),
            _traces(nats.block("trace")),
        )
        if not isKey(token.subject, Role.ACCOUNT):
            raise FieldError("its subject is not an account's public key")
        checkRules(claims.defaults)
        _checkNumbers(limits, claims)
        return claims

    @property
    def exchanges(self) -> bool:
        has = self.exports or self.imports or self.mappings or self.trace.dest
        return bool(has or self.terms.jetstream)

    def isRevoked(self, user: str, issuedAt: int) -> bool:
        until = (self.revocations.get(key) for key in (EVERYBODY, user))
        return any(revoked is not None and issuedAt <= revoked for revoked in until)


def _terms(limits: Fields) -> OperatorLimits:
    """Read limits. An absent one is zero, as in nats-server."""
    return OperatorLimits(
        _limit(limits, "conn"),
        _limit(limits, "leaf"),
        _limit(limits, "subs"),
        _limit(limits, "payload"),
        limits.flag("disallow_bearer"),
        *_jetStream(limits),
    )


def _jetStream(limits: Fields) -> tuple[bool, Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    tiers: dict[str, Mapping[str, Any]] = {}
    for name in limits.block("tiered_limits") or ():
        tier = (limits.block("tiered_limits") or Fields([])).block(name)
        if tier is not None:
            tiers[name.upper()] = _storage(tier)
    if tiers:
        return True, {}, tiers
    if limits.integer("mem_storage") or limits.integer("disk_storage"):
        return True, _storage(limits), {}
    return False, {}, {}


def _storage(limits: Fields) -> dict[str, Any]:
    """
    The limits of a JetStream account. Absent limits are 0, which is no limit for streams and acks.
    """
    return {
        "max_memory": limits.integer("mem_storage"),
        "max_storage": limits.integer("disk_storage"),
        "max_streams": limits.integer("streams"),
        "max_consumers": limits.integer("consumer"),
        "max_ack_pending": limits.integer("max_ack_pending") or NO_LIMIT,
        "memory_max_stream_bytes": limits.integer("mem_max_stream_bytes") or NO_LIMIT,
        "storage_max_stream_bytes": limits.integer("disk_max_stream_bytes") or NO_LIMIT,
        "max_bytes_required": limits.flag("max_bytes_required"),
    }


def _limit(limits: Fields, name: str) -> int:
    return limitOf(limits.integer(name))


def _signers(nats: Fields) -> dict[str, UserPermissionLimits | None]:
    signers: dict[str, UserPermissionLimits | None] = {}
    for signer in nats.textsOrBlocks("signing_keys"):
        if isinstance(signer, str):
            signers[signer] = None
            continue
        if signer.text("kind") != "user_scope":
            raise FieldError("signing_keys: no such kind of scope")
        template = signer.block("template") or Fields([])
        signers[signer.text("key")] = readTerms(template, absent=NO_LIMIT)
    if not all(isKey(key, Role.ACCOUNT) for key in signers):
        raise FieldError("signing_keys: not an account's public key")
    return signers


def _external(fields: Fields) -> ExternalAuthorization:
    external = ExternalAuthorization(
        fields.texts("auth_users"), fields.texts("allowed_accounts"), fields.text("xkey")
    )
    if external.accounts and not external.users:
        raise FieldError("authorization: accounts without users")
    if not all(isKey(user, Role.USER) for user in external.users):
        raise FieldError("authorization: not a user's public key")
    if external.accounts != (EVERYBODY,):
        if not all(isKey(account, Role.ACCOUNT) for account in external.accounts):
            raise FieldError("authorization: not an account's public key")
    if external.xkey and not isKey(external.xkey, Role.CURVE):
        raise FieldError("authorization: not a public xkey")
    return external


def _traces(fields: Fields | None) -> MessageTraces:
    """
    Read the settings of traces. A missing or zero sampling samples all messages. The errors are
    nats-server's.
    """
    if fields is None:
        return MessageTraces()
    traces = MessageTraces(fields.text("dest"), fields.integer("sampling") or _EVERY)
    why = _destinationProblem(traces.dest)
    if why:
        raise FieldError(f"the account Trace.Destination subject {why}")
    if not 1 <= traces.sampling <= _EVERY:
        raise FieldError(
            f"the account Trace.Sampling value '{traces.sampling}' is not valid, "
            "should be in the range [1..100]"
        )
    return traces


def _destinationProblem(dest: str) -> str:
    if not dest:
        return "cannot be empty"
    quoted = f'"{dest}"'
    if " " in dest:
        return f"{quoted} cannot have spaces"
    if dest.startswith(".") or dest.endswith("."):
        return f"{quoted} cannot start or end with a `.`"
    if ".." in dest:
        return f"{quoted} cannot contain consecutive `.`"
    if not isValidLiteral(dest.encode("utf-8")):
        return f"{quoted} is not a valid publish subject"
    return ""


def _checkNumbers(limits: Fields, claims: AccountClaims) -> None:
    for name, things in (("imports", claims.imports), ("exports", claims.exports)):
        allowed = limits.integer(name)
        if allowed != NO_LIMIT and len(things) > allowed:
            raise FieldError(f"more {name} than the operator allows")
    if not limits.flag("wildcards") and limits.integer("exports") != NO_LIMIT:
        if any(hasWildcard(export.export.subject.encode("utf-8")) for export in claims.exports):
            raise FieldError("exports with wildcards, which the operator does not allow")
