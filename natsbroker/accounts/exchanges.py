"""
Applies changed exports, imports and mappings of the settings. Unchanged imports keep their
subscriptions, and unchanged services the responses that they owe.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from twisted.logger import Logger

from natsbroker.accounts.account import Account
from natsbroker.accounts.importchecks import ExportTable, problems
from natsbroker.accounts.imports import ImportedService
from natsbroker.accounts.shadows import ImportedStream
from natsbroker.config.model import GLOBAL_ACCOUNT, JetStream, Settings
from natsbroker.config.settings.accounts import (
    MappingDestination,
    ServiceExport,
    StreamImport,
    SubjectMapping,
    bytesOf,
    isOfItself,
    mappingFrom,
)
from natsbroker.config.settings.authorization import AccountSettings
from natsbroker.subjects.mapping import MappingTable
from natsbroker.subjects.renaming import Renaming

_log = Logger(namespace="natsbroker")


API = "$JS.API.>"
"""The requests of JetStream's API."""

_MAPPED = {
    "INFO": "$JS.API.INFO",
    **{
        f"{group}.>": f"$JS.API.{group}.>"
        for group in ("STREAM", "CONSUMER", "DIRECT", "META", "SERVER", "ACCOUNT")
    },
    "$KV.>": "$KV.>",
    "$OBJ.>": "$OBJ.>",
}
"""
The text behind the prefix of a domain's API, and its name without a domain. (nats-server's
C{generateJSMappingTable}.)
"""


def fromDomain(domain: str) -> tuple[SubjectMapping, ...]:
    """The mappings by which clients reach their own domain by its name."""
    return tuple(_mapping(f"$JS.{domain}.API.{tail}", plain) for tail, plain in _MAPPED.items())


def toDomain(domain: str) -> tuple[SubjectMapping, ...]:
    """The mappings by which clients reach another domain without naming it."""
    return tuple(_mapping(plain, f"$JS.{domain}.API.{tail}") for tail, plain in _MAPPED.items())


def _mapping(source: str, target: str) -> SubjectMapping:
    return SubjectMapping(source, (MappingDestination(target),))


def checkImports(settings: Settings) -> None:
    for problem in problems(settings.accounts, not settings.no_system_account):
        raise ValueError(f"accounts.{problem.account}: {problem.message}")


def describedIn(settings: Settings) -> dict[str, AccountSettings]:
    described = dict(settings.accounts)
    others = settings.accounts.keys() - {settings.system_account}
    isJoined = settings.cluster is not None or settings.gateway is not None
    # As in nats-server: without accounts, all clients have the cluster's JetStream.
    hasJetStream = isJoined or settings.jetstream.enabled
    hasJetStream = hasJetStream and not others and not settings.operator.isOn
    if settings.mappings or hasJetStream or GLOBAL_ACCOUNT in settings.jetstream.default_domains:
        described[GLOBAL_ACCOUNT] = AccountSettings(
            GLOBAL_ACCOUNT, mappings=settings.mappings, jetstream=hasJetStream
        )
    return described


#: The service that the system account exports to the accounts with JetStream.
_JETSTREAM = ServiceExport(API)


