"""
The exports, imports and subject mappings in an account's JWT. An activation token must be the
exporting account's or its signing key's, for this account and type, and for a subject that covers
the import (CVE-2021-3127).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.auth.operator.tokens import SignedJWT, decodeToken
from natsbroker.config.settings.accounts import (
    CHUNKED,
    RESPONSE_THRESHOLD,
    SINGLETON,
    STREAM,
    Export,
    Import,
    Latency,
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
)
from natsbroker.subjects.grammar import hasWildcard, isSubset, isValidSubject

_KINDS = frozenset({"stream", "service"})
_RESPONSES = {"": SINGLETON, "Singleton": SINGLETON, "Stream": STREAM, "Chunked": CHUNKED}
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ExportClaim:
    """
    @ivar export: for all accounts.
    @ivar isPrivate: whether importers need an activation token.
    @ivar revocations: by account, or C{*}: tokens that were issued until then are invalid. Seconds
        since the epoch.
    """

    export: Export
    isPrivate: bool = False
    revocations: Mapping[str, int] = field(default_factory=dict)

    def covers(self, claim: ImportClaim) -> bool:
        isService = isinstance(self.export, ServiceExport)
        return isService == isinstance(claim.wanted, ServiceImport) and _covers(
            self.export.subject, claim.wanted.subject
        )


@dataclass(frozen=True, slots=True)
class ImportClaim:
    wanted: Import
    activation: SignedJWT | None = None


def readExports(fields: Fields) -> tuple[ExportClaim, ...]:
    exports = tuple(map(_export, fields.blocks("exports")))
    for one in exports:
        for other in exports:
            isSameKind = one is not other and type(one.export) is type(other.export)
            if isSameKind and _covers(one.export.subject, other.export.subject):
                raise FieldError("exports: the subject of one covers that of another")
    return exports


def _export(fields: Fields) -> ExportClaim:
    subject, isService = _subject(fields, "subject"), _kind(fields) == "service"
    isPrivate, revocations = fields.flag("token_req"), fields.integers("revocations")
    response, threshold = fields.text("response_type"), fields.integer("response_threshold")
    block = fields.block("service_latency")
    latency = None if block is None else _latency(block)
    position, allowTrace = fields.integer("account_token_position"), fields.flag("allow_trace")
    if response not in _RESPONSES or (response and not isService):
        raise FieldError("exports: unknown type of response")
    if threshold < 0 or (not isService and (threshold or latency)):
        raise FieldError("exports: only services have a latency or a threshold")
    tokens = subject.split(".")
    if position and not (1 <= position <= len(tokens) and tokens[position - 1] == "*"):
        raise FieldError("exports: account_token_position does not name a wildcard of the subject")
    if not isService:
        return ExportClaim(StreamExport(subject, None, position), isPrivate, revocations)
    kind = _RESPONSES[response]
    export = ServiceExport(
        subject,
        None,
        position,
        kind,
        threshold / _SECOND if threshold else RESPONSE_THRESHOLD,
        # Only services with one response are measured.
        latency if kind == SINGLETON else None,
        allowTrace,
    )
    return ExportClaim(export, isPrivate, revocations)


def _latency(fields: Fields) -> Latency:
    subject = _subject(fields, "results")
    if fields.isText("sampling"):
        sampling = 0 if fields.text("sampling").lower() == "headers" else -1
    else:
        sampling = fields.integer("sampling")
    if not 0 <= sampling <= 100 or hasWildcard(subject.encode("utf-8")):
        raise FieldError("exports: the sampling of latency is not valid")
    return Latency(subject, sampling)


def readImports(fields: Fields, account: str) -> tuple[ImportClaim, ...]:
    """
    Read the imports. L{FieldError} if one is invalid, or its activation token is for another
    import.
    """
    return tuple(_import(block, account) for block in fields.blocks("imports"))


def _import(fields: Fields, importer: str) -> ImportClaim:
    subject, isService = _subject(fields, "subject"), _kind(fields) == "service"
    account = fields.text("account")
    # In the old form, C{to} is a stream's local prefix, or a service's subject in its account.
    to, local = _optionalSubject(fields, "to"), _optionalSubject(fields, "local_subject")
    share, allowTrace = fields.flag("share"), fields.flag("allow_trace")
    token = fields.text("token")
    activation = decodeToken(token, "activation") if token else None
    if not account:
        raise FieldError("imports: the account is missing")
    if to and local:
        raise FieldError("imports: to and local_subject exclude each other")
    wanted: Import
    if isService:
        wanted = ServiceImport(account, to or subject, local or subject, share)
    else:
        wanted = StreamImport(
            account, subject, local or (f"{to}.{subject}" if to else subject), allowTrace
        )
    if activation is not None:
        _checkActivation(wanted, fields.text("type"), activation, importer)
    return ImportClaim(wanted, activation)


def _checkActivation(wanted: Import, kind: str, token: SignedJWT, importer: str) -> None:
    nats = token.nats
    issuer = nats.text("issuer_account") or token.issuer
    if issuer != wanted.account:
        raise FieldError("imports: the activation token is not the exporting account's")
    if token.subject != importer:
        raise FieldError("imports: the activation token is for another account")
    if nats.text("kind") != kind:
        raise FieldError("imports: the activation token is for another type")
    if not _covers(_subject(nats, "subject"), wanted.subject):
        raise FieldError("imports: the activation token is for another subject")


def readMappings(fields: Fields) -> tuple[SubjectMapping, ...]:
    mappings = fields.blocksByName("mappings")
    if not all(isValidSubject(source.encode("utf-8")) for source in mappings):
        raise FieldError("mappings: not a valid subject")
    return tuple(
        SubjectMapping(source, tuple(map(_destination, destinations)))
        for source, destinations in mappings.items()
    )


def _destination(fields: Fields) -> MappingDestination:
    weight = fields.integer("weight") or 100
    if not 0 < weight <= 100:
        raise FieldError("mappings: the weight is not valid")
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
