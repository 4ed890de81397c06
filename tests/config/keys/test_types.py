"""
Tests for L{natsbroker.config.keys.types}.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from natsbroker.config.errors import NOWHERE
from natsbroker.config.keys.root import ROOT
from natsbroker.config.keys.types import (
    ADDRESS,
    ALWAYS,
    ANY_MAP,
    BOOLEAN,
    CERTIFICATE,
    DIRECTION,
    DURATION,
    ENABLED,
    HEADERS,
    INTEGER,
    OLD_DURATION,
    PERCENTAGE,
    SECONDS,
    SIZE,
    STRING,
    TIME,
    TLS_SECTION,
    WRITE_POLICY,
    AnyType,
    BlockSchema,
    Key,
    ListType,
    MapType,
    SecondsType,
    ValueType,
)
from natsbroker.config.language.parser import parse
from natsbroker.config.language.tree import ArrayNode, Node, Scalar, ScalarNode, TableNode

READABLE: list[tuple[ValueType, Scalar, object]] = [
    (BOOLEAN, True, True),
    (INTEGER, 5, 5),
    (STRING, "a", "a"),
    (DURATION, "2m", 120.0),
    (OLD_DURATION, 2, 2.0),
    (SECONDS, 2, 2.0),
    (SECONDS, 0.5, 0.5),
    (ADDRESS, 4222, ("", 4222)),
    (ADDRESS, "a:1", ("a", 1)),
    (SIZE, 7, 7),
    (SIZE, "", 0),
    (SIZE, "2K", 2048),
    (SIZE, "10G", 10 * 1024**3),
    (PERCENTAGE, 50, 50),
    (PERCENTAGE, "50%", 50),
    (ENABLED, "Enabled", True),
    (ENABLED, "disable", False),
    (ALWAYS, "Always", "Always"),
    (HEADERS, "headers", "headers"),
    (WRITE_POLICY, "retry", "retry"),
]


@pytest.mark.parametrize(("form", "value", "expected"), READABLE)
def test_readable(form: ValueType, value: Scalar, expected: object) -> None:
    """A type reads a value that it accepts."""
    leaf = ScalarNode(value, NOWHERE)
    assert form.takes(leaf)
    result = form.read(leaf)
    assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (BOOLEAN, 1),
        (INTEGER, True),
        (INTEGER, 1.0),
        (STRING, 1),
        (DURATION, 1),
        (OLD_DURATION, 1.5),
        (SECONDS, "1"),
        (SECONDS, True),
        (ADDRESS, 1.5),
        (ENABLED, True),
        (ALWAYS, "never"),
        (HEADERS, "50%"),
    ],
)
def test_otherTypes(form: ValueType, value: Scalar) -> None:
    """A type refuses values of other types. A boolean is not an integer."""
    assert not form.takes(ScalarNode(value, NOWHERE))


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (DURATION, "2"),
        (ADDRESS, "nowhere"),
        (SIZE, "1Q"),
        (SIZE, "K"),
        (PERCENTAGE, 101),
        (PERCENTAGE, "-1"),
        (PERCENTAGE, "x%"),
        (ENABLED, "maybe"),
        (WRITE_POLICY, "drop"),
    ],
)
def test_wrongValues(form: ValueType, value: Scalar) -> None:
    """A value of the right type that is out of range is an error."""
    with pytest.raises(ValueError):
        form.read(ScalarNode(value, NOWHERE))


def test_containers() -> None:
    """Blocks and named entries are maps, lists are arrays, and neither is a scalar."""
    types: list[AnyType] = [
        BlockSchema("x"),
        MapType(Key(STRING)),
        ListType(Key(STRING)),
        ANY_MAP,
    ]
    nodes: list[Node] = [TableNode(NOWHERE), ArrayNode([], NOWHERE), ScalarNode("a", NOWHERE)]
    taken = [[form.takes(node) for node in nodes] for form in types]
    assert taken == [
        [True, False, False],
        [True, False, False],
        [False, True, False],
        [True, False, False],
    ]


def test_spellings() -> None:
    """A key is found by its name and aliases, in any case."""
    section = BlockSchema("x", password=Key(STRING, aliases="pass pw"))
    paths = [section.canonical(spelling) for spelling in ("password", "PASS", "Pw", "p")]
    assert paths == ["password", "password", "password", None]


def test_written() -> None:
    """A key names its types in error messages."""
    assert Key(INTEGER, STRING).typeNames == "an integer or a string"


def test_tlsHasNoVariables() -> None:
    """As in nats-server, a C{tls} block cannot define keys only to refer to them."""
    assert not TLS_SECTION.variables
    assert not CERTIFICATE.variables


def test_times() -> None:
    """A duration may be a bare number of seconds."""
    assert TIME.typeNames == "a duration or an integer of seconds"


def keysOf(kind: AnyType, path: str = "") -> Iterator[tuple[str, Key]]:
    """
    All keys below a block, with their paths.
    """
    if isinstance(kind, BlockSchema):
        inner = [(f"{path}.{name}", key) for name, key in kind.keys.items()]
    else:
        inner = [(path, kind.item)] if isinstance(kind, ListType | MapType) else []
    for where, key in inner:
        if where.count(".") < 12:
            yield where, key
            for keyType in key.types:
                yield from keysOf(keyType, where)


class TestSizes:
    """A number with a size suffix where seconds are expected, such as C{2m} without quotes."""

    @pytest.mark.parametrize("text", ["2m", "1M", "-2m", "100k", "87Ki", "1e"])
    @pytest.mark.parametrize("form", [OLD_DURATION, SECONDS])
    def test_longDuration(self, text: str, form: ValueType) -> None:
        """A suffixed number that means more than a day is an error with the advice to quote it."""
        node = parse(f"a: {text}", {}).entries["a"].node
        with pytest.raises(ValueError, match=f"^{text} without quotes is .* in quotes, as in"):
            form.read(node)

    @pytest.mark.parametrize(("text", "seconds"), [("86k", 86e3), ("1k", 1e3), ("90000", 9e4)])
    def test_shortDuration(self, text: str, seconds: float) -> None:
        """
        A suffixed number that means at most a day is accepted, and so is any number without a
        suffix.
        """
        node = parse(f"a: {text}", {}).entries["a"].node
        assert OLD_DURATION.read(node) == SECONDS.read(node) == seconds

    def test_everyKey(self) -> None:
        """Every key with a duration reads bare seconds in the same way."""
        keys = {path: key for path, key in keysOf(ROOT) if DURATION in key.types}
        assert len(keys) > 30
        for path, key in keys.items():
            others = [kind for kind in key.types if kind not in (DURATION, ALWAYS)]
            assert all(isinstance(kind, SecondsType) for kind in others), path


def test_directions() -> None:
    """A direction of permissions has the keys C{allow} and C{deny} only."""
    assert sorted(DIRECTION.keys) == ["allow", "deny"]