class ImportSetup:
    """The imports of the settings. Mappings may name C{cluster}, which may be empty."""

    def __init__(self, random: Random) -> None:
        self.cluster = b""
        self.jetstream = JetStream()
        self.system: Account | None = None
        self._random = random
        self._exports: dict[tuple[Account, str], ServiceExport] = {}
        self._streams: dict[Account, list[Any]] = {}
        self._services: dict[Account, list[Any]] = {}
        self._mappings: dict[Account, tuple[SubjectMapping, ...]] = {}

    def apply(
        self, accounts: Mapping[str, Account], described: Mapping[str, AccountSettings]
    ) -> None:
        """Apply settings. An import that is not allowed is left out."""
        for name, account in accounts.items():
            about = described.get(name, AccountSettings(name))
            self._map(account, about)
            account.traceTo(bytesOf(about.trace.dest), about.trace.sampling)
        exports = {name: ExportTable(settings.exports) for name, settings in described.items()}
        for name, account in accounts.items():
            about = described.get(name, AccountSettings(name))
            streams: list[tuple[Account, Renaming, bool]] = []
            services: list[tuple[Account, ServiceExport, Renaming, bool]] = []
            for imported in about.imports:
                exporter, exported = accounts.get(imported.account), exports.get(imported.account)
                if exporter is None or exported is None or isOfItself(name, imported):
                    continue
                export = exported.find(imported, name)
                if export is None:
                    continue
                renaming = Renaming(bytesOf(imported.subject), bytesOf(imported.to))
                if isinstance(imported, StreamImport):
                    streams.append((exporter, renaming, imported.allow_trace))
                elif isinstance(export, ServiceExport):
                    made = self._exportFor(exporter, export)
                    services.append((exporter, made, renaming, imported.share))
            services += self._jetstreamOf(account, about, services)
            self._importStreams(account, streams)
            self._importServices(account, services)

    def forget(self, account: Account) -> None:
        self._map(account, AccountSettings(account.name))
        self._importStreams(account, [])
        self._importServices(account, [])
        account.responses.close()
        for key in [key for key in self._exports if key[0] is account]:
            del self._exports[key]

    def _map(self, account: Account, described: AccountSettings) -> None:
        wanted = described.mappings + self._domainsOf(described)
        if _isChanged(self._mappings, account, wanted):
            made = map(mappingFrom, wanted)
            account.mapSubjects(MappingTable(made, self._random.randrange, self.cluster))

    def _domainsOf(self, described: AccountSettings) -> tuple[SubjectMapping, ...]:
        jetstream = self.jetstream
        if described.jetstream:
            mappings = fromDomain(jetstream.domain) if jetstream.domain else ()
        else:
            domain = jetstream.default_domains.get(described.name, "")
            mappings = toDomain(domain) if domain else ()
        own = {mapping.source for mapping in described.mappings}
        return tuple(mapping for mapping in mappings if mapping.source not in own)

    def _jetstreamOf(
        self,
        account: Account,
        described: AccountSettings,
        services: list[tuple[Account, ServiceExport, Renaming, bool]],
    ) -> list[tuple[Account, ServiceExport, Renaming, bool]]:
        """The import of JetStream's API, unless the account imports it by itself."""
        system, renaming = self.system, Renaming(bytesOf(API), bytesOf(API))
        if self.jetstream.enabled or system is None or system is account:
            return []
        if not described.jetstream:
            return []
        if any(service[0] is system and service[2].ours == renaming.ours for service in services):
            return []
        return [(system, self._exportFor(system, _JETSTREAM), renaming, True)]

    def _exportFor(self, owner: Account, export: ServiceExport) -> ServiceExport:
        """
        An equal export that is in use already, so that its responses stay owed; else this one.
        """
        known = self._exports.get((owner, export.subject))
        if known is None or known != export:
            known = self._exports[owner, export.subject] = export
        return known

    def _importStreams(
        self, account: Account, wanted: list[tuple[Account, Renaming, bool]]
    ) -> None:
        same = [
            (exporter, renaming.theirs, renaming.ours, renaming.keeps, allowsTrace)
            for exporter, renaming, allowsTrace in wanted
        ]
        if _isChanged(self._streams, account, same):
            made = [ImportedStream(*row) for row in wanted]
            _report(account, account.importStreams(made))

    def _importServices(
        self, account: Account, wanted: list[tuple[Account, ServiceExport, Renaming, bool]]
    ) -> None:
        same = [
            (exporter, export, renaming.theirs, renaming.ours, share)
            for exporter, export, renaming, share in wanted
        ]
        if _isChanged(self._services, account, same):
            made = [ImportedService(account, *row).subscription() for row in wanted]
            _report(account, account.importServices(made))


def _isChanged(applied: dict[Account, Any], account: Account, wanted: Any) -> bool:
    if (applied.get(account) or type(wanted)()) == wanted:
        return False
    if wanted:
        applied[account] = wanted
    else:
        del applied[account]
    return True


def _report(account: Account, problems: list[Exception]) -> None:
    for problem in problems[:1]:
        _log.error(
            "Could not add {count} import subscriptions for account {name}: {problem}",
            count=len(problems),
            name=account.name,
            problem=str(problem),
        )
