"""
NATS/1.0 header blocks, which are between the control line of HPUB or HMSG and the payload::

    NATS/1.0[ status[ description]] CRLF
    *( name ":" *blank value CRLF )
    CRLF

Order, case and duplicates are kept. An unchanged block is written as it was read. Nothing is parsed
before the first access. Any input raises at most C{ValueError}, and the memory for a block is a
small multiple of its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

#: The beginning of every block.
VERSION = b"NATS/1.0"

#: The most headers of a block; more are not read.
MAX_HEADERS = 10_000

#: The arguments from which headers can be made.
Pairs = Mapping[str, str] | Iterable[tuple[str, str]]

_END = b"\r\n"


class HeaderError(ValueError):
    pass


class Headers:
    """
    The headers of one message, an ordered multi-map.

    Names are compared as they are, as NATS clients do: C{Foo} and C{foo} are two headers. With
    C{anyCase=True} look-ups disregard case.

    @ivar status: the status code of a block such as C{NATS/1.0 503}; 0 without.
    @ivar description: the text behind the status.
    """

    __slots__ = ("_block", "_pairs", "_status")

    def __init__(self, pairs: Pairs = (), status: int = 0, description: str = "") -> None:
        """
        C{status} has up to three digits, 0 for none. L{HeaderError} for headers that cannot be
        written.
        """
        self._block: bytes | None = None
        self._status: tuple[int, str] = _checkedStatus(status, description)
        items = pairs.items() if isinstance(pairs, Mapping) else pairs
        self._pairs: list[tuple[str, str]] | None = [_checked(*pair) for pair in items]

    @classmethod
    def fromBlock(cls, block: bytes) -> Headers:
        """
        Headers from a block with its empty line, or from none. The block is checked at the first
        access.
        """
        headers = cls()
        if block:
            headers._block = block
            headers._pairs = None
        return headers

    def block(self) -> bytes:
        if self._block is None:
            self._block = _written(self._status, self._pairs or [])
        return self._block

    def _read(self) -> list[tuple[str, str]]:
        if self._pairs is None:
            self._status, self._pairs = _parsed(self._block or b"")
        return self._pairs

    def _change(self) -> list[tuple[str, str]]:
        pairs = self._read()
        self._block = None
        return pairs

    @property
    def status(self) -> int:
        self._read()
        return self._status[0]

    @property
    def description(self) -> str:
        self._read()
        return self._status[1]

    def get(self, name: str, default: str | None = None, anyCase: bool = False) -> str | None:
        for value in self._valuesOf(name, anyCase):
            return value
        return default

    def getAll(self, name: str, anyCase: bool = False) -> list[str]:
        return list(self._valuesOf(name, anyCase))

    def _valuesOf(self, name: str, anyCase: bool) -> Iterator[str]:
        wanted = name.lower() if anyCase else name
        for key, value in self._read():
            if (key.lower() if anyCase else key) == wanted:
                yield value

    def add(self, name: str, value: str) -> None:
        """Append a header, even if there is one of that name."""
        pair = _checked(name, value)
        self._change().append(pair)

    def set(self, name: str, value: str) -> None:
        """Set the only header of that name: in the place of the first one, or at the end."""
        pair = _checked(name, value)
        pairs = self._change()
        places = [place for place, (key, _) in enumerate(pairs) if key == name]
        if not places:
            pairs.append(pair)
            return
        pairs[places[0]] = pair
        for place in reversed(places[1:]):
            del pairs[place]

    def remove(self, name: str) -> None:
        pairs = self._change()
        pairs[:] = [pair for pair in pairs if pair[0] != name]

    def items(self) -> list[tuple[str, str]]:
        return list(self._read())

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self._read())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items())

    def __len__(self) -> int:
        return len(self._read())

    def __bool__(self) -> bool:
        return bool(self._block or self._pairs or self._status[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return (self._read(), self._status) == (other._read(), other._status)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Headers {self.block()!r}>"


def _checked(name: str, value: str) -> tuple[str, str]:
    if not name or any(
        character <= " " or character == ":" or character == "\x7f" for character in name
    ):
        raise HeaderError(f"not the name of a header: {name!r}")
    if "\r" in value or "\n" in value:
        raise HeaderError(f"not the value of a header: {value!r}")
    return name, value


def _checkedStatus(status: int, description: str) -> tuple[int, str]:
    if not 0 <= status <= 999:
        raise HeaderError(f"not a status: {status}")
    if "\r" in description or "\n" in description or (description and not status):
        raise HeaderError(f"not the description of a status: {description!r}")
    return status, description.strip()


def _written(status: tuple[int, str], pairs: list[tuple[str, str]]) -> bytes:
    first = VERSION
    code, description = status
    if code:
        first += b" %03d" % code
        if description:
            first += b" " + _encoded(description)
    lines = [first, *(b"%b: %b" % (_encoded(name), _encoded(value)) for name, value in pairs)]
    return _END.join(lines) + _END + _END


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _parsed(block: bytes) -> tuple[tuple[int, str], list[tuple[str, str]]]:
    if not block.startswith(VERSION) or not block.endswith(_END + _END):
        raise HeaderError("not a NATS/1.0 header block")
    if block.count(_END) > MAX_HEADERS + 2:
        raise HeaderError("too many headers")
    first, *lines = block[: -2 * len(_END)].split(_END)
    return _parsedStatus(first[len(VERSION) :]), [_parsedLine(line) for line in lines]


def _parsedStatus(text: bytes) -> tuple[int, str]:
    if not text.strip(b" \t"):
        return 0, ""
    code, _, description = text.lstrip(b" \t").partition(b" ")
    if not text[:1].isspace() or len(code) > 3 or not code.isdigit():
        raise HeaderError(f"not a status line: {VERSION + text[:80]!r}")
    return int(code), _decoded(description.strip(b" \t"))


def _parsedLine(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    if not colon or not name:
        raise HeaderError(f"not a header: {line[:80]!r}")
    return _decoded(name), _decoded(value.strip(b" \t"))
