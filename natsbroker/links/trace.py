"""
The trace of a link's operations in the log, without passwords.
"""

from __future__ import annotations

from typing import Any

from twisted.logger import Logger

from natsbroker.connections.trace import redactedConnect
from natsbroker.errors import logText
from natsbroker.wire import ops

__all__ = ["traceCame", "traceSaid"]

_log = Logger(namespace="natsbroker.trace")

_WITH_PAYLOAD = frozenset({ops.RMSG, ops.HMSG, ops.LMSG, ops.MSG, ops.PUB})


def traceCame(link: str, frame: tuple[Any, ...], longest: int) -> None:
    """
    Log a received frame.

    @param longest: the bytes of a payload that are shown; 0 for all.
    """
    name = ops.NAMES.get(frame[0])
    if name is None:
        return
    rest = [part for part in frame[1:] if isinstance(part, bytes) and part]
    if frame[0] == ops.CONNECT:
        rest = [redactedConnect(rest[0]).encode()] if rest else []
    elif frame[0] in _WITH_PAYLOAD and longest:
        rest = [part[:longest] for part in rest]
    _trace(link, "<<-", b" ".join([name, *rest]))


def traceSaid(link: str, line: bytes) -> None:
    """
    Log a line that is sent.
    """
    _trace(link, "->>", line.rstrip())


def _trace(link: str, arrow: str, text: bytes) -> None:
    _log.debug("{link} - {arrow} [{text}]", link=link, arrow=arrow, text=logText(text), trace=True)
