"""
Checks of exports and imports against each other, in nats-server's words and in any order of
accounts (C{server/accounts.go}, observed on 2.15).

An import needs an export that covers its subject and admits its account. No import may lead back to
where it came from, by nats-server's own rule or by the way that a request takes, subject mappings
included; nats-server finds those when a request comes, and drops it. Where nats-server's verdict
depends on the order in which it visits its accounts, ours is the stricter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from natsbroker.config.settings.accounts import (
    SINGLETON,
    Export,
    Import,
    Latency,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    bytesOf,
    isOfItself,
)
from natsbroker.config.settings.authorization import AccountSettings
from natsbroker.subjects.collisions import PatternTable
from natsbroker.subjects.functions import InvalidMapping, isCall, wildcardNumber
from natsbroker.subjects.grammar import (
    hasWildcard,
    isSubset,
    isValidLiteral,
    isValidSubject,
)
from natsbroker.subjects.renaming import Renaming, intersection, unnumbered


@dataclass(frozen=True, slots=True)
class Problem:
    account: str
    part: str
    index: int
    message: str


def problems(accounts: Mapping[str, AccountSettings], hasSystem: bool) -> Iterator[Problem]:
    for account in accounts.values():
        for index, export in enumerate(account.exports):
            for message in _exportProblems(export, account, accounts, hasSystem):
                yield Problem(account.name, "exports", index, message)
    search = CycleSearch(accounts)
    exports = {account.name: ExportTable(account.exports) for account in accounts.values()}
    for account in accounts.values():
        before = _Imports()
        for index, imported in enumerate(account.imports):
            message = _importProblem(imported, account, exports, search, before)
            before.add(imported)
            if message:
                yield Problem(account.name, "imports", index, message)


class ExportTable:
    def __init__(self, exports: Sequence[Export]) -> None:
        self._kinds = {
            kind: _ExportsOfKind([export for export in exports if isinstance(export, kind)])
            for kind in (ServiceExport, StreamExport)
        }

    def find(self, wanted: Import, importer: str) -> Export | None:
        kind = ServiceExport if isinstance(wanted, ServiceImport) else StreamExport
        exact, same = self._kinds[kind].exact.get(wanted.subject, []), self._kinds[kind]
        if exact:
            admitting = [export for export in exact if export.accounts is not None] or exact
        else:
            admitting = same.covering(bytesOf(wanted.subject))
        for export in admitting:
            if _admits(export, wanted.subject, importer, bool(exact)):
                return export
        return None


class _ExportsOfKind:
    def __init__(self, exports: list[Export]) -> None:
        self._exports = exports
        self._table = PatternTable([bytesOf(export.subject) for export in exports])
        self.exact: dict[str, list[Export]] = {}
        for export in exports:
            self.exact.setdefault(export.subject, []).append(export)

    def covering(self, subject: bytes) -> list[Export]:
        return [self._exports[place] for place in self._table.containing(subject)]


def _admits(export: Export, subject: str, importer: str, isExact: bool) -> bool:
    position = export.account_token_position
    if position:
        tokens = [] if isExact else subject.split(".")
        return position <= len(tokens) and tokens[position - 1] == importer
    return export.accounts is None or importer in export.accounts


def _exportProblems(
    export: Export,
    account: AccountSettings,
    accounts: Mapping[str, AccountSettings],
    hasSystem: bool,
) -> Iterator[str]:
    kind = "service" if isinstance(export, ServiceExport) else "stream"
    for name in export.accounts or ():
        if name not in accounts:
            yield f'"{name}" account not defined for {kind} export'
    tokens, position = export.subject.split("."), export.account_token_position
    if position and (position > len(tokens) or tokens[position - 1] != "*"):
        yield f'Error adding {kind} export "{export.subject}": invalid subject'
    if isinstance(export, ServiceExport) and export.latency is not None:
        yield from _latencyProblems(export, export.latency, account, hasSystem)


def _latencyProblems(
    export: ServiceExport, latency: Latency, account: AccountSettings, hasSystem: bool
) -> Iterator[str]:
    what = f'Error adding service latency sampling for "{export.subject}"'
    if not hasSystem:
        yield f"{what}: system account not setup"
        return
    results = bytesOf(latency.subject)
    services = [exported for exported in account.exports if isinstance(exported, ServiceExport)]
    if not isValidLiteral(results) or any(
        isSubset(results, bytesOf(service.subject)) for service in services
    ):
        yield f'{what} on subject "{latency.subject}": invalid publish subject'
    elif export.response_type != SINGLETON:
        yield f'{what} on subject "{latency.subject}": bad service response type'


def _importProblem(
    wanted: Import,
    account: AccountSettings,
    exports: Mapping[str, ExportTable],
    search: CycleSearch,
    before: _Imports,
) -> str:
    kind = "service" if isinstance(wanted, ServiceImport) else "stream"
    exporter = exports.get(wanted.account)
    if exporter is None:
        return f'"{wanted.account}" account not defined for {kind} import'
    reason = _unnamed(wanted)
    if not reason and exporter.find(wanted, account.name) is None:
        reason = f"{kind} import not authorized"
    isItself = isOfItself(account.name, wanted)
    if not (reason or isItself) and search.formsCycle(account.name, wanted):
        reason = "import forms a cycle"
    if not reason and isinstance(wanted, ServiceImport):
        return before.duplicateOf(wanted)
    if not reason and (wanted.account, wanted.subject) in before.streams:
        reason = "stream import already exists"
    return f'Error adding {kind} import "{wanted.subject}": {reason}' if reason else ""


def _unnamed(wanted: Import) -> str:
    """The reason why an import's subject does not fit the exported one; empty if it does."""
    theirs, ours = bytesOf(wanted.subject), bytesOf(wanted.to)
    isService = isinstance(wanted, ServiceImport)
    # As in nats-server, a stream of one subject may have wildcards here: they are its literal name.
    if (isService or not hasWildcard(theirs)) and not isValidSubject(ours):
        return "invalid subject"
    try:
        Renaming(theirs, ours)
    except InvalidMapping as error:
        kind = "service" if isService else "stream"
        source, target = (wanted.to, wanted.subject) if isService else (wanted.subject, wanted.to)
        return (
            f"failed to create mapping transform for {kind} import subject "
            f'from "{source}" to "{target}": {error}'
        )
    return ""


