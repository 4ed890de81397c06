"""
A server's output as protocol frames, and expectations for single frames.

The joined frames are the received bytes. A failed expectation has the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

__all__ = ["AnyOrder", "Info", "Like", "OneOf", "Part", "splitFrames"]

_INFO_KEYS = """
server_id server_name version proto git_commit go host port headers auth_required tls_required
tls_verify tls_available max_payload jetstream ip client_id client_ip nonce cluster cluster_dynamic
domain connect_urls ws_connect_urls ldm connect_info remote_account acc_is_sys api_lvl xkey
"""
_INFO_REQUIRED = """
server_id server_name version proto go host port headers max_payload client_id client_ip
"""

#: The order in which a NATS server writes the keys of a client's INFO (observed: nats-server 2.15).
INFO_KEYS = tuple(_INFO_KEYS.split())

#: The keys that the client protocol document calls present always, and what every client gets.
INFO_REQUIRED = frozenset(_INFO_REQUIRED.split())


#: The operations that a payload follows, of servers to clients and to each other.
_MESSAGES = (b"MSG", b"HMSG", b"RMSG", b"LMSG")


def splitFrames(data: bytes) -> tuple[list[bytes], bytes]:
    """
    Cut a server's output into whole protocol frames.

    @return: the frames, payload and line ends included, and the bytes of an unfinished last one.
        Joined again they are C{data}.
    """
    frames = []
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        words = data[start:end].split()
        if words and words[0] in _MESSAGES and words[-1].isdigit():
            end += int(words[-1]) + 2
        if end > len(data):
            break
        frames.append(data[start:end])
        start = end
    return frames, data[start:]


@dataclass(frozen=True)
class Info:
    """
    An INFO line: one line, a space before its CRLF, keys in the server's order.

    @ivar fields: the values that it must have; a compiled pattern is matched against the text of
        the value, a type against the value's type, and anything else must be equal.
    @ivar absent: keys that it must not have.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    def complaint(self, frame: bytes) -> str | None:
        if not (frame.startswith(b"INFO {") and frame.endswith(b"} \r\n")):
            return "not framed as 'INFO {...} CRLF' with a space before the CRLF"
        values: dict[str, Any] = json.loads(frame[5:])
        known = [key for key in values if key in INFO_KEYS]
        if known != sorted(known, key=INFO_KEYS.index):
            return f"keys in another order: {known}"
        if missing := sorted(INFO_REQUIRED - values.keys()):
            return f"keys missing: {missing}"
        if extra := sorted(values.keys() & set(self.absent)):
            return f"keys that should be absent: {extra}"
        wrong = [key for key, want in self.fields.items() if not _fits(values.get(key), want)]
        return f"other values than {dict(self.fields)} for {wrong}" if wrong else None


def _fits(value: Any, want: Any) -> bool:
    if isinstance(want, re.Pattern):
        return value is not None and want.fullmatch(str(value)) is not None
    if isinstance(want, type):
        return type(value) is want
    return bool(value == want) and type(value) is type(want)


@dataclass(frozen=True)
class Like:
    """One frame that matches a regular expression as a whole (C{.} includes line ends)."""

    pattern: bytes

    def complaint(self, frame: bytes) -> str | None:
        if re.fullmatch(self.pattern, frame, re.DOTALL):
            return None
        return f"does not match {self.pattern!r}"


@dataclass(frozen=True, init=False)
class OneOf:
    """One of several frames, where the server may choose."""

    frames: tuple[bytes, ...]

    def __init__(self, *frames: bytes) -> None:
        object.__setattr__(self, "frames", frames)

    def complaint(self, frame: bytes) -> str | None:
        return None if frame in self.frames else f"is none of {self.frames!r}"


@dataclass(frozen=True, init=False)
class AnyOrder:
    """Frames that arrive together in any order: compared as a multiset."""

    frames: tuple[bytes | OneOf, ...]

    def __init__(self, *frames: bytes | OneOf) -> None:
        object.__setattr__(self, "frames", frames)

    def accepts(self, frames: Sequence[bytes]) -> bool:
        left = list(frames)
        choices = [frame for frame in self.frames if isinstance(frame, OneOf)]
        for wanted in self.frames:
            if isinstance(wanted, bytes):
                if wanted not in left:
                    return False
                left.remove(wanted)
        return any(
            all(frame in choice.frames for frame, choice in zip(order, choices, strict=True))
            for order in permutations(left)
        )


Part = bytes | Info | Like | OneOf | AnyOrder
