"""
Tests for L{natsbroker.subjects.mapping}.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.grammar import isSubset, matches
from natsbroker.subjects.mapping import NOWHERE, Destination, Mapping, MappingTable
from tests.subjects.chances import noChance
from tests.subjects.strategies import DELIVERABLE, PATTERNS


def drawing(*numbers: int) -> Callable[[int], int]:
    """
    @return: a source of chance that gives these numbers in turn.
    """
    left = list(numbers)
    return lambda limit: left.pop(0)


def outcomes(mapping: Mapping, subject: bytes, cluster: bytes = b"") -> Counter[bytes]:
    """
    @return: how many of a hundred lots lead to each subject.
    """
    table = MappingTable([mapping], drawing(*range(100)), cluster)
    return Counter(table.map(subject) for _ in range(100))


def test_unmapped() -> None:
    """A subject without a mapping is returned unchanged each time."""
    table = MappingTable([Mapping(b"a", [Destination(b"b")])], noChance)
    for _ in range(3):
        subject = bytes(bytearray(b"other"))
        assert table.map(subject) is subject
        assert table.map(b"a") == b"b"


class TestMapping:
    """Weights."""

    def test_fullWeight(self) -> None:
        """A single destination of full weight gets every message, without a draw."""
        mapping = Mapping(b"a.*", [Destination(b"b.$1")])
        assert MappingTable([mapping], noChance).map(b"a.x") == b"b.x"

    def test_shares(self) -> None:
        """Destinations receive messages in proportion to their weights."""
        mapping = Mapping(b"a.*", [Destination(b"b.$1", 30), Destination(b"c.$1", 70)])
        assert outcomes(mapping, b"a.x") == {b"b.x": 30, b"c.x": 70}

    def test_rest(self) -> None:
        """The rest of a hundred per cent keeps the original subject."""
        mapping = Mapping(b"a.*.>", [Destination(b"b.$1.>", 10)])
        assert outcomes(mapping, b"a.x.y.z") == {b"b.x.y.z": 10, b"a.x.y.z": 90}

    def test_loss(self) -> None:
        """If the source itself is a destination, the rest is lost."""
        mapping = Mapping(b"a", [Destination(b"a", 80), Destination(b"b", 5)])
        assert outcomes(mapping, b"a") == {b"a": 80, b"b": 5, NOWHERE: 15}

    def test_emptyTable(self) -> None:
        """A weight of 0 gets no messages."""
        mapping = Mapping(b"a", [Destination(b"b", 0), Destination(b"c", 100)])
        assert outcomes(mapping, b"a") == {b"c": 100}

    def test_clusters(self) -> None:
        """Destinations for a cluster replace those for all clusters in that cluster."""
        mapping = Mapping(
            b"a",
            [
                Destination(b"b", 100),
                Destination(b"east", 100, b"EAST"),
                Destination(b"west", 25, b"WEST"),
            ],
        )
        assert outcomes(mapping, b"a") == {b"b": 100}
        assert outcomes(mapping, b"a", b"EAST") == {b"east": 100}
        assert outcomes(mapping, b"a", b"WEST") == {b"west": 25, b"a": 75}
        assert outcomes(mapping, b"a", b"NORTH") == {b"b": 100}

    def test_onlyForOtherClusters(self) -> None:
        """If no destination is for the broker's cluster, the subject stays unchanged."""
        mapping = Mapping(b"a", [Destination(b"a", 50, b"EAST")])
        assert outcomes(mapping, b"a") == {b"a": 100}
        assert outcomes(mapping, b"a", b"EAST") == {b"a": 50, NOWHERE: 50}

    @pytest.mark.parametrize(
        ("destinations", "text"),
        [
            ([], "no destination"),
            ([Destination(b"b", 101)], "individual weights need to be <= 100"),
            ([Destination(b"b", -1)], "individual weights need to be <= 100"),
            ([Destination(b"b", 60), Destination(b"c", 50)], "total weight needs to be <= 100"),
            ([Destination(b"b", 40), Destination(b"b", 50)], 'duplicate entry for "b"'),
            ([Destination(b"b", 40), Destination(b"b", 50, b"X")], 'duplicate entry for "b"'),
            ([Destination(b"b.*")], "invalid subject in b.*"),
            ([Destination(b"b..")], "invalid mapping destination: invalid transform in b.."),
        ],
    )
    def test_invalidDestinations(self, destinations: list[Destination], text: str) -> None:
        """Invalid weights and destinations are refused."""
        with pytest.raises(InvalidMapping) as caught:
            Mapping(b"a", destinations)
        assert str(caught.value) == text

    def test_wrongSource(self) -> None:
        """An invalid source is refused."""
        with pytest.raises(InvalidMapping, match=r"invalid subject in a\.\.b"):
            Mapping(b"a..b", [Destination(b"b")])

    def test_totalsAreByCluster(self) -> None:
        """The weights of each cluster are added up separately."""
        destinations = [Destination(b"b", 60), Destination(b"c", 60, b"X")]
        assert Mapping(b"a", destinations).destinations == tuple(destinations)


