"""
The reader of exports, imports and subject mappings in a configuration file. Whether they fit
together is checked by L{natsbroker.accounts.importchecks}.

Stricter than nats-server 2.15, on purpose:

  - an empty list of C{accounts} is an error (nats-server takes it for everybody);
  - an export or import of neither a stream nor a service is an error, and so is a C{prefix} beside
    C{to}, and a C{response_threshold} of a stream, in any order;
  - subjects must be valid everywhere, and a response threshold must not be negative;
  - a mapping has a destination.
"""

from __future__ import annotations

from collections import abc
from typing import TypeVar

from natsbroker.accounts.importchecks import problems
from natsbroker.config.blocks import Diagnostics, NamedValues, ParsedBlock
from natsbroker.config.errors import Position
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
    bytesOf,
    mappingFrom,
)
from natsbroker.config.settings.authorization import AccountSettings
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.grammar import hasWildcard, isValidSubject

NOBODY = (
    "an empty list of accounts exports to nobody, but in nats-server to everybody; "
    "leave it out to export to everybody"
)

_RESPONSES = {
    "single": SINGLETON,
    "singleton": SINGLETON,
    "stream": STREAM,
    "chunk": CHUNKED,
    "chunked": CHUNKED,
}
_SERVICE_ONLY = {
    "response_type": "response",
    "response_threshold": "response",
    "latency": "latency",
    "allow_trace": "allow_trace",
}
_HEADERS = "headers"

_Made = TypeVar("_Made", Export, Import)


