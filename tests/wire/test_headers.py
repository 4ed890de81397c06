"""
NATS/1.0 header blocks.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsbroker.wire.headers import MAX_HEADERS, HeaderError, Headers

BLOCKS: list[tuple[bytes, int, str, list[tuple[str, str]]]] = [
    (b"NATS/1.0\r\n\r\n", 0, "", []),
    (b"NATS/1.0 503\r\n\r\n", 503, "", []),
    (b"NATS/1.0 503 No Responders\r\n\r\n", 503, "No Responders", []),
    (b"NATS/1.0 100 Idle Heartbeat\r\nA: b\r\n\r\n", 100, "Idle Heartbeat", [("A", "b")]),
    (b"NATS/1.0  404 \r\n\r\n", 404, "", []),
    (b"NATS/1.0\r\nBar: Baz\r\n\r\n", 0, "", [("Bar", "Baz")]),
    (b"NATS/1.0\r\nBar:Baz\r\n\r\n", 0, "", [("Bar", "Baz")]),
    (b"NATS/1.0\r\nBar:  Baz \t\r\n\r\n", 0, "", [("Bar", "Baz")]),
    (b"NATS/1.0\r\nBar:\r\n\r\n", 0, "", [("Bar", "")]),
    (b"NATS/1.0\r\na: 1\r\nA: 2\r\na: 3\r\n\r\n", 0, "", [("a", "1"), ("A", "2"), ("a", "3")]),
    (b"NATS/1.0\r\nk: a:b: c\r\n\r\n", 0, "", [("k", "a:b: c")]),
    ("NATS/1.0\r\nschlüssel: wört\r\n\r\n".encode(), 0, "", [("schlüssel", "wört")]),
    (b"NATS/1.0\r\nk: \xff\r\n\r\n", 0, "", [("k", "\udcff")]),
    (b"NATS/1.0\r\nk y: v\r\n\r\n", 0, "", [("k y", "v")]),
]

MALFORMED = [
    b"x",
    b"NATS/1.0",
    b"NATS/1.0\r\n",
    b"NATS/2.0\r\n\r\n",
    b"nats/1.0\r\n\r\n",
    b"NATS/1.0 abc\r\n\r\n",
    b"NATS/1.0 -1\r\n\r\n",
    b"NATS/1.0 5000\r\n\r\n",
    b"NATS/1.0503\r\n\r\n",
    b"NATS/1.0\r\nBar\r\n\r\n",
    b"NATS/1.0\r\n: x\r\n\r\n",
    b"NATS/1.0\r\n\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\nA: b\n\n",
]


class TestReading:
    """Blocks that were received."""

    @pytest.mark.parametrize(("block", "status", "description", "items"), BLOCKS)
    def test_validBlock(
        self, block: bytes, status: int, description: str, items: list[tuple[str, str]]
    ) -> None:
        """Status, names and values are read in order, and the block stays unchanged."""
        headers = Headers.fromBlock(block)
        assert (headers.status, headers.description) == (status, description)
        assert headers.items() == list(headers) == items
        assert headers.block() == block
        assert len(headers) == len(items)

    @pytest.mark.parametrize("block", MALFORMED)
    def test_malformed(self, block: bytes) -> None:
        """A malformed block is refused when it is parsed; it can still be passed on."""
        headers = Headers.fromBlock(block)
        assert headers
        assert headers.block() == block
        for _ in range(2):
            with pytest.raises(HeaderError):
                headers.items()
        with pytest.raises(ValueError):
            assert headers.status

    def test_emptyBlock(self) -> None:
        """An empty block has no headers."""
        headers = Headers.fromBlock(b"")
        assert not headers
        assert (headers.items(), headers.status) == ([], 0)

    def test_bounded(self) -> None:
        """A block of too many headers is refused."""
        most = b"NATS/1.0\r\n" + b"a:\r\n" * MAX_HEADERS + b"\r\n"
        assert len(Headers.fromBlock(most)) == MAX_HEADERS
        with pytest.raises(HeaderError, match="too many"):
            len(Headers.fromBlock(most[:-2] + b"a:\r\n\r\n"))

    def test_lookUp(self) -> None:
        """Names are compared exactly, or in any case on request."""
        headers = Headers.fromBlock(b"NATS/1.0\r\na: 1\r\nA: 2\r\na: 3\r\n\r\n")
        assert (headers.get("a"), headers.get("A"), headers.get("b")) == ("1", "2", None)
        assert headers.get("b", "default") == "default"
        assert headers.getAll("a") == ["1", "3"]
        assert headers.getAll("A", anyCase=True) == ["1", "2", "3"]
        assert headers.get("A", anyCase=True) == "1"
        assert "A" in headers and "b" not in headers


class TestWriting:
    """Blocks that are made."""

    def test_encodedHeaders(self) -> None:
        """Headers are made from pairs or a mapping, with or without a status."""
        assert Headers().block() == b"NATS/1.0\r\n\r\n"
        assert Headers({"A": "b", "C": ""}).block() == b"NATS/1.0\r\nA: b\r\nC: \r\n\r\n"
        pairs = [("a", "1"), ("a", "2")]
        assert Headers(pairs).block() == b"NATS/1.0\r\na: 1\r\na: 2\r\n\r\n"
        assert Headers(status=503).block() == b"NATS/1.0 503\r\n\r\n"
        assert Headers(pairs[:1], 8, "Hi").block() == b"NATS/1.0 008 Hi\r\na: 1\r\n\r\n"

    def test_truth(self) -> None:
        """Headers are true if they have a header or a status."""
        assert not Headers()
        assert Headers({"a": ""})
        assert Headers(status=100)

    def test_changing(self) -> None:
        """Changed headers are written to the block, and the order of the others is kept."""
        headers = Headers.fromBlock(b"NATS/1.0 200\r\na:1\r\nb:2\r\na:3\r\n\r\n")
        headers.add("c", "4")
        assert headers.block() == b"NATS/1.0 200\r\na: 1\r\nb: 2\r\na: 3\r\nc: 4\r\n\r\n"
        headers.set("a", "x")
        assert headers.items() == [("a", "x"), ("b", "2"), ("c", "4")]
        headers.set("d", "5")
        headers.remove("b")
        headers.remove("nothing")
        assert headers.block() == b"NATS/1.0 200\r\na: x\r\nc: 4\r\nd: 5\r\n\r\n"

    @pytest.mark.parametrize("name", ["", "a b", "a:", "a\r", "a\n", "a\x00", "a\x7f", "\t"])
    def test_badNames(self, name: str) -> None:
        """A name that would break the block is refused, and nothing changes."""
        headers = Headers({"a": "b"})
        for change in (headers.add, headers.set):
            with pytest.raises(HeaderError):
                change(name, "x")
        with pytest.raises(HeaderError):
            Headers({name: "x"})
        assert headers.items() == [("a", "b")]

    @pytest.mark.parametrize("value", ["a\r\nb: c", "a\n", "\r"])
    def test_badValues(self, value: str) -> None:
        """A value with a line end is refused, so that no client can smuggle in another header."""
        with pytest.raises(HeaderError):
            Headers({"a": value})
        with pytest.raises(HeaderError):
            Headers(status=100, description=value)

    @pytest.mark.parametrize(("status", "description"), [(-1, ""), (1000, ""), (0, "why")])
    def test_badStatus(self, status: int, description: str) -> None:
        """A status has up to three digits, and a description needs a status."""
        with pytest.raises(HeaderError):
            Headers(status=status, description=description)

    def test_equality(self) -> None:
        """Headers are equal if their names, values and status are, whatever their spelling."""
        one = Headers.fromBlock(b"NATS/1.0 100\r\na:1\r\n\r\n")
        assert one == Headers([("a", "1")], 100)
        assert one != Headers([("a", "1")])
        assert one != Headers([("A", "1")], 100)
        assert one != b"NATS/1.0 100\r\na:1\r\n\r\n"
        with pytest.raises(TypeError):
            hash(one)

    def test_repr(self) -> None:
        """The representation shows the block."""
        assert repr(Headers({"a": "1"})) == "<Headers b'NATS/1.0\\r\\na: 1\\r\\n\\r\\n'>"


NAMES = st.text(
    st.characters(min_codepoint=0x21, exclude_characters=":\x7f", exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)
VALUES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.integers(0, 999))
def test_roundTrip(pairs: list[tuple[str, str]], status: int) -> None:
    """A written header is read unchanged, except for spaces around values."""
    headers = Headers.fromBlock(Headers(pairs, status).block())
    assert headers.items() == [(name, value.strip(" \t")) for name, value in pairs]
    assert headers.status == status


@given(
    st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=40).map(lambda b: b"NATS/1.0\r\n" + b + b"\r\n\r\n"),
    )
)
def test_anyBlock(block: bytes) -> None:
    """Any bytes give headers or a HeaderError, and are passed on unchanged."""
    headers = Headers.fromBlock(block)
    try:
        items = headers.items()
    except HeaderError:
        items = []
    assert headers.block() == (block or b"NATS/1.0\r\n\r\n")
    assert all(name for name, _ in items)
