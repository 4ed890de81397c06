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

#: Told of the account and of what was left out, and why.
Report = Callable[[str, str], None]


def limitsFrom(claims: AccountClaims) -> AccountLimits:
    terms = claims.terms
    return AccountLimits(terms.connections, terms.subscriptions, terms.payload, terms.leafnodes)


def accountsFrom(
    known: Mapping[str, AccountClaims], now: float, report: Report
) -> dict[str, AccountSettings]:
    """The accounts with exports, imports, mappings, traces or JetStream."""
    imports = {
        name: [each for each in claims.imports if _isActivated(each, claims, known, now, report)]
        for name, claims in known.items()
    }
    accounts = {
        name: AccountSettings(
            name,
            limits=limitsFrom(claims),
            exports=tuple(_export(each, name, imports) for each in claims.exports),
            imports=tuple(each.wanted for each in imports[name]),
            mappings=tuple(_mappings(claims, report)),
            jetstream=claims.terms.jetstream,
            trace=claims.trace,
        )
        for name, claims in known.items()
        if claims.exchanges
    }
    return _withoutProblems(accounts, report)


def activationsEnd(known: Iterable[AccountClaims], now: float) -> float:
    """When the next activation token expires, in seconds since the epoch; infinity for never."""
    ends = (
        each.activation.expires
        for claims in known
        for each in claims.imports
        if each.activation is not None and each.activation.expires > now
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
        if any(each.wanted.account == owner and claim.covers(each) for each in wanted)
    )
    return replace(claim.export, accounts=importers)


def _mappings(claims: AccountClaims, report: Report) -> Iterable[SubjectMapping]:
    for each in claims.mappings:
        try:
            if not each.destinations:
                raise InvalidMapping("no destinations")
            mappingFrom(each)
        except InvalidMapping as error:
            report(claims.token.subject, f"mapping of {each.source}: {error}")
        else:
            yield each


def _withoutProblems(
    accounts: dict[str, AccountSettings], report: Report
) -> dict[str, AccountSettings]:
    """Leave out what does not fit together; again, since one removal may make others invalid."""
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