class TestMappingTable:
    """Which mapping applies."""

    def table(self, *pairs: tuple[bytes, bytes]) -> MappingTable:
        """
        @return: a table of mappings with one destination each.
        """
        return MappingTable([Mapping(s, [Destination(d)]) for s, d in pairs], noChance)

    def test_empty(self) -> None:
        """Without mappings subjects stay as they are."""
        assert self.table().map(b"a") == b"a"

    def test_first(self) -> None:
        """The first mapping that matches is applied, and only once."""
        table = self.table((b"a.*", b"b.$1"), (b"a.x", b"never"), (b"b.*", b"c.$1"))
        assert table.map(b"a.x") == b"b.x"
        assert table.map(b"b.x") == b"c.x"
        assert table.map(b"c.x") == b"c.x"

    def test_sameSource(self) -> None:
        """A later mapping with the same source replaces an earlier one."""
        table = self.table((b"a.*", b"b.$1"), (b"a.x", b"never"), (b"a.*", b"c.$1"))
        assert table.map(b"a.x") == b"c.x"
        assert len(table.mappings) == 2

    def test_remembered(self) -> None:
        """A random destination is drawn for each message; any other destination is remembered."""
        table = MappingTable(
            [
                Mapping(b"a", [Destination(b"b", 50), Destination(b"c", 50)]),
                Mapping(b"r", [Destination(b"r.{{random(10)}}")]),
                Mapping(b"s", [Destination(b"t")]),
            ],
            drawing(10, 70, 3, 4),
        )
        assert [table.map(b"a") for _ in range(2)] == [b"b", b"c"]
        assert [table.map(b"r") for _ in range(2)] == [b"r.3", b"r.4"]
        assert [table.map(b"s") for _ in range(2)] == [b"t", b"t"]

    def test_publishedWildcard(self) -> None:
        """A wildcard in a published subject is mapped as a literal."""
        assert self.table((b"a.*", b"b.$1")).map(b"a.*") == b"b.*"

    @pytest.mark.parametrize(
        ("source", "subject", "isMapped"),
        [
            (b"a.*", b"a.>", False),
            (b"*", b">", False),
            (b"a.*.b", b"a.>.b", False),
            (b"a.>", b"a.>", True),
            (b"a.>", b"a.b.>", True),
            (b"*.>", b"a.>", True),
            (b">", b">", True),
            (b"a.*", b"a.x>", True),
        ],
    )
    def test_publishedRest(self, source: bytes, subject: bytes, isMapped: bool) -> None:
        """A published C{>} does not match a C{*} of a mapping."""
        table = self.table((source, b"there" + b".>" * source.endswith(b">")))
        assert table.map(subject).startswith(b"there") == isMapped

    def test_lostWhenInvalid(self) -> None:
        """A message whose mapped subject would be invalid is lost."""
        assert self.table((b"a.*", b"{{split(1,-)}}")).map(b"a.---") == NOWHERE

    def test_chanceIsFair(self) -> None:
        """With real random numbers, the shares are about right."""
        mapping = Mapping(b"a", [Destination(b"b", 20), Destination(b"c", 80)])
        table = MappingTable([mapping], random.Random(1).randrange)
        counts = Counter(table.map(b"a") for _ in range(2000))
        assert 300 < counts[b"b"] < 500
        assert counts[b"b"] + counts[b"c"] == 2000

    def test_fixedDestination(self) -> None:
        """A fixed destination is known in advance; a random one is not."""
        table = self.table((b"a.*", b"b.$1"), (b"c", b"d.{{random(2)}}"))
        weighted = MappingTable([Mapping(b"e", [Destination(b"f", 50)])], noChance)
        assert (table.fixed(b"a.x"), table.fixed(b"z")) == (b"b.x", b"z")
        assert (table.fixed(b"c"), weighted.fixed(b"e")) == (None, None)

    @given(st.lists(PATTERNS, max_size=6), DELIVERABLE)
    def test_firstMatch(self, sources: list[bytes], subject: bytes) -> None:
        """The mapping is the first one that matches."""
        mappings = [
            Mapping(s, [Destination(b"to%d" % n + b".>" * (s.split(b".")[-1] == b">"))])
            for n, s in enumerate(dict.fromkeys(sources))
        ]
        expected = [
            number
            for number, source in enumerate(dict.fromkeys(sources))
            if matches(source, subject) and isSubset(subject, source)
        ][:1]
        result = MappingTable(mappings, noChance).map(subject)
        assert [b"to%d" % n for n in expected] == [result.split(b".")[0]] * len(expected)
        if not expected:
            assert result == subject
        assert MappingTable(mappings, noChance).fixed(subject) == result
