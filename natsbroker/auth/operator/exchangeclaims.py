"""
The exports, imports and subject mappings in an account's JWT.

An activation token must be the exporting account's or its signing key's, for this account and type,
and for a subject that covers the import (CVE-2021-3127).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.accounts.settings import MappingDestination, SubjectMapping
from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.subjects.grammar import hasWildcard, isSubset, isValidSubject

__all__ = [
    "ExportClaim",
    "ImportClaim",
    "readExports",
    "readImports",
    "readMappings",
]

_KINDS = frozenset({"stream", "service"})
_RESPONSES = frozenset({"", "Singleton", "Stream", "Chunked"})


@dataclass(frozen=True, slots=True)
class ExportClaim:
    """
    @ivar kind: C{stream} or C{service}.
    @ivar isPrivate: whether importers need an activation token.
    @ivar revocations: by account, or C{*}: tokens that were issued until then are invalid. Seconds
        since the epoch.
    @ivar responseType: C{Singleton}, C{Stream}, C{Chunked} or empty.
    @ivar threshold: the most nanoseconds for a response; 0 for the default.
    @ivar latency: the subject for latency samples and the percentage (0: where headers ask for it);
        C{None} without.
    @ivar accountPosition: the token of the subject that names the importing account, from 1; 0 for
        none.
    """

    subject: str
    kind: str
    isPrivate: bool = False
    revocations: Mapping[str, int] = field(default_factory=dict)
    responseType: str = ""
    threshold: int = 0
    latency: tuple[str, int] | None = None
    accountPosition: int = 0
    allowTrace: bool = False


@dataclass(frozen=True, slots=True)
class ImportClaim:
    """
    @ivar subject: in the exporting account.
    @ivar kind: C{stream} or C{service}.
    @ivar account: the exporting account's public key.
    @ivar to: the local subject (of a stream) in the old form.
    @ivar localSubject: the local subject.
    @ivar share: whether the exporting account learns the client.
    """

    subject: str
    kind: str
    account: str
    to: str = ""
    localSubject: str = ""
    share: bool = False
    allowTrace: bool = False
    activation: SignedJWT | None = None


def readExports(fields: Fields) -> tuple[ExportClaim, ...]:
    """
    @raise FieldError: if one is invalid, or covers another.
    """
    exports = tuple(map(_export, fields.blocks("exports")))
    for one in exports:
        for other in exports:
            if one is not other and one.kind == other.kind and _covers(one.subject, other.subject):
                raise FieldError("exports: one covers another")
    return exports


def _export(fields: Fields) -> ExportClaim:
    latency = fields.block("service_latency")
    export = ExportClaim(
        _subject(fields, "subject"),
        _kind(fields),
        fields.flag("token_req"),
        fields.integers("revocations"),
        fields.text("response_type"),
        fields.integer("response_threshold"),
        None if latency is None else _latency(latency),
        fields.integer("account_token_position"),
        fields.flag("allow_trace"),
    )
    isService = export.kind == "service"
    if export.responseType not in _RESPONSES or (export.responseType and not isService):
        raise FieldError("exports: no such type of response")
    if export.threshold < 0 or (not isService and (export.threshold or export.latency)):
        raise FieldError("exports: only services have a latency or a threshold")
    _checkPosition(export)
    return export


def _checkPosition(export: ExportClaim) -> None:
    position = export.accountPosition
    tokens = export.subject.split(".")
    if position and not (1 <= position <= len(tokens) and tokens[position - 1] == "*"):
        raise FieldError("exports: the account's token is not a wildcard of the subject")


def _latency(fields: Fields) -> tuple[str, int]:
    subject = _subject(fields, "results")
    if fields.isText("sampling"):
        sampling = 0 if fields.text("sampling").lower() == "headers" else -1
    else:
        sampling = fields.integer("sampling")
    if not 0 <= sampling <= 100 or hasWildcard(subject.encode("utf-8")):
        raise FieldError("exports: latency samples of no sense")
    return subject, sampling


def readImports(fields: Fields, account: str) -> tuple[ImportClaim, ...]:
    """
    @param account: the importing account's public key.
    @raise FieldError: if one is invalid, or its activation token is for another.
    """
    return tuple(_import(each, account) for each in fields.blocks("imports"))


def _import(fields: Fields, account: str) -> ImportClaim:
    token = fields.text("token")
    claim = ImportClaim(
        _subject(fields, "subject"),
        _kind(fields),
        fields.text("account"),
        _optionalSubject(fields, "to"),
        _optionalSubject(fields, "local_subject"),
        fields.flag("share"),
        fields.flag("allow_trace"),
        decodeToken(token, "activation") if token else None,
    )
    if not claim.account:
        raise FieldError("imports: from no account")
    if claim.to and claim.localSubject:
        raise FieldError("imports: to and local_subject exclude each other")
    if claim.activation is not None:
        _checkActivation(claim, claim.activation, account)
    return claim


def _checkActivation(claim: ImportClaim, token: SignedJWT, account: str) -> None:
    nats = token.nats
    issuer = nats.text("issuer_account") or token.issuer
    if issuer != claim.account:
        raise FieldError("imports: the activation token is not the exporting account's")
    if token.subject != account:
        raise FieldError("imports: the activation token is for another account")
    if nats.text("kind") != claim.kind:
        raise FieldError("imports: the activation token is for another type")
    subject = claim.to if claim.kind == "service" and claim.to else claim.subject
    if not _covers(_subject(nats, "subject"), subject):
        raise FieldError("imports: the activation token is for another subject")


def readMappings(fields: Fields) -> tuple[SubjectMapping, ...]:
    """
    @raise FieldError: if one is invalid.
    """
    found = fields.blocksByName("mappings")
    if not all(isValidSubject(source.encode("utf-8")) for source in found):
        raise FieldError("mappings: not a valid subject")
    return tuple(
        SubjectMapping(source, tuple(map(_destination, each))) for source, each in found.items()
    )


def _destination(fields: Fields) -> MappingDestination:
    weight = fields.integer("weight") or 100
    if not 0 < weight <= 100:
        raise FieldError("mappings: no such weight")
    return MappingDestination(fields.text("subject"), weight, fields.text("cluster"))


def _kind(fields: Fields) -> str:
    kind = fields.text("type")
    if kind not in _KINDS:
        raise FieldError("neither a stream nor a service")
    return kind


def _subject(fields: Fields, name: str) -> str:
    subject = fields.text(name)
    if not isValidSubject(subject.encode("utf-8")):
        raise FieldError(f"{name} is not a valid subject")
    return subject


def _optionalSubject(fields: Fields, name: str) -> str:
    return _subject(fields, name) if fields.text(name) else ""


def _covers(wide: str, narrow: str) -> bool:
    return isSubset(narrow.encode("utf-8"), wide.encode("utf-8"))
