"""
Tests for L{natsbroker.subjects.functions}.
"""

from __future__ import annotations

import pytest

from natsbroker.subjects.functions import (
    InvalidMapping,
    Wildcards,
    compileToken,
    isCall,
    partitionOf,
    wildcardNumber,
)
from tests.subjects.chances import BAD, RANGE, UNKNOWN, WRONG


def called(token: bytes, source: bytes, subject: bytes) -> bytes:
    """
    @return: what the destination token becomes for a subject; the highest number is drawn.
    """
    _, part = compileToken(token, Wildcards(source))
    return part(subject.split(b"."), lambda limit: limit - 1)


def cut(function: bytes, token: bytes, size: int) -> bytes:
    """
    @return: what a function of one token and a number of bytes makes of a token.
    """
    return called(b"{{%b(1, %d)}}" % (function, size), b"*", token)


#: The functions of one token and a number of bytes.
CUTS = [b"splitFromLeft", b"splitFromRight", b"sliceFromLeft", b"sliceFromRight", b"left", b"right"]


class TestPartitionOf:
    """Partitions."""

    @pytest.mark.parametrize(
        ("key", "digest"),
        [
            (b"", 0x811C9DC5),
            (b"a", 0xE40C292C),
            (b"b", 0xE70C2DE5),
            (b"foobar", 0xBF9CF968),
        ],
    )
    def test_hash(self, key: bytes, digest: int) -> None:
        """The hash is 32-bit FNV-1a, as its authors' test vectors have it."""
        assert partitionOf(key, 2**32) == digest

    @pytest.mark.parametrize(("key", "partition"), [(b"abc", 2), (b"xyz", 0)])
    def test_observed(self, key: bytes, partition: int) -> None:
        """Of three partitions, the same one is chosen as by nats-server 2.15.1."""
        assert partitionOf(key, 3) == partition

    def test_noPartitions(self) -> None:
        """Without partitions every subject is in partition 0."""
        assert partitionOf(b"abc", 0) == 0


class TestLiterals:
    """Tokens that are not functions."""

    @pytest.mark.parametrize(
        "token", [b"a", b"$", b"$x", b"$1x", b"{{", b"{{}}", b"{a}", b"x{{wildcard(1)}}", b"{{a}}x"]
    )
    def test_otherTokens(self, token: bytes) -> None:
        """A token that is neither a dollar with a number nor wholly in braces stays unchanged."""
        assert not isCall(token)
        assert compileToken(token, Wildcards(b"*"))[0] == ""
        assert called(token, b"*", b"q") == token


class TestWildcard:
    """Tokens of the subject."""

    @pytest.mark.parametrize(
        "token",
        [b"$2", b"$+2", b"{{wildcard(2)}}", b"{{Wildcard(2)}}", b"{{ wildcard ( 2 ) }}"],
    )
    def test_spellings(self, token: bytes) -> None:
        """The second star's token can be written in several spellings."""
        assert compileToken(token, Wildcards(b"*.b.*.>"))[0] == "wildcard"
        assert called(token, b"*.b.*.>", b"x.b.y.z") == b"y"


class TestCuts:
    """Functions of one token and a number of bytes."""

    @pytest.mark.parametrize(
        ("function", "size", "made"),
        [
            (b"splitFromLeft", 2, b"ab.cdefg"),
            (b"splitFromLeft", 6, b"abcdef.g"),
            (b"splitFromRight", 2, b"abcde.fg"),
            (b"splitFromRight", 6, b"a.bcdefg"),
            (b"sliceFromLeft", 3, b"abc.def.g"),
            (b"sliceFromLeft", 6, b"abcdef.g"),
            (b"sliceFromRight", 3, b"a.bcd.efg"),
            (b"sliceFromRight", 6, b"a.bcdefg"),
            (b"left", 3, b"abc"),
            (b"right", 3, b"efg"),
        ],
    )
    def test_cut(self, function: bytes, size: int, made: bytes) -> None:
        """A token longer than the number is cut from the side in the function's name."""
        assert cut(function, b"abcdefg", size) == made

    @pytest.mark.parametrize(
        "function",
        [
            b"splitFromLeft",
            b"splitFromRight",
            b"sliceFromLeft",
            b"sliceFromRight",
            b"left",
            b"right",
        ],
    )
    @pytest.mark.parametrize("size", [-3, 0, 7, 8, 2147483647])
    def test_nothingToCut(self, function: bytes, size: int) -> None:
        """A token that is too short, or a number that is no length, leaves the token whole."""
        assert cut(function, b"abcdefg", size) == b"abcdefg"

    @pytest.mark.parametrize("function", [b"sliceFromLeft", b"sliceFromRight"])
    def test_evenSlices(self, function: bytes) -> None:
        """A token that is a multiple of the size leaves no remainder."""
        assert cut(function, b"abcdef", 2) == b"ab.cd.ef"
        assert cut(function, b"abcdef", 3) == b"abc.def"


