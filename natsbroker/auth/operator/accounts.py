"""
Account settings from the JWTs of accounts.

A private export is for accounts with a valid activation token. An invalid import, mapping or export
is left out and reported; the others are not affected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from natsbroker.accounts.importchecks import problems
from natsbroker.accounts.settings import (
    CHUNKED,
    RESPONSE_THRESHOLD,
    SINGLETON,
    STREAM,
    Export,
    Import,
    Latency,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
    mappingFrom,
)
from natsbroker.auth.operator.accountclaims import EVERYBODY, AccountClaims
from natsbroker.auth.operator.exchangeclaims import ExportClaim, ImportClaim
from natsbroker.auth.settings import AccountLimits, AccountSettings
from natsbroker.subjects.grammar import isSubset
from natsbroker.subjects.mapping import InvalidMapping

__all__ = ["Report", "accountsFrom", "activationsEnd", "limitsFrom"]

_SECOND = 1_000_000_000
_RESPONSES = {"": SINGLETON, "Singleton": SINGLETON, "Stream": STREAM, "Chunked": CHUNKED}

_Thing = TypeVar("_Thing", Export, Import)

#: Told of the account and of what was left out, and why.
Report = Callable[[str, str], None]


def limitsFrom(claims: AccountClaims) -> AccountLimits:
    terms = claims.terms
    return AccountLimits(terms.connections, terms.subscriptions, terms.payload, terms.leafnodes)


def accountsFrom(
    known: Mapping[str, AccountClaims], now: float, report: Report
) -> dict[str, AccountSettings]:
    """
    @param known: the accounts by public key.
    @param now: seconds since the epoch.
    @return: the accounts that have exports, imports, mappings or JetStream.
    """
    imports = {
        name: [each for each in claims.imports if _isActivated(each, claims, known, now, report)]
        for name, claims in known.items()
    }
    accounts = {
        name: AccountSettings(
            name,
            limits=limitsFrom(claims),
            exports=tuple(_export(each, name, imports) for each in claims.exports),
            imports=tuple(map(_import, imports[name])),
            mappings=tuple(_mappings(claims, report)),
            jetstream=claims.terms.jetstream,
        )
        for name, claims in known.items()
        if claims.exchanges
    }
    return _withoutProblems(accounts, report)


def activationsEnd(known: Iterable[AccountClaims], now: float) -> float:
    """
    @return: when the next activation token expires, in seconds since the epoch; infinity for never.
    """
    ends = (
        each.activation.expires
        for claims in known
        for each in claims.imports
        if each.activation is not None and each.activation.expires > now
    )
    return min(ends, default=math.inf)


# Activation.


def _isActivated(
    wanted: ImportClaim,
    importer: AccountClaims,
    known: Mapping[str, AccountClaims],
    now: float,
    report: Report,
) -> bool:
    exporter = known.get(wanted.account)
    if exporter is None:
        return False
    subject = _subjectThere(wanted)
    for export in exporter.exports:
        if export.kind == wanted.kind and _covers(export.subject, subject) and export.isPrivate:
            why = _refusal(export, wanted, importer.token.subject, exporter, now)
            if why:
                report(importer.token.subject, f"import of {subject}: {why}")
                return False
    return True


def _refusal(
    export: ExportClaim, wanted: ImportClaim, importer: str, exporter: AccountClaims, now: float
) -> str:
    token = wanted.activation
    if token is None:
        return "needs an activation token"
    if token.issuer not in exporter.signers:
        return "the issuer of the activation token is not known to the exporting account"
    if not token.isTimely(now) or 0 < token.expires <= now:
        return "the activation token has expired or is not yet valid"
    for revoked in (EVERYBODY, importer):
        until = export.revocations.get(revoked)
        if until is not None and token.issuedAt <= until:
            return "the activation token is revoked"
    return ""


def _subjectThere(wanted: ImportClaim) -> str:
    """
    The subject in the exporting account.
    """
    return wanted.to if wanted.kind == "service" and wanted.to else wanted.subject


def _covers(wide: str, narrow: str) -> bool:
    return isSubset(narrow.encode("utf-8"), wide.encode("utf-8"))


# What is exchanged.


def _export(claim: ExportClaim, owner: str, imports: Mapping[str, list[ImportClaim]]) -> Export:
    importers = None
    if claim.isPrivate:
        importers = tuple(
            name
            for name, wanted in imports.items()
            if any(_isOf(claim, owner, each) for each in wanted)
        )
    if claim.kind == "stream":
        return StreamExport(claim.subject, importers, claim.accountPosition)
    return ServiceExport(
        claim.subject,
        importers,
        claim.accountPosition,
        _RESPONSES[claim.responseType],
        claim.threshold / _SECOND if claim.threshold else RESPONSE_THRESHOLD,
        _latency(claim),
        claim.allowTrace,
    )


def _latency(claim: ExportClaim) -> Latency | None:
    """
    Only services with one response are measured.
    """
    if claim.latency is None or _RESPONSES[claim.responseType] != SINGLETON:
        return None
    return Latency(*claim.latency)


def _isOf(claim: ExportClaim, owner: str, wanted: ImportClaim) -> bool:
    return (
        wanted.account == owner
        and wanted.kind == claim.kind
        and _covers(claim.subject, _subjectThere(wanted))
    )


def _import(claim: ImportClaim) -> Import:
    there = _subjectThere(claim)
    if claim.kind == "service":
        return ServiceImport(claim.account, there, claim.localSubject or claim.subject, claim.share)
    here = claim.localSubject or (f"{claim.to}.{there}" if claim.to else there)
    return StreamImport(claim.account, there, here, claim.allowTrace)


def _mappings(claims: AccountClaims, report: Report) -> Iterable[SubjectMapping]:
    for each in claims.mappings:
        try:
            _checkMapping(each)
        except InvalidMapping as error:
            report(claims.token.subject, f"mapping of {each.source}: {error}")
        else:
            yield each


def _checkMapping(made: SubjectMapping) -> None:
    if not made.destinations:
        raise InvalidMapping("no destinations")
    mappingFrom(made)


def _withoutProblems(
    accounts: dict[str, AccountSettings], report: Report
) -> dict[str, AccountSettings]:
    """
    Leave out what does not fit together; again, since one removal may make others invalid.
    """
    while found := list(problems(accounts, True)):
        for problem in found:
            report(problem.account, f"{problem.part}: {problem.message}")
        for name in {problem.account for problem in found}:
            account = accounts[name]
            wrong = {(each.part, each.index) for each in found if each.account == name}
            accounts[name] = replace(
                account,
                exports=_without("exports", account.exports, wrong),
                imports=_without("imports", account.imports, wrong),
            )
    return accounts


def _without(
    part: str, things: tuple[_Thing, ...], wrong: set[tuple[str, int]]
) -> tuple[_Thing, ...]:
    return tuple(each for index, each in enumerate(things) if (part, index) not in wrong)