class _Imports:
    def __init__(self) -> None:
        self.streams: set[tuple[str, str]] = set()
        self._services: dict[tuple[str, bytes], ServiceImport] = {}

    def add(self, imported: Import) -> None:
        if isinstance(imported, StreamImport):
            self.streams.add((imported.account, imported.subject))
        elif not _unnamed(imported):
            ours = Renaming(bytesOf(imported.subject), bytesOf(imported.to)).ours
            self._services.setdefault((imported.account, ours), imported)

    def duplicateOf(self, wanted: ServiceImport) -> str:
        ours = Renaming(bytesOf(wanted.subject), bytesOf(wanted.to)).ours
        service = self._services.get((wanted.account, ours))
        if service is None:
            return ""
        return (
            f'Duplicate service import subject "{wanted.to}", previously used in import '
            f'for account "{service.account}", subject "{service.subject}"'
        )


_MOST_STEPS = 20_000
"""The most imports that one search looks at."""

_MOST_HOPS = 16
"""The most imports that a request may pass, as the broker enforces it."""


class _TooLong(Exception):
    pass


class _AccountTables:
    def __init__(self, account: AccountSettings) -> None:
        self.services = list(_services(account))
        self.theirs = PatternTable([renaming.theirs for _, renaming in self.services])
        self.ours = PatternTable([renaming.ours for _, renaming in self.services])
        self.streams = [
            imported
            for imported in account.imports
            if isinstance(imported, StreamImport) and not isOfItself(account.name, imported)
        ]
        self.local = PatternTable([bytesOf(stream.to) for stream in self.streams])
        exports = [export for export in account.exports if isinstance(export, StreamExport)]
        self.exported = PatternTable([bytesOf(export.subject) for export in exports])
        self.mappings = account.mappings
        self.mapped = PatternTable([bytesOf(mapping.source) for mapping in account.mappings])


