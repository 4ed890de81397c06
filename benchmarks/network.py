"""
The network that is measured over: which congestion control it has, and a loopback of our own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

__all__ = ["PACED", "NotIsolated", "congestionControl", "isolate"]

CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")

PACED = frozenset({"bbr"})
"""Congestion controls that hold back what is sent, also where there is no congestion."""

FAIR = "reno"
"""The congestion control that every kernel has, and that never waits on a loopback."""

_NEW_NETWORK = 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1


class NotIsolated(Exception):
    """
    There is no network of our own; the message says why.
    """


def congestionControl() -> str:
    """
    @return: what TCP connections that begin now will have; C{unknown} where Linux does not say.
    """
    try:
        return CONTROL.read_text("ascii").strip()
    except OSError:
        return "unknown"


def isolate() -> None:
    """
    Move this process into a network of its own, with nothing but a loopback that is not paced.
    To be called while there is one thread.

    @raise NotIsolated: if that is not allowed here.
    """
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    if unshare is None:
        raise NotIsolated("--isolated needs Linux")
    if unshare(_NEW_NETWORK) != 0:
        why = os.strerror(ctypes.get_errno())
        raise NotIsolated(f"--isolated: no network of our own ({why}): it takes root")
    try:
        _raiseLoopback()
        CONTROL.write_text(f"{FAIR}\n", "ascii")
    except OSError as error:
        raise NotIsolated(f"--isolated: {error}") from error


def _raiseLoopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(asking, _GET_FLAGS, request), 16)
        fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
