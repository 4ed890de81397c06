"""
The functions of transforms' destinations (L{natsbroker.subjects.transforms}). A call is checked
when it is compiled. Applying it never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: As C{random.Random().randrange}: a number from 0 to below the argument.
RandRange = Callable[[int], int]

#: Makes one token, or several joined by full stops, of a subject's tokens.
Part = Callable[[list[bytes], RandRange], bytes]

#: The name of a function, or empty for a literal token, and what it makes.
Call = tuple[str, Part]

_NUMBER = re.compile(rb"[+-]?[0-9]+")
_LARGEST = 2**31 - 1
_MOST_DIGITS = 20

_UNKNOWN_FUNCTION = "unknown function"
_OUT_OF_RANGE = "wildcard index out of range"
_TOO_FEW = "not enough arguments passed to the function"
_TOO_MANY = "too many arguments passed to the function"
_BAD_ARGUMENT = "function argument is invalid or in the wrong format"


class InvalidMapping(ValueError):
    """C{reason} is in nats-server's words."""

    def __init__(self, reason: str, token: bytes = b"") -> None:
        self.reason = reason
        self.token = token
        super().__init__(f"{reason} in {_shown(token)}" if token else reason)

    @classmethod
    def ofDestination(cls, reason: str, token: bytes) -> InvalidMapping:
        return cls(f"invalid mapping destination: {reason}", token)


def _shown(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")


def partitionOf(key: bytes, partitions: int) -> int:
    """The partition, from 0, by 32-bit FNV-1a; 0 without partitions."""
    digest = 0x811C9DC5
    for byte in key:
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return digest % partitions if partitions else 0


def _number(text: bytes, token: bytes) -> int:
    text = text.strip(b" ")
    if _NUMBER.fullmatch(text) and len(text) <= _MOST_DIGITS and abs(int(text)) <= _LARGEST:
        return int(text)
    raise InvalidMapping.ofDestination(_BAD_ARGUMENT, token)


def _count(text: bytes, token: bytes) -> int:
    count = _number(text, token)
    if count < 0:
        raise InvalidMapping.ofDestination(_BAD_ARGUMENT, token)
    return count


def _cutInTwo(piece: bytes, place: int) -> bytes:
    """A piece with a full stop put in, if the place is inside the piece."""
    return piece[:place] + b"." + piece[place:] if 0 < place < len(piece) else piece


def _slices(piece: bytes, first: int, size: int) -> bytes:
    """Slices of a token. C{first} is the length of the first one; 0 for the common size."""
    if not 0 < size < len(piece):
        return piece
    cuts = range(first, len(piece), size)
    slices = [piece[cut : cut + size] for cut in cuts]
    return b".".join([piece[:first], *slices] if first else slices)


#: The functions of a token and a number of bytes.
_CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitFromLeft": lambda piece, n: _cutInTwo(piece, n),
    "splitFromRight": lambda piece, n: _cutInTwo(piece, len(piece) - n) if n > 0 else piece,
    "sliceFromLeft": lambda piece, n: _slices(piece, 0, n),
    "sliceFromRight": lambda piece, n: _slices(piece, len(piece) % n if n > 0 else 0, n),
    "left": lambda piece, n: piece[:n] if n > 0 else piece,
    "right": lambda piece, n: piece[-n:] if n > 0 else piece,
}


class Wildcards:
    """The places of a source's C{*}. C{isLiteral} if the source has no wildcard at all."""

    __slots__ = ("isLiteral", "places", "used")

    def __init__(self, source: bytes) -> None:
        tokens = source.split(b".")
        self.places = [place for place, token in enumerate(tokens) if token == b"*"]
        self.isLiteral = not self.places and tokens[-1] != b">"
        self.used: set[int] = set()

    def placeOf(self, text: bytes, token: bytes) -> int:
        """The place of the token for the C{*} with a number, from 1."""
        number = _number(text, token)
        if not 1 <= number <= len(self.places):
            where = token if self.isLiteral else b"%b: [%d]" % (token, number)
            raise InvalidMapping.ofDestination(_OUT_OF_RANGE, where)
        self.used.add(number)
        return self.places[number - 1]

    def placeAndOther(self, arguments: list[bytes], token: bytes) -> int:
        if len(arguments) != 2:
            reason = _TOO_FEW if len(arguments) < 2 else _TOO_MANY
            raise InvalidMapping.ofDestination(reason, token)
        return self.placeOf(arguments[0], token)


