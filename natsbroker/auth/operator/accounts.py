"""
Account settings from the JWTs of accounts. A private export needs a valid activation token. An
invalid import, mapping or export is left out and reported; the others are not affected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from natsbroker.accounts.importchecks import problems
from natsbroker.auth.operator.accountclaims import EVERYBODY, AccountClaims
from natsbroker.auth.operator.exchangeclaims import ExportClaim, ImportClaim
from natsbroker.config.settings.accounts import Export, Import, SubjectMapping, mappingFrom
from natsbroker.config.settings.authorization import AccountLimits, AccountSettings
from natsbroker.subjects.functions import InvalidMapping

_Thing = TypeVar("_Thing", Export, Import)

#: Called with the account and the reason why a part of it was left out.
Report = Callable[[str, str], None]


def limitsFrom(claims: AccountClaims) -> AccountLimits:
    terms = claims.terms
    return AccountLimits(terms.connections, terms.subscriptions, terms.payload, terms.leafnodes)


def accountsFrom(
    known: Mapping[str, AccountClaims], now: float, report: Report
) -> dict[str, AccountSettings]:
    """The accounts with exports, imports, mappings, traces or JetStream."""
    imports = {
        name: [
            imported
            for imported in claims.imports
            if _isActivated(imported, claims, known, now, report)
        ]
        for name, claims in known.items()
    }
    accounts = {
        name: AccountSettings(
            name,
            limits=limitsFrom(claims),
            exports=tuple(_export(export, name, imports) for export in claims.exports),
            imports=tuple(imported.wanted for imported in imports[name]),
            mappings=tuple(_mappings(claims, report)),
            jetstream=claims.terms.jetstream,
            trace=claims.trace,
        )
        for name, claims in known.items()
        if claims.exchanges
    }
    return _withoutProblems(accounts, report)


def activationsEnd(known: Iterable[AccountClaims], now: float) -> float:
    """The expiry of the next activation token, in seconds since the epoch; infinity for none."""
    ends = (
        imported.activation.expires
        for claims in known
        for imported in claims.imports
        if imported.activation is not None and imported.activation.expires > now
    )
    return min(ends, default=math.inf)


def _isActivated(
    claim: ImportClaim,
    importer: AccountClaims,
    known: Mapping[str, AccountClaims],
    now: float,
    report: Report,
) -> bool:
    exporter = known.get(claim.wanted.account)
    if exporter is None:
        return False
    for export in exporter.exports:
        if export.isPrivate and export.covers(claim):
            why = _refusal(export, claim, importer.token.subject, exporter, now)
            if why:
                report(importer.token.subject, f"import of {claim.wanted.subject}: {why}")
                return False
    return True


def _refusal(
    export: ExportClaim, claim: ImportClaim, importer: str, exporter: AccountClaims, now: float
) -> str:
    token = claim.activation
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


def _export(claim: ExportClaim, owner: str, imports: Mapping[str, list[ImportClaim]]) -> Export:
    if not claim.isPrivate:
        return claim.export
    importers = tuple(
        name
        for name, wanted in imports.items()
        if any(imported.wanted.account == owner and claim.covers(imported) for imported in wanted)
    )
    return replace(claim.export, accounts=importers)


def _mappings(claims: AccountClaims, report: Report) -> Iterable[SubjectMapping]:
    for mapping in claims.mappings:
        try:
            if not mapping.destinations:
                raise InvalidMapping("no destinations")
            mappingFrom(mapping)
        except InvalidMapping as error:
            report(claims.token.subject, f"mapping of {mapping.source}: {error}")
        else:
            yield mapping


def _withoutProblems(
    accounts: dict[str, AccountSettings], report: Report
) -> dict[str, AccountSettings]:
    """
    Leave out exports and imports that do not fit together. This is repeated, since a removal may
    make others invalid.
    """
    while remaining := list(problems(accounts, True)):
        for problem in remaining:
            report(problem.account, f"{problem.part}: {problem.message}")
        for name in {problem.account for problem in remaining}:
            account = accounts[name]
            wrong = {(other.part, other.index) for other in remaining if other.account == name}
            accounts[name] = replace(
                account,
                exports=_without("exports", account.exports, wrong),
                imports=_without("imports", account.imports, wrong),
            )
    return accounts


def _without(
    part: str, things: tuple[_Thing, ...], wrong: set[tuple[str, int]]
) -> tuple[_Thing, ...]:
    return tuple(thing for index, thing in enumerate(things) if (part, index) not in wrong)