class ImportExportReader:
    def __init__(self, findings: Diagnostics) -> None:
        self._findings = findings
        self._places: dict[tuple[str, str, int], ParsedBlock] = {}

    def check(self, accounts: abc.Mapping[str, AccountSettings], hasSystem: bool) -> None:
        for problem in problems(accounts, hasSystem):
            entry = self._places[problem.account, problem.part, problem.index]
            self._findings.error(problem.message, entry.path, entry.position)

    def exports(self, account: str, block: ParsedBlock) -> tuple[Export, ...]:
        return self._placed(account, block, "exports", self._export)

    def imports(self, account: str, block: ParsedBlock) -> tuple[Import, ...]:
        return self._placed(account, block, "imports", self._import)

    def mappings(self, block: ParsedBlock) -> tuple[SubjectMapping, ...]:
        mappings = []
        entries = block.take("mappings", NamedValues) or NamedValues()
        for source, value in entries.items():
            path, position = f"{block.pathTo('mappings')}.{source}", entries.positions[source]
            destinations = self._destinations(value, path, position)
            if destinations is not None:
                where = f' to "{value}"' if isinstance(value, str) else ""
                mapping = SubjectMapping(source, destinations)
                self._checkMapping(mapping, where, path, position)
                mappings.append(mapping)
        return tuple(mappings)

    def _placed(
        self,
        account: str,
        block: ParsedBlock,
        part: str,
        make: abc.Callable[[ParsedBlock], _Made | None],
    ) -> tuple[_Made, ...]:
        entries: list[_Made] = []
        for entry in block.blocks(part):
            made = make(entry)
            if made is not None:
                self._places[account, part, len(entries)] = entry
                entries.append(made)
        return tuple(entries)

    def _destinations(
        self, value: object, path: str, position: Position
    ) -> tuple[MappingDestination, ...] | None:
        if isinstance(value, str):
            return (MappingDestination(value),)
        entries = value if isinstance(value, list) else [value]
        blocks = [entry for entry in entries if isinstance(entry, ParsedBlock)]
        if not blocks:
            self._findings.error("a mapping needs a destination", path, position)
            return None
        destinations = [self._destination(block) for block in blocks]
        made = tuple(destination for destination in destinations if destination is not None)
        return made if len(made) == len(entries) else None

    def _destination(self, block: ParsedBlock) -> MappingDestination | None:
        subject, weight = block.text("dest"), block.take("weight", int)
        if not subject:
            self._error(block, "a mapping needs a destination")
            return None
        if weight is None:
            if "weight" not in block.positions:
                self._error(block, f'Missing weight for mapping destination "{subject}"')
            return None
        return MappingDestination(subject, weight, block.text("cluster"))

    def _checkMapping(
        self, mapping: SubjectMapping, where: str, path: str, position: Position
    ) -> None:
        source = mapping.source
        if not _valid(source):
            self._findings.error(f'Subject "{source}" is not a valid subject', path, position)
            return
        try:
            mappingFrom(mapping)
        except InvalidMapping as error:
            message = f'Error adding mapping for "{source}"{where} : {error}'
            self._findings.error(message, path, position)

    def _kind(self, entry: ParsedBlock) -> str | None:
        """C{stream} or C{service}; C{None} after reporting an entry of neither or both."""
        names = [name for name in entry.positions if name in ("stream", "service")]
        if len(names) == 1:
            return names[0] if names[0] in entry else None
        if names:
            self._wrong(entry, names[1], f"Detected {names[1]} but already saw a {names[0]}")
        else:
            self._error(entry, "names neither a stream nor a service")
        return None

    def _export(self, entry: ParsedBlock) -> Export | None:
        kind = self._kind(entry)
        if kind is None or not self._checkSubject(entry, entry.text(kind)):
            return None
        position = entry.integer("account_token_position")
        accounts = self._accounts(entry)
        if kind == "stream":
            self._serviceOnly(entry)
            return StreamExport(entry.text(kind), accounts, position)
        return ServiceExport(
            entry.text(kind),
            accounts,
            position,
            response_type=self._responseType(entry),
            response_threshold=entry.seconds("response_threshold", RESPONSE_THRESHOLD),
            latency=self._latency(entry),
            allow_trace=entry.flag("allow_trace"),
        )

    def _serviceOnly(self, entry: ParsedBlock) -> None:
        for name, what in _SERVICE_ONLY.items():
            if name in entry.positions:
                self._wrong(entry, name, f"Detected {what} directive on non-service")

    def _accounts(self, entry: ParsedBlock) -> tuple[str, ...] | None:
        if "accounts" not in entry:
            return None
        if not entry.take("accounts", list):
            self._wrong(entry, "accounts", NOBODY)
        return entry.texts("accounts")

    def _responseType(self, entry: ParsedBlock) -> str:
        text = entry.text("response_type", "single")
        if text.lower() not in _RESPONSES:
            self._wrong(entry, "response_type", f'Unknown response type: "{text}"')
        return _RESPONSES.get(text.lower(), SINGLETON)

    def _latency(self, entry: ParsedBlock) -> Latency | None:
        block = entry.block("latency")
        if block is None:
            subject = entry.text("latency")
            return Latency(subject) if subject else None
        subject = block.text("subject")
        if not subject:
            self._wrong(entry, "latency", "Latency subject required, but missing")
            return None
        sampling = block.values.get("sampling", 100)
        if sampling == _HEADERS:
            return Latency(subject, 0)
        if not isinstance(sampling, int) or sampling < 1:
            self._wrong(block, "sampling", "bad sampling percentage, should be 1-100")
            return None
        return Latency(subject, sampling)

    def _import(self, entry: ParsedBlock) -> Import | None:
        kind = self._kind(entry)
        block = entry.block(kind) if kind else None
        if block is None:
            return None
        account, subject = block.text("account"), block.text("subject")
        if not account or not subject:
            self._error(block, "Expect an account name and a subject")
            return None
        if not self._checkSubject(block, subject):
            return None
        if kind == "stream":
            local = self._local(entry, subject)
            return StreamImport(account, subject, local, entry.flag("allow_trace"))
        if "allow_trace" in entry.positions:
            self._wrong(entry, "allow_trace", "Detected allow_trace directive on a non-stream")
        return ServiceImport(account, subject, entry.text("to") or subject, entry.flag("share"))

    def _local(self, entry: ParsedBlock, subject: str) -> str:
        prefix, to = entry.text("prefix"), entry.text("to")
        if prefix and to:
            message = "Stream import can not have a 'prefix' and a 'to' property"
            self._wrong(entry, "to", message)
        if hasWildcard(bytesOf(prefix)):
            reason = "stream import prefix can not contain wildcard tokens"
            self._error(entry, f'Error adding stream import "{subject}": {reason}')
            return subject
        if prefix:
            return f"{prefix.removesuffix('.')}.{subject}"
        return to or subject

    def _checkSubject(self, entry: ParsedBlock, subject: str) -> bool:
        if _valid(subject):
            return True
        self._error(entry, f'subject "{subject}" is not a valid subject')
        return False

    def _wrong(self, block: ParsedBlock, name: str, message: str) -> None:
        self._findings.errorAt(block, name, message)

    def _error(self, block: ParsedBlock, message: str) -> None:
        self._findings.error(message, block.path, block.position)


def _valid(subject: str) -> bool:
    return isValidSubject(bytesOf(subject))
