"""
The JSON of INFO and CONNECT. That of CONNECT is read the way nats-server reads it: names are
matched without regard to case, the last of equal names counts, C{null} changes nothing, unknown
names are ignored, and a wrong type refuses the whole. Any input raises at most C{ValueError},
however deep or strange.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from natsbroker.wire.text import decoded, encoded, whole

#: Every option of a client's CONNECT with what holds while nothing was said. A client that never
#: sends CONNECT is verbose and pedantic (PROTOCOL part 2, rows 3 and 65).
DEFAULTS: Mapping[str, Any] = {
    "echo": True,
    "verbose": True,
    "pedantic": True,
    "tls_required": False,
    "nkey": "",
    "jwt": "",
    "sig": "",
    "auth_token": "",
    "user": "",
    "pass": "",
    "name": "",
    "lang": "",
    "version": "",
    "protocol": 0,
    "account": "",
    "new_account": False,
    "headers": False,
    "no_responders": False,
    "remote_account": "",
    "proxy_sig": "",
}

#: Options that only leafnodes use; a client may send them, as objects.
_OBJECTS = frozenset({"import", "export"})


def namesAccount(options: Mapping[str, Any]) -> bool:
    """Whether CONNECT chooses an account, which nats-server once allowed and now refuses."""
    return bool(options.get("account") or options.get("new_account"))


def parseJSON(text: bytes, makeObject: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON, with C{makeObject} for members of objects. C{ValueError} for any error."""
    try:
        return _decoderFor(makeObject).decode(whole(decoded(text)))
    except RecursionError:
        raise ValueError("nested too deeply") from None


@lru_cache(maxsize=8)
def _decoderFor(makeObject: Callable[[list[tuple[str, Any]]], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=makeObject)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Object(list[tuple[str, Any]]):
    pass


def parseConnect(text: bytes) -> dict[str, Any]:
    """
    @raise ValueError: for anything but a JSON object with options of the right types. nats-server
        then closes the connection in silence (PROTOCOL part 2, row 14).
    """
    pairs = parseJSON(text, _Object)
    if pairs is None:
        return {}
    if not isinstance(pairs, _Object):
        raise ValueError("not a JSON object")
    options: dict[str, Any] = {}
    for given, value in pairs:
        name = given if given in DEFAULTS else given.lower()
        kind = type(value)
        if kind is _SIMPLE.get(name):
            options[name] = value
        elif value is not None and (name in DEFAULTS or name in _OBJECTS):
            options[name] = _checked(name, value)
    return options


#: The types of options of which every value will do.
_SIMPLE = {name: type(value) for name, value in DEFAULTS.items() if type(value) is not int}


def _checked(name: str, value: Any) -> Any:
    if name in _OBJECTS:
        if not isinstance(value, _Object):
            raise ValueError(f"{name} must be an object")
        return dict(value)
    wanted = type(DEFAULTS[name])
    if type(value) is not wanted:
        raise ValueError(f"{name} must be a JSON {wanted.__name__}")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{name} is out of range")
    return value


def writeJSON(members: Mapping[str, Any]) -> bytes:
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    return encoded(text)


def writeText(text: str) -> bytes:
    """Text as a JSON string."""
    return encoded(_quoted(text))


_quoted = json.JSONEncoder(ensure_ascii=False).encode

_ALWAYS_IN_INFO = frozenset(
    {"server_id", "server_name", "version", "proto", "go", "host", "port", "headers", "max_payload"}
)


def infoLine(document: Mapping[str, Any], end: bytes = b" \r\n") -> bytes:
    """
    The INFO line. Members without a value are left out. It ends with a space, as in nats-server,
    except between gateways.
    """
    shown = {name: value for name, value in document.items() if value or name in _ALWAYS_IN_INFO}
    return b"INFO %b%b" % (writeJSON(shown), end)
