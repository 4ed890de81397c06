"""
Tests for L{natsbroker.accounts.importcycles}: advisories CVE-2020-28466 and CVE-2022-42709.
"""

from __future__ import annotations

import pytest

from natsbroker.accounts.importcycles import CycleSearch
from natsbroker.accounts.settings import (
    MappingDestination,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectMapping,
)
from natsbroker.auth.settings import Account

NUMBERS = range(2, 11)


def mapping(source: str, *destinations: str) -> SubjectMapping:
    """
    @return: a mapping to some destinations in equal shares.
    """
    weight = 100 // len(destinations)
    made = tuple(MappingDestination(each, weight) for each in destinations)
    return SubjectMapping(source, made)


def cycles(*accounts: Account) -> list[bool]:
    """
    @return: for each import in turn, whether it leads back.
    """
    search = CycleSearch({account.name: account for account in accounts})
    return [
        search.formsCycle(account.name, each) for account in accounts for each in account.imports
    ]


def ring(number: int, isClosed: bool) -> list[Account]:
    """
    @return: accounts each of which imports a service of the next.
    """
    made = []
    for place in range(number):
        isLast = place == number - 1
        wanted = ServiceImport(f"A{(place + 1) % number}", "h", "h")
        made.append(
            Account(
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
        """In a ring of any number of accounts every import leads back."""
        assert all(cycles(*ring(number, True)))

    @pytest.mark.parametrize("number", NUMBERS)
    def test_chain(self, number: int) -> None:
        """In a chain none does."""
        assert cycles(*ring(number, False)) == [False] * (number - 1)

    @pytest.mark.parametrize("number", NUMBERS)
    def test_ringThroughMappings(self, number: int) -> None:
        """Mappings close a ring that has another subject in each account."""
        made = [
            Account(
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
        open_ = [Account(a.name, exports=a.exports, imports=a.imports) for a in made]
        assert not any(cycles(*open_))

    @pytest.mark.parametrize(
        "destination",
        ["out.$1", "out.{{wildcard(1)}}", "out.{{partition(3,1)}}", "out.{{split(1,-)}}", "out.x"],
    )
    def test_mutated(self, destination: str) -> None:
        """Whatever function a mapping uses, it is followed."""
        found = cycles(
            Account(
                "A",
                exports=(ServiceExport("in.*"),),
                imports=(ServiceImport("B", "s.*", "out.*"),),
                mappings=(mapping("in.*", "nowhere", destination),),
            ),
            Account(
                "B", exports=(ServiceExport("s.*"),), imports=(ServiceImport("A", "in.*", "s.*"),)
            ),
        )
        assert found == [True, True]

    def test_narrowed(self) -> None:
        """A mapping that leads to another subject does not close the ring."""
        found = cycles(
            Account(
                "A",
                exports=(ServiceExport("in.*"),),
                imports=(ServiceImport("B", "s.x", "out.x"),),
                mappings=(mapping("in.*", "out.y.$1"),),
            ),
            Account(
                "B", exports=(ServiceExport("s.*"),), imports=(ServiceImport("A", "in.*", "t.*"),)
            ),
        )
        assert found == [False, False]

    def test_itself(self) -> None:
        """An account may import a service of its own under another subject, but not the same."""
        own = (ServiceExport("a"),)
        other = Account("A", exports=own, imports=(ServiceImport("A", "a", "b"),))
        same = Account("A", exports=own, imports=(ServiceImport("A", "a", "a"),))
        assert (cycles(other), cycles(same)) == ([False], [True])

    def test_wildcards(self) -> None:
        """Subjects that overlap are enough."""
        found = cycles(
            Account(
                "A",
                exports=(ServiceExport("a.>"),),
                imports=(ServiceImport("B", "b.*", "a.*"),),
            ),
            Account(
                "B", exports=(ServiceExport("b.*"),), imports=(ServiceImport("A", "a.x", "b.x"),)
            ),
        )
        assert found == [True, True]

    def test_boundedTime(self) -> None:
        """A search that would take too long says that there is a cycle."""
        names = [f"A{number}" for number in range(30)]
        found = [
            Account(
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
        search = CycleSearch({account.name: account for account in found})
        assert search.formsCycle("A0", found[0].imports[0])
        assert search._steps <= 20_001


class TestStreams:
    """Streams."""

    def test_ring(self) -> None:
        """Two accounts cannot import the same stream of each other."""
        found = cycles(
            Account(
                "A", exports=(StreamExport("a.>"),), imports=(StreamImport("B", "a.>", "a.>"),)
            ),
            Account(
                "B", exports=(StreamExport("a.>"),), imports=(StreamImport("A", "a.>", "a.>"),)
            ),
        )
        assert found == [True, True]

    def test_chain(self) -> None:
        """An account may export what it imports."""
        found = cycles(
            Account("A", exports=(StreamExport("a.>"),)),
            Account(
                "B", exports=(StreamExport("x.>"),), imports=(StreamImport("A", "a.>", "x.a.>"),)
            ),
            Account("C", imports=(StreamImport("B", "x.a.>", "x.a.>"),)),
        )
        assert found == [False, False]

    def test_notExported(self) -> None:
        """What the exporter does not export does not lead anywhere."""
        found = cycles(
            Account("A", exports=(StreamExport("a"),), imports=(StreamImport("B", "b", "c"),)),
            Account("B", exports=(StreamExport("b"),), imports=(StreamImport("A", "a", "d"),)),
        )
        assert found == [False, False]
