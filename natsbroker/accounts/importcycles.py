"""
Whether an import leads back to where it came from.

This module promises an answer in bounded time: where the search would take too long, the
answer is that it does.  It must never know whether an import is allowed otherwise.

Two rules, and either is enough.  One is nats-server's: an import collides with one of its
exporter's, and so on, until an account comes again.  The other follows the subjects of a
request, through mappings and renamings, until the same import comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from natsbroker.accounts.settings import Import, ServiceImport, StreamExport, StreamImport, bytesOf
from natsbroker.auth.settings import Account
from natsbroker.subjects.functions import InvalidMapping, isCall, wildcardNumber
from natsbroker.subjects.grammar import hasWildcard, isSubset, overlaps
from natsbroker.subjects.renaming import Renaming, intersection, unnumbered

__all__ = ["CycleSearch"]

_MOST_STEPS = 20_000
"""How many imports one search looks at."""

_MOST_HOPS = 16
"""How many imports a request may pass, as the broker enforces it."""


class _TooLong(Exception):
    """
    The search has taken all its steps.
    """


class CycleSearch:
    """
    The imports of some accounts.
    """

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._services: dict[str, list[tuple[ServiceImport, Renaming]]] = {}
        self._streams: dict[str, list[StreamImport]] = {}
        for account in accounts.values():
            self._services[account.name] = list(_services(account))
            self._streams[account.name] = [
                each for each in account.imports if isinstance(each, StreamImport)
            ]
        self._steps = 0

    def formsCycle(self, importer: str, wanted: Import) -> bool:
        """
        Tell whether an import leads back to where it came from.

        @param importer: the name of the account that imports; its exporter exists, and its
            subjects go together.
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
        for each, renaming in self._services.get(account, ()):
            if not overlaps(ours, renaming.theirs):
                continue
            self._step()
            if each.account in visited:
                return True
            visited.add(account)
            narrower = renaming.ours if isSubset(renaming.ours, ours) else ours
            if self._serviceCollides(each.account, narrower, visited):
                return True
        return False

    def _streamCollides(self, account: str, subject: bytes, visited: set[str]) -> bool:
        if not self._exportsStream(account, subject):
            return False
        for each in self._streams.get(account, ()):
            local = bytesOf(each.to)
            if not overlaps(subject, local):
                continue
            self._step()
            if each.account in visited:
                return True
            visited.add(account)
            narrower = local if isSubset(local, subject) else subject
            if self._streamCollides(each.account, narrower, visited):
                return True
        return False

    def _exportsStream(self, account: str, subject: bytes) -> bool:
        found = self._accounts.get(account)
        return found is not None and any(
            isinstance(each, StreamExport) and isSubset(subject, bytesOf(each.subject))
            for each in found.exports
        )

    def _returns(
        self, start: ServiceImport, account: str, subjects: bytes, last: ServiceImport, hops: int
    ) -> bool:
        """
        Follow requests on some subjects of an account.
        """
        if hops > _MOST_HOPS:
            return True
        for mapped in self._mapped(account, subjects):
            for each, renaming in self._services.get(account, ()):
                shared = intersection(mapped, renaming.ours)
                if shared is None:
                    continue
                self._step()
                if each is start:
                    return True
                if each is not last and self._returns(
                    start, each.account, renaming.toTheirs(shared), each, hops + 1
                ):
                    return True
        return False

    def _mapped(self, account: str, subjects: bytes) -> Iterator[bytes]:
        """
        @return: the subjects themselves, and where mappings of the account lead them.
        """
        yield subjects
        found = self._accounts.get(account)
        for mapping in found.mappings if found is not None else ():
            shared = intersection(subjects, bytesOf(mapping.source))
            if shared is None:
                continue
            for destination in mapping.destinations:
                yield _image(shared, bytesOf(mapping.source), bytesOf(destination.dest))


def _image(shared: bytes, source: bytes, destination: bytes) -> bytes:
    """
    @return: a pattern of all that a mapping may make of some subjects.
    """
    made: list[bytes] = []
    for token in destination.split(b"."):
        single = _single(source, token, shared)
        if single is None:  # it may make several tokens
            return b".".join([*made, b">"])
        made.append(single)
    return b".".join(made)


def _single(source: bytes, token: bytes, shared: bytes) -> bytes | None:
    """
    @return: what one token of a destination makes of some subjects; L{None} for any number
        of tokens.
    """
    number = wildcardNumber(token)
    if number is not None:
        stars = [place for place, each in enumerate(source.split(b".")) if each == b"*"]
        return shared.split(b".")[stars[number - 1]] if number <= len(stars) else b"*"
    if token == b">" or (isCall(token) and (b"plit" in token or b"lice" in token)):
        return None
    return b"*" if isCall(token) else token


def _services(account: Account) -> Iterator[tuple[ServiceImport, Renaming]]:
    for each in account.imports:
        if isinstance(each, ServiceImport):
            try:
                yield each, Renaming(bytesOf(each.subject), bytesOf(each.to))
            except InvalidMapping:
                continue  # reported where the import is checked
