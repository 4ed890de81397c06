"""
Tests for L{natsbroker.accounts.importchecks}.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from natsbroker.accounts.importchecks import CycleSearch, ExportTable, Problem, problems
from natsbroker.config.settings.accounts import (
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
from natsbroker.config.settings.authorization import AccountSettings
from tests.counting import callsOf


def accounts(*exports: Export, imports: tuple[Import, ...] = ()) -> dict[str, AccountSettings]:
    """
    @return: an account A with exports, B with imports, and C.
    """
    return {
        "A": AccountSettings("A", exports=exports),
        "B": AccountSettings("B", imports=imports),
        "C": AccountSettings("C"),
    }


def messages(settings: dict[str, AccountSettings], hasSystem: bool = True) -> list[str]:
    """
    @return: the error messages of the checks.
    """
    return [problem.message for problem in problems(settings, hasSystem)]


class TestExports:
    """Exports."""

    def test_exportsToExistingAccounts(self) -> None:
        """Exports to existing accounts are accepted."""
        settings = accounts(
            StreamExport("a", ("B",)), ServiceExport("b.*", account_token_position=2)
        )
        assert messages(settings) == []

    def test_problemHasPosition(self) -> None:
        """A problem names the account, the list and the position in it."""
        settings = accounts(StreamExport("a"), ServiceExport("b", ("X",)))
        assert list(problems(settings, True)) == [
            Problem("A", "exports", 1, '"X" account not defined for service export')
        ]

    @pytest.mark.parametrize("position", [1, 3])
    def test_tokenPosition(self, position: int) -> None:
        """The token that names the importer must be a wildcard of the subject."""
        settings = accounts(StreamExport("a.*", account_token_position=position))
        assert messages(settings) == ['Error adding stream export "a.*": invalid subject']

    @pytest.mark.parametrize(
        ("export", "reason"),
        [
            (ServiceExport("a", latency=Latency("x.*")), "invalid publish subject"),
            (ServiceExport("a", latency=Latency("a")), "invalid publish subject"),
            (ServiceExport("a", latency=Latency("b.c")), "invalid publish subject"),
            (
                ServiceExport("a", response_type="stream", latency=Latency("x")),
                "bad service response type",
            ),
        ],
    )
    def test_latency(self, export: ServiceExport, reason: str) -> None:
        """Latency is published to a subject that is no service, and only for single answers."""
        assert export.latency is not None
        settings = accounts(export, ServiceExport("b.*"))
        assert messages(settings) == [
            'Error adding service latency sampling for "a" on subject '
            f'"{export.latency.subject}": {reason}'
        ]

    def test_latencyNeedsTheSystemAccount(self) -> None:
        """An export with latency is refused without a system account."""
        settings = accounts(ServiceExport("a", latency=Latency("x")))
        assert messages(settings) == []
        assert messages(settings, hasSystem=False) == [
            'Error adding service latency sampling for "a": system account not setup'
        ]


class TestAuthorization:
    """Permission to import."""

    @pytest.mark.parametrize(
        ("exports", "subject", "isAllowed"),
        [
            ([StreamExport("a")], "a", True),
            ([StreamExport("a.>")], "a.b", True),
            ([StreamExport("a.*")], "a.>", False),
            ([StreamExport("a")], "b", False),
            ([ServiceExport("a")], "a", False),
            ([StreamExport("a", ("B",))], "a", True),
            ([StreamExport("a", ("C",))], "a", False),
            ([StreamExport("a"), StreamExport("a", ("C",))], "a", False),
            ([StreamExport("a", ("C",)), StreamExport("a")], "a", False),
            ([StreamExport("a", ("C",)), StreamExport("a", ("B",))], "a", True),
            ([StreamExport("a.*", ("C",)), StreamExport("a.>")], "a.b", True),
            ([StreamExport("a.*", ("C",)), StreamExport("a.>", ("C",))], "a.b", False),
            ([StreamExport("a.*", account_token_position=2)], "a.B", True),
            ([StreamExport("a.*", account_token_position=2)], "a.C", False),
            ([StreamExport("a.*", account_token_position=2)], "a.*", False),
            ([StreamExport("a.*", ("B",), 2)], "a.C", False),
        ],
    )
    def test_streams(self, exports: list[Export], subject: str, isAllowed: bool) -> None:
        """An import needs an export that covers it and admits its account."""
        wanted = StreamImport("A", subject, subject)
        settings = accounts(*exports, imports=(wanted,))
        refused = [f'Error adding stream import "{subject}": stream import not authorized']
        assert messages(settings) == ([] if isAllowed else refused)
        assert (ExportTable(settings["A"].exports).find(wanted, "B") is not None) == isAllowed

    def test_services(self) -> None:
        """An import of a service needs an export that covers it and admits its account."""
        public, private = ServiceExport("a.>"), ServiceExport("b", ("C",))
        settings = accounts(public, private)
        assert (
            ExportTable(settings["A"].exports).find(ServiceImport("A", "a.b", "x"), "B") is public
        )
        assert ExportTable(settings["A"].exports).find(ServiceImport("A", "b", "x"), "B") is None
        assert ExportTable(settings["A"].exports).find(ServiceImport("A", "b", "x"), "C") is private

    def test_missingAccount(self) -> None:
        """An import from an account that is not there is reported."""
        settings = accounts(imports=(StreamImport("X", "a", "a"), ServiceImport("Y", "a", "a")))
        assert messages(settings) == [
            '"X" account not defined for stream import',
            '"Y" account not defined for service import',
        ]


class TestSubjects:
    """Subjects of imports."""

    @pytest.mark.parametrize(
        ("wanted", "reason"),
        [
            (
                StreamImport("A", "a.*", "b"),
                'failed to create mapping transform for stream import subject from "a.*" to "b": '
                "invalid mapping destination: not using all of the token wildcard(s) in b",
            ),
            (StreamImport("A", "a", "b..c"), "invalid subject"),
            (ServiceImport("A", "a", "b..c"), "invalid subject"),
            (
                ServiceImport("A", "a.*", "b"),
                'failed to create mapping transform for service import subject from "b" to "a.*": '
                "invalid mapping destination: not using all of the token wildcard(s) in b",
            ),
        ],
    )
    def test_importSubjectsThatDoNotFit(self, wanted: Import, reason: str) -> None:
        """
        An import is refused if its local subject cannot be mapped to the exported one and back.
        """
        kind = "service" if isinstance(wanted, ServiceImport) else "stream"
        settings = accounts(StreamExport(">"), ServiceExport(">"), imports=(wanted,))
        assert messages(settings) == [f'Error adding {kind} import "{wanted.subject}": {reason}']

    def test_wildcardsInLiteralName(self) -> None:
        """A stream of one subject may be called by a name with wildcards, as in nats-server."""
        settings = accounts(StreamExport(">"), imports=(StreamImport("A", "a", "b.*"),))
        assert messages(settings) == []

    @pytest.mark.parametrize("ours", ["x.>", "x.*", "x"])
    def test_patternForOneSubject(self, ours: str) -> None:
        """A service with one subject may be imported under a pattern."""
        settings = accounts(ServiceExport("a"), imports=(ServiceImport("A", "a", ours),))
        assert messages(settings) == []

    def test_duplicates(self) -> None:
        """
        A stream cannot be imported twice from an account, and neither can a service under one local
        subject.
        """
        settings = accounts(
            StreamExport(">"),
            ServiceExport(">"),
            imports=(
                StreamImport("A", "a", "a"),
                StreamImport("A", "a", "b"),
                ServiceImport("A", "a.*", "x.$1"),
                ServiceImport("A", "b.*", "x.*"),
            ),
        )
        assert messages(settings) == [
            'Error adding stream import "a": stream import already exists',
            'Duplicate service import subject "x.*", previously used in import '
            'for account "A", subject "a.*"',
        ]

    def test_severalExporters(self) -> None:
        """Services of several accounts may be imported under the same subject."""
        settings = accounts(
            ServiceExport("a"),
            imports=(ServiceImport("A", "a", "x"), ServiceImport("C", "a", "x")),
        )
        settings["C"] = AccountSettings("C", exports=(ServiceExport("a"),))
        assert messages(settings) == []


def test_cycle() -> None:
    """An import that closes a cycle of services is refused."""
    settings = {
        "A": AccountSettings(
            "A", exports=(ServiceExport("f"),), imports=(ServiceImport("B", "g", "f"),)
        ),
        "B": AccountSettings(
            "B", exports=(ServiceExport("g"),), imports=(ServiceImport("A", "f", "g"),)
        ),
    }
    assert messages(settings) == [
        'Error adding service import "g": import forms a cycle',
        'Error adding service import "f": import forms a cycle',
    ]


NUMBERS = range(2, 11)


def mapping(source: str, *destinations: str) -> SubjectMapping:
    """
    @return: a mapping to some destinations in equal shares.
    """
    weight = 100 // len(destinations)
    made = tuple(MappingDestination(destination, weight) for destination in destinations)
    return SubjectMapping(source, made)


def cycles(*accounts: AccountSettings) -> list[bool]:
    """
    @return: for each import in turn, whether it closes a cycle.
    """
    search = CycleSearch({account.name: account for account in accounts})
    return [
        search.formsCycle(account.name, imported)
        for account in accounts
        for imported in account.imports
    ]


def ring(number: int, isClosed: bool) -> list[AccountSettings]:
    """
    @return: accounts each of which imports a service of the next.
    """
    made = []
    for place in range(number):
        isLast = place == number - 1
        wanted = ServiceImport(f"A{(place + 1) % number}", "h", "h")
        made.append(
            AccountSettings(
                f"A{place}",
                exports=(ServiceExport("h"),),
                imports=() if isLast and not isClosed else (wanted,),
            )
        )
    return made


class TestServices:
    """Services."""

    @pytest.mark.parametrize("number", NUMBERS)
    def test_ring(self, number: int) -> None:
        """In a ring of any number of accounts every import closes a cycle."""
        assert all(cycles(*ring(number, True)))

    @pytest.mark.parametrize("number", NUMBERS)
    def test_chain(self, number: int) -> None:
        """In a chain of any number of accounts no import closes a cycle."""
        assert cycles(*ring(number, False)) == [False] * (number - 1)

    @pytest.mark.parametrize("number", NUMBERS)
    def test_ringThroughMappings(self, number: int) -> None:
        """Mappings close a cycle of accounts in which each uses another subject."""
        made = [
            AccountSettings(
                f"A{place}",
                exports=(ServiceExport(f"in{place}"),),
                imports=(
                    ServiceImport(
                        f"A{(place + 1) % number}", f"in{(place + 1) % number}", f"out{place}"
                    ),
                ),
                mappings=(mapping(f"in{place}", f"out{place}"),),
            )
            for place in range(number)
        ]
        assert all(cycles(*made))
        open_ = [AccountSettings(a.name, exports=a.exports, imports=a.imports) for a in made]
        assert not any(cycles(*open_))

    @pytest.mark.parametrize(
        "destination",
        ["out.$1", "out.{{wildcard(1)}}", "out.{{partition(3,1)}}", "out.{{split(1,-)}}", "out.x"],
    )
    def test_mutated(self, destination: str) -> None:
        """A cycle is detected through a mapping with any function."""
        verdicts = cycles(
            AccountSettings(
                "A",
                exports=(ServiceExport("in.*"),),
                imports=(ServiceImport("B", "s.*", "out.*"),),
                mappings=(mapping("in.*", "nowhere", destination),),
            ),
            AccountSettings(
                "B", exports=(ServiceExport("s.*"),), imports=(ServiceImport("A", "in.*", "s.*"),)
            ),
        )
        assert verdicts == [True, True]

    def test_narrowed(self) -> None:
        """A mapping to another subject does not close a cycle."""
        verdicts = cycles(
            AccountSettings(
                "A",
                exports=(ServiceExport("in.*"),),
                imports=(ServiceImport("B", "s.x", "out.x"),),
                mappings=(mapping("in.*", "out.y.$1"),),
            ),
            AccountSettings(
                "B", exports=(ServiceExport("s.*"),), imports=(ServiceImport("A", "in.*", "t.*"),)
            ),
        )
        assert verdicts == [False, False]

    def test_itself(self) -> None:
        """An account may import a service of its own, also under the same subject."""
        own = (ServiceExport("a"),)
        other = AccountSettings("A", exports=own, imports=(ServiceImport("A", "a", "b"),))
        same = AccountSettings("A", exports=own, imports=(ServiceImport("A", "a", "a"),))
        assert (cycles(other), cycles(same)) == ([False], [False])

    def test_wildcards(self) -> None:
        """Imports with wildcards close a cycle if their subjects overlap."""
        verdicts = cycles(
            AccountSettings(
                "A",
                exports=(ServiceExport("a.>"),),
                imports=(ServiceImport("B", "b.*", "a.*"),),
            ),
            AccountSettings(
                "B", exports=(ServiceExport("b.*"),), imports=(ServiceImport("A", "a.x", "b.x"),)
            ),
        )
        assert verdicts == [True, True]

    def test_boundedTime(self) -> None:
        """A search for cycles that would take too long reports a cycle."""
        names = [f"A{number}" for number in range(30)]
        settings = [
            AccountSettings(
                name,
                exports=(ServiceExport(">"),),
                imports=tuple(
                    ServiceImport(other, f"{other}.>", f"{name}.{other}.>")
                    for other in names
                    if other != name
                ),
                mappings=(mapping(f"{name}.>", *[f"{name}.{other}.>" for other in names[:10]]),),
            )
            for name in names
        ]
        search = CycleSearch({account.name: account for account in settings})
        assert search.formsCycle("A0", settings[0].imports[0])
        assert search._steps <= 20_001


class TestStreams:
    """Streams."""

    def test_ring(self) -> None:
        """Two accounts cannot import the same stream from each other."""
        verdicts = cycles(
            AccountSettings(
                "A", exports=(StreamExport("a.>"),), imports=(StreamImport("B", "a.>", "a.>"),)
            ),
            AccountSettings(
                "B", exports=(StreamExport("a.>"),), imports=(StreamImport("A", "a.>", "a.>"),)
            ),
        )
        assert verdicts == [True, True]

    def test_chain(self) -> None:
        """An account may export what it imports."""
        verdicts = cycles(
            AccountSettings("A", exports=(StreamExport("a.>"),)),
            AccountSettings(
                "B", exports=(StreamExport("x.>"),), imports=(StreamImport("A", "a.>", "x.a.>"),)
            ),
            AccountSettings("C", imports=(StreamImport("B", "x.a.>", "x.a.>"),)),
        )
        assert verdicts == [False, False]

    def test_notExported(self) -> None:
        """A stream import of a subject that is not exported further closes no cycle."""
        verdicts = cycles(
            AccountSettings(
                "A", exports=(StreamExport("a"),), imports=(StreamImport("B", "b", "c"),)
            ),
            AccountSettings(
                "B", exports=(StreamExport("b"),), imports=(StreamImport("A", "a", "d"),)
            ),
        )
        assert verdicts == [False, False]


class TestMany:
    """Accounts with long lists."""

    @pytest.mark.parametrize(
        "kinds", [(ServiceExport, ServiceImport), (StreamExport, StreamImport)]
    )
    def test_workIsLinear(self, kinds: tuple[Any, Any]) -> None:
        """Twice as many imports, exports and mappings take about twice the work."""
        made, wanted = kinds
        calls = []
        for count in (200, 400):
            settings = accounts(
                *[made(f"a.{number}") for number in range(count)],
                imports=tuple(wanted("A", f"a.{number}", f"b.{number}") for number in range(count)),
            )
            mapping = (MappingDestination("z"),)
            mappings = tuple(SubjectMapping(f"m.{number}", mapping) for number in range(count))
            settings["B"] = replace(settings["B"], mappings=mappings)
            assert messages(settings) == []
            calls.append(callsOf(partial(messages, settings)))
        assert calls[0] > 1000
        assert calls[1] < 2.4 * calls[0]
