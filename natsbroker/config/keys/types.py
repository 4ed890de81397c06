"""
The types of keys and their values, and the rows and blocks that several blocks have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from natsbroker.config.addresses import splitAddress, workerCount
from natsbroker.config.errors import OPEN
from natsbroker.config.language.tree import ArrayNode, Node, ScalarNode, TableNode
from natsbroker.wire.durations import DURATION_PATTERN, secondsFrom


@dataclass(frozen=True)
class ValueType:
    """
    @ivar name: with its article, for errors and the reference manual.
    @ivar kinds: the types of its values in a file; L{TableNode} for a map.
    @ivar convert: makes the value; raises C{ValueError} with what is wrong.
    @ivar only: the pattern of the text that it is, where it is a single word.
    @ivar pattern: of the text that C{convert} takes, for the JSON schema.
    """

    name: str
    kinds: tuple[type, ...]
    convert: Callable[[Any], object] = lambda value: value
    only: str = ""
    pattern: str = ""

    def takes(self, node: Node) -> bool:
        value = node.value if isinstance(node, ScalarNode) else node
        return type(value) in self.kinds and (
            not self.only or re.fullmatch(self.only, str(value)) is not None
        )

    def read(self, node: Node) -> object:
        return self.convert(plain(node))


class SecondsType(ValueType):
    """
    A duration as a bare number. A size makes it long: C{2m} is no two minutes but two million.
    """

    def read(self, node: Node) -> object:
        seconds = super().read(node)
        sized = node.sized if isinstance(node, ScalarNode) else ""
        if sized and isinstance(seconds, float) and abs(seconds) > _DAY:
            raise ValueError(
                f"{sized} without quotes is {seconds:.0f} seconds; "
                'durations are written in quotes, as in "2m"'
            )
        return seconds


_DAY = 86_400.0


class BlockSchema:
    """
    @ivar title: the path of the block, with C{*} for names and C{[]} for items of an array; the
        manual's heading.
    @ivar opener: other keys are allowed, and kept, in a block that has this key.
    @ivar variables: an unknown key is allowed when a C{$reference} uses it.
    """

    name = "a map"
    variables = True

    def __init__(self, title: str, opener: str = "", /, **keys: Key) -> None:
        self.title = title
        self.keys = keys
        self.opener = opener
        self._names = {
            spelling: name for name, key in keys.items() for spelling in (name, *key.aliases)
        }

    @property
    def names(self) -> Iterable[str]:
        """All spellings of the keys."""
        return self._names

    def canonical(self, spelling: str) -> str | None:
        return self._names.get(spelling.lower())

    def takes(self, node: Node) -> bool:
        return isinstance(node, TableNode)

    def but(self, **keys: Key) -> BlockSchema:
        """
        @return: a copy of the block for another place, with some keys that differ.
        """
        return type(self)(self.title, self.opener, **{**self.keys, **keys})


class StrictBlock(BlockSchema):
    variables = False


@dataclass(frozen=True)
class ListType:
    item: Key
    name: str = "an array"

    def takes(self, node: Node) -> bool:
        return isinstance(node, ArrayNode)


@dataclass(frozen=True)
class MapType:
    item: Key
    variables: bool = False
    name: str = "a map"

    def takes(self, node: Node) -> bool:
        return isinstance(node, TableNode)


AnyType = ValueType | BlockSchema | ListType | MapType


class Unsupported:
    """
    @ivar off: values that switch it off, and so are accepted.
    """

    __slots__ = ("feature", "off")

    def __init__(self, feature: str, *off: object) -> None:
        self.feature = feature
        self.off = off

    def accepts(self, value: object) -> bool:
        return any(type(value) is type(off) and value == off for off in self.off)

    def __str__(self) -> str:
        return f"not supported yet ({self.feature})"


class Key:
    """
    @ivar types: of its value; the first that takes a node reads it.
    @ivar check: gets a value that was read and returns the one to use; raises C{ValueError} with
        nats-server's words for one that is out of range.
    @ivar unsupported: the feature that it asks for, if that is not built.
    @ivar restart: nats-server's name of the option, if a reload cannot change it.
    @ivar field: its attribute of the settings, dotted, where that is not its path; the last name is
        that of the frozen block's field.
    """

    __slots__ = ("aliases", "check", "field", "isSecret", "restart", "types", "unsupported")

    def __init__(
        self,
        *types: AnyType,
        aliases: str = "",
        check: Callable[[Any], object] | None = None,
        unsupported: Unsupported | None = None,
        restart: str = "",
        field: str = "",
        isSecret: bool = False,
    ) -> None:
        self.types = types
        self.aliases = tuple(aliases.split())
        self.check = check
        self.unsupported = unsupported
        self.restart = restart
        self.field = field
        self.isSecret = isSecret

    @property
    def typeNames(self) -> str:
        return " or ".join(type_.name for type_ in self.types)

    @property
    def attribute(self) -> str:
        return self.field.rpartition(".")[2]


def plain(node: Node) -> object:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ArrayNode):
        return [plain(item) for item in node.items]
    return {entry.key: plain(entry.node) for entry in node}


def _seconds(value: str | float) -> float:
    return secondsFrom(value) if isinstance(value, str) else float(value)


def _address(value: str | int) -> tuple[str, int]:
    return splitAddress(value) if isinstance(value, str) else ("", value)


_SIZE = "(?:(-?[0-9]{1,18})([KMGT]))?"


def _size(value: str | int) -> int:
    if isinstance(value, int):
        return value
    match = re.fullmatch(_SIZE, value)
    if match is None:
        raise ValueError("sizes written as strings must end in K, M, G or T")
    return int(match[1]) << " KMGT".index(match[2]) * 10 if value else 0


def _anyCase(word: str) -> str:
    """
    @return: a pattern without flags, which those of JSON schemas do not have.
    """
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


_ENABLED = "(?:{}|{})[Dd]?".format(*map(_anyCase, ("enable", "disable")))


def _enabled(value: str) -> bool:
    word = value.lower()
    if re.fullmatch(_ENABLED, value) is None:
        raise ValueError(f"Expected 'enabled' or 'disabled' for string value, got '{word}'")
    return word.startswith("enable")


def _policy(value: str) -> str:
    if value not in ("default", "close", "retry"):
        raise ValueError("must be 'default', 'close' or 'retry'")
    return value


_PERCENTAGE = "([0-9]{1,3})%?"


def _percentage(value: str | int) -> int:
    match = re.fullmatch(_PERCENTAGE, str(value))
    if match is None or int(match[1]) > 100:
        raise ValueError(f'"{value}" is not a percentage')
    return int(match[1])


BOOLEAN = ValueType("a boolean", (bool,))
INTEGER = ValueType("an integer", (int,))
STRING = ValueType("a string", (str,))
DURATION = ValueType("a duration", (str,), _seconds, pattern=DURATION_PATTERN)
OLD_DURATION = SecondsType("an integer of seconds", (int,), _seconds)
SECONDS = SecondsType("a number of seconds", (int, float), _seconds)
ADDRESS = ValueType("a port or host:port", (int, str), _address)
SIZE = ValueType("a size", (int, str), _size, pattern=_SIZE)
PERCENTAGE = ValueType("a percentage", (int, str), _percentage, pattern=_PERCENTAGE)
ENABLED = ValueType('"enabled" or "disabled"', (str,), _enabled, pattern=_ENABLED)
ALWAYS = ValueType('"always"', (str,), only=_anyCase("always"))
WORKERS = ValueType('an integer or "auto"', (int, str), workerCount, pattern="auto")
WRITE_POLICY = ValueType("a string", (str,), _policy)
HEADERS = ValueType('"headers"', (str,), lambda text: "headers", rf"\s*{_anyCase('headers')}\s*")
ANY_MAP = ValueType("a map", (TableNode,))


def natural(value: Any) -> Any:
    if value < 0:
        raise ValueError("value can not be negative")
    return value


def unsigned(value: Any) -> Any:
    if value < 0:
        raise ValueError("is negative")
    return value


def filled(text: str) -> str:
    """Refuse an empty text of a login: an empty variable must not open a listener."""
    if not text:
        raise ValueError(OPEN)
    return text


def sizeOf32Bits(value: int) -> int:
    if natural(value) >= 1 << 31:
        raise ValueError("value is too big")
    return value


def arrayOf(schema: BlockSchema) -> ListType:
    return ListType(Key(schema), "an array of maps")


TIME = Key(DURATION, OLD_DURATION)
"""A duration that may still be a bare number of seconds, for which there is a warning."""

WAIT = Key(SECONDS, DURATION)
"""Seconds, with a fraction or not, or a duration; no warning."""

NATURAL = Key(INTEGER, check=natural)
NATURAL_TIME = Key(*TIME.types, check=natural)
NATURAL_WAIT = Key(*WAIT.types, check=natural)

SECRET = Key(STRING, isSecret=True)
PROXY_REQUIRED = Key(BOOLEAN)

STRINGS = ListType(Key(STRING), "an array of strings")
LIST = Key(STRING, STRINGS)
"""A string or an array of strings."""

NETWORK = {"listen": Key(ADDRESS), "host": Key(STRING, aliases="net"), "port": Key(INTEGER)}
"""Where a listener binds."""

OCSP_PEER = BlockSchema(
    "tls.ocsp_peer",
    verify=Key(BOOLEAN),
    allowed_clockskew=WAIT,
    ca_timeout=WAIT,
    cache_ttl_when_next_update_unset=WAIT,
    warn_only=Key(BOOLEAN),
    unknown_is_good=Key(BOOLEAN),
    allow_when_ca_unreachable=Key(BOOLEAN),
)

CERTIFICATE = StrictBlock("tls.certs[]", cert_file=Key(STRING), key_file=Key(STRING))

_STORE = Unsupported("certificate stores")

TLS_SECTION = StrictBlock(
    "tls",
    cert_file=Key(STRING),
    key_file=Key(STRING),
    ca_file=Key(STRING),
    certs=Key(arrayOf(CERTIFICATE), aliases="certificates"),
    verify=Key(BOOLEAN),
    verify_and_map=Key(BOOLEAN),
    verify_cert_and_check_known_urls=Key(BOOLEAN),
    insecure=Key(BOOLEAN),
    timeout=Key(*WAIT.types, check=unsigned),
    min_version=Key(STRING),
    cipher_suites=Key(STRINGS),
    allow_insecure_cipher_suites=Key(BOOLEAN),
    curve_preferences=Key(STRINGS),
    pinned_certs=Key(STRINGS),
    connection_rate_limit=Key(INTEGER),
    handshake_first=Key(BOOLEAN, STRING, aliases="first immediate"),
    ocsp_peer=Key(BOOLEAN, OCSP_PEER),
    cert_store=Key(STRING, unsupported=_STORE),
    cert_match_by=Key(STRING, unsupported=_STORE),
    cert_match=Key(STRING, unsupported=_STORE),
    cert_match_skip_invalid=Key(BOOLEAN, unsupported=_STORE),
    ca_certs_match=Key(STRING, STRINGS, unsupported=_STORE),
)
TLS_KEY = Key(TLS_SECTION)

DIRECTION = BlockSchema("permissions.publish", allow=LIST, deny=LIST)

RESPONSES = BlockSchema(
    "permissions.allow_responses",
    max=Key(INTEGER, aliases="max_msgs max_messages max_responses"),
    expires=Key(DURATION, aliases="expiration ttl"),
)

PERMISSIONS = BlockSchema(
    "permissions",
    publish=Key(STRING, STRINGS, DIRECTION, aliases="pub import"),
    subscribe=Key(STRING, STRINGS, DIRECTION, aliases="sub export"),
    allow_responses=Key(BOOLEAN, RESPONSES, aliases="publish_allow_responses"),
)

LOGIN = {
    "user": Key(STRING, aliases="username"),
    "pass": Key(STRING, aliases="password", isSecret=True, field="password"),
}
"""The name and the password of one of many."""

SINGLE_LOGIN = {
    "user": Key(STRING, aliases="username", check=filled),
    "pass": Key(STRING, aliases="password", check=filled, isSecret=True, field="password"),
}
"""Those of everybody who connects."""

COMPRESSION_MODE = BlockSchema(
    "compression",
    mode=Key(STRING),
    rtt_thresholds=Key(
        ListType(Key(DURATION), "an array of durations"), aliases="thresholds rtts rtt"
    ),
)
COMPRESSION = Key(STRING, BOOLEAN, COMPRESSION_MODE)

WRITING = {
    "write_deadline": NATURAL_TIME,
    "write_timeout": Key(
        WRITE_POLICY, unsupported=Unsupported("write timeout policies", "default")
    ),
}
"""The time for which a listener waits for slow readers."""