class CycleSearch:
    def __init__(self, accounts: Mapping[str, AccountSettings]) -> None:
        self._accounts = {account.name: _AccountTables(account) for account in accounts.values()}
        self._steps = 0

    def formsCycle(self, importer: str, wanted: Import) -> bool:
        """
        Whether an import forms a cycle. C{importer} is an account's name; the exporter must exist
        and the subjects must fit.
        """
        self._steps = 0
        try:
            if isinstance(wanted, StreamImport):
                return any(
                    self._streamCollides(wanted.account, subject, {importer})
                    for subject in (bytesOf(wanted.to), bytesOf(wanted.subject))
                )
            ours = bytesOf(wanted.to)
            if hasWildcard(bytesOf(wanted.subject)):
                ours = unnumbered(ours)
            if self._serviceCollides(wanted.account, ours, {importer}):
                return True
            start = Renaming(bytesOf(wanted.subject), bytesOf(wanted.to))
            return self._returns(wanted, wanted.account, start.theirs, wanted, 1)
        except _TooLong:
            return True

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooLong

    def _serviceCollides(self, account: str, ours: bytes, visited: set[str]) -> bool:
        tables = self._accounts.get(account)
        if tables is None:
            return False
        for place in tables.theirs.overlapping(ours):
            imported, renaming = tables.services[place]
            self._step()
            if imported.account in visited:
                return True
            visited.add(account)
            narrower = renaming.ours if isSubset(renaming.ours, ours) else ours
            if self._serviceCollides(imported.account, narrower, visited):
                return True
        return False

    def _streamCollides(self, account: str, subject: bytes, visited: set[str]) -> bool:
        tables = self._accounts.get(account)
        if tables is None or not tables.exported.containing(subject):
            return False
        for place in tables.local.overlapping(subject):
            stream = tables.streams[place]
            local = bytesOf(stream.to)
            self._step()
            if stream.account in visited:
                return True
            visited.add(account)
            narrower = local if isSubset(local, subject) else subject
            if self._streamCollides(stream.account, narrower, visited):
                return True
        return False

    def _returns(
        self, start: ServiceImport, account: str, subjects: bytes, last: ServiceImport, hops: int
    ) -> bool:
        if hops > _MOST_HOPS:
            return True
        tables = self._accounts.get(account)
        if tables is None:
            return False
        for mapped in self._mapped(tables, subjects):
            for place in tables.ours.overlapping(mapped):
                imported, renaming = tables.services[place]
                shared = intersection(mapped, renaming.ours)
                if shared is None:
                    continue
                self._step()
                if imported is start:
                    return True
                if imported is not last and self._returns(
                    start, imported.account, renaming.toTheirs(shared), imported, hops + 1
                ):
                    return True
        return False

    def _mapped(self, tables: _AccountTables, subjects: bytes) -> Iterator[bytes]:
        yield subjects
        for place in tables.mapped.overlapping(subjects):
            mapping = tables.mappings[place]
            shared = intersection(subjects, bytesOf(mapping.source))
            if shared is None:
                continue
            for destination in mapping.destinations:
                yield _image(shared, bytesOf(mapping.source), bytesOf(destination.dest))


def _image(shared: bytes, source: bytes, destination: bytes) -> bytes:
    """A pattern for all subjects that a mapping may make of some subjects."""
    made: list[bytes] = []
    for token in destination.split(b"."):
        single = _single(source, token, shared)
        if single is None:  # it may make several tokens
            return b".".join([*made, b">"])
        made.append(single)
    return b".".join(made)


def _single(source: bytes, token: bytes, shared: bytes) -> bytes | None:
    number = wildcardNumber(token)
    if number is not None:
        stars = [place for place, part in enumerate(source.split(b".")) if part == b"*"]
        return shared.split(b".")[stars[number - 1]] if number <= len(stars) else b"*"
    if token == b">" or (isCall(token) and (b"plit" in token or b"lice" in token)):
        return None
    return b"*" if isCall(token) else token


def _services(account: AccountSettings) -> Iterator[tuple[ServiceImport, Renaming]]:
    for imported in account.imports:
        if isinstance(imported, ServiceImport) and not isOfItself(account.name, imported):
            try:
                yield imported, Renaming(bytesOf(imported.subject), bytesOf(imported.to))
            except InvalidMapping:
                continue  # reported where the import is checked