#: Compiles the arguments of a function in a token.
_Compiler = Callable[[list[bytes], Wildcards, bytes], Part]


def _wildcard(arguments: list[bytes], wildcards: Wildcards, token: bytes) -> Part:
    if arguments == [b""]:
        raise InvalidMapping.ofDestination(_TOO_FEW, token)
    if len(arguments) > 1:
        raise InvalidMapping.ofDestination(_TOO_MANY, token)
    place = wildcards.placeOf(arguments[0], token)
    return lambda tokens, randrange: tokens[place]


def _partition(arguments: list[bytes], wildcards: Wildcards, token: bytes) -> Part:
    partitions = _count(arguments[0], token)
    chosen = [_number(argument, token) for argument in arguments[1:]]
    if wildcards.isLiteral or not chosen:
        # A literal source has no wildcards to choose from.
        return lambda tokens, randrange: b"%d" % partitionOf(b".".join(tokens), partitions)
    places = [wildcards.placeOf(b"%d" % number, token) for number in chosen]
    return lambda tokens, randrange: (
        b"%d" % partitionOf(b"".join([tokens[place] for place in places]), partitions)
    )


def _random(arguments: list[bytes], wildcards: Wildcards, token: bytes) -> Part:
    if len(arguments) != 1:
        raise InvalidMapping.ofDestination(_TOO_FEW, token)
    limit = _count(arguments[0], token)
    return lambda tokens, randrange: b"%d" % (randrange(limit) if limit else 0)


def _split(arguments: list[bytes], wildcards: Wildcards, token: bytes) -> Part:
    place = wildcards.placeAndOther(arguments, token)
    separator = arguments[1]
    if not separator or b" " in separator:
        raise InvalidMapping.ofDestination(_BAD_ARGUMENT, token)
    return lambda tokens, randrange: b".".join(filter(None, tokens[place].split(separator)))


def _cutting(cut: Callable[[bytes, int], bytes]) -> _Compiler:
    def compileCut(arguments: list[bytes], wildcards: Wildcards, token: bytes) -> Part:
        place = wildcards.placeAndOther(arguments, token)
        size = _number(arguments[1], token)
        return lambda tokens, randrange: cut(tokens[place], size)

    return compileCut


_COMPILERS: dict[str, _Compiler] = {
    "wildcard": _wildcard,
    "partition": _partition,
    "random": _random,
    "split": _split,
    **{name: _cutting(cut) for name, cut in _CUTS.items()},
}


def _spellings(name: str) -> str:
    """A pattern for a name, any word of which may be capitalised."""
    return re.sub(r"^.|[A-Z]", lambda match: f"[{match[0].lower()}{match[0].upper()}]", name)


_CALLS = {
    name: re.compile(rf"\{{\{{\s*{_spellings(name)}\s*\((.*)\)\s*\}}\}}".encode(), re.DOTALL)
    for name in _COMPILERS
}

_WILDCARD_CALL = _CALLS["wildcard"]


def isCall(token: bytes) -> bool:
    return len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")


def wildcardNumber(token: bytes) -> int | None:
    """The number, from 1, of the source's C{*} that a destination token stands for, or C{None}."""
    match = _WILDCARD_CALL.fullmatch(token)
    number = match[1] if match is not None else token[1:] if token[:1] == b"$" else b""
    number = number.strip(b" ")
    if not _NUMBER.fullmatch(number) or len(number) > _MOST_DIGITS:
        return None
    return int(number) if int(number) > 0 else None


def compileToken(token: bytes, wildcards: Wildcards) -> Call:
    """Compile a destination token. L{InvalidMapping} if it is a wrong call."""
    if token[:1] == b"$" and _NUMBER.fullmatch(token, 1):
        return "wildcard", _wildcard([token[1:]], wildcards, token)
    if not isCall(token):
        return "", lambda tokens, randrange: token
    for name, call in _CALLS.items():
        match = call.fullmatch(token)
        if match is not None:
            return name, _COMPILERS[name](re.split(rb",\s*", match[1]), wildcards, token)
    raise InvalidMapping.ofDestination(_UNKNOWN_FUNCTION, token)