class TestSplit:
    """Cutting at a separator."""

    @pytest.mark.parametrize(
        ("token", "made"),
        [
            (b"a-b-c", b"a.b.c"),
            (b"abc", b"abc"),
            (b"-a-b-", b"a.b"),
            (b"a--b", b"a.b"),
            (b"--a", b"a"),
            (b"--", b""),
        ],
    )
    def test_splitTokens(self, token: bytes, made: bytes) -> None:
        """The pieces become tokens; empty pieces are left out."""
        assert called(b"{{split(1,-)}}", b"*", token) == made

    def test_longSeparator(self) -> None:
        """A separator may have several bytes, non-ASCII ones too."""
        assert called("{{ Split(1, é=)}}".encode(), b"*", "xé=y=z".encode()) == b"x.y=z"


class TestPartition:
    """Numbers from hashes."""

    def test_tokens(self) -> None:
        """The tokens at the given stars are hashed, without anything between them."""
        assert called(b"{{partition(10,1,2)}}", b"*.x.*", b"foo.x.bar") == b"%d" % (
            partitionOf(b"foobar", 10)
        )
        assert called(b"{{Partition(10, 2, 1)}}", b"*.x.*", b"foo.x.bar") == b"%d" % (
            partitionOf(b"barfoo", 10)
        )

    @pytest.mark.parametrize("source", [b"foo.*", b"foo.>", b"foo.bar"])
    def test_wholeSubject(self, source: bytes) -> None:
        """Without stars to choose, the whole subject is hashed."""
        expected = b"%d" % partitionOf(b"foo.bar", 1000)
        assert called(b"{{partition(1000)}}", source, b"foo.bar") == expected

    def test_literalSource(self) -> None:
        """With a literal source, the numbers of stars are ignored."""
        expected = b"%d" % partitionOf(b"foo.bar", 1000)
        assert called(b"{{partition(1000,1,2)}}", b"foo.bar", b"foo.bar") == expected

    def test_noPartitions(self) -> None:
        """With 0 partitions the number is 0."""
        assert called(b"{{partition(0,1)}}", b"*", b"a") == b"0"


class TestRandom:
    """Random numbers."""

    def test_drawn(self) -> None:
        """A number below the limit is drawn from the given source of chance."""
        assert called(b"{{random(10)}}", b"a", b"a") == b"9"
        assert called(b"{{Random( 1 )}}", b"a", b"a") == b"0"

    def test_noLimit(self) -> None:
        """A limit of 0 gives 0, without a draw."""
        assert called(b"{{random(0)}}", b"a", b"a") == b"0"


#: Source and token that nats-server takes and makes little sense of.
REFUSED_HERE = [
    (b"*", b"$0", RANGE),
    (b"*", b"$-1", RANGE),
    (b"*", b"{{wildcard(0)}}", RANGE),
    (b"*", b"{{partition(-3,1)}}", BAD),
    (b"*", b"{{random(-3)}}", BAD),
    (b"*", b"{{split(1,)}}", BAD),
    (b"*", b"{{x{{wildcard(1)}}", UNKNOWN),
    (b"*", b"$" + b"9" * 5000, BAD),
    (b"*", b"{{wildcard(" + b"1" * 5000 + b")}}", BAD),
]


class TestErrors:
    """Errors are reported when a function is compiled."""

    @pytest.mark.parametrize(("source", "token", "text"), WRONG)
    def test_text(self, source: bytes, token: bytes, text: str) -> None:
        """The error is nats-server's."""
        with pytest.raises(InvalidMapping) as caught:
            compileToken(token, Wildcards(source))
        assert str(caught.value) == f"invalid mapping destination: {text}"

    @pytest.mark.parametrize(("source", "token", "reason"), REFUSED_HERE)
    def test_stricter(self, source: bytes, token: bytes, reason: str) -> None:
        """
        Numbers out of range and empty separators are refused, although nats-server accepts them.
        """
        with pytest.raises(InvalidMapping) as caught:
            compileToken(token, Wildcards(source))
        assert caught.value.reason == f"invalid mapping destination: {reason}"

    def test_bytesThatAreNoText(self) -> None:
        """A function that is not valid UTF-8 is shown in the error."""
        with pytest.raises(InvalidMapping, match=r"unknown function in \{\{\\xff\}\}"):
            compileToken(b"{{\xff}}", Wildcards(b"*"))


@pytest.mark.parametrize(
    ("token", "number"),
    [
        (b"$1", 1),
        (b"$12", 12),
        (b"{{wildcard(3)}}", 3),
        (b"{{ Wildcard( 2 ) }}", 2),
        (b"$0", None),
        (b"$-1", None),
        (b"$x", None),
        (b"$", None),
        (b"*", None),
        (b"a", None),
        (b"{{wildcard()}}", None),
        (b"{{wildcard(1,2)}}", None),
        (b"{{partition(1)}}", None),
        (b"$" + b"1" * 30, None),
    ],
)
def test_wildcardNumber(token: bytes, number: int | None) -> None:
    """A token that stands for a star gives the star's number."""
    assert wildcardNumber(token) == number
