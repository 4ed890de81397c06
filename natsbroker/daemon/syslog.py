"""
The log to a syslog daemon, in the format of Go's C{log/syslog}, as in nats-server. A thread sends
the lines, because a daemon behind TCP may stop reading.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import datetime
from queue import Full, Queue
from threading import Thread
from typing import Any

from natsbroker.config.addresses import syslogAddress
from natsbroker.config.model import LOCAL_SYSLOG
from natsbroker.errors import BrokerError

PRIORITIES = {"FTL": 2, "ERR": 3, "WRN": 4, "INF": 5, "TRC": 5, "DBG": 7}
"""The label of a line -> its severity, which is nats-server's for syslog."""

_DAEMON = 3 << 3
"""The facility of lines for the local daemon. Those for a remote one have 0, as nats-server's."""

_PLACES = ("/dev/log", "/var/run/syslog", "/var/run/log")

_MOST = 10_000
"""Lines that wait at the most; further ones are dropped and counted."""

_TIMEOUT = 2.0
"""Seconds to connect, to send a line, and to send what is left at the end."""


class SyslogError(BrokerError):
    """There is no syslog daemon at the place of the settings."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"error connecting to syslog: {(error.strerror or str(error)).lower()}")


class SyslogOutput:
    def __init__(self, url: str, now: Callable[[], float] = time.time) -> None:
        """Raise L{SyslogError} if it cannot be reached."""
        self.url = url
        self._now = now
        self._tag = os.path.basename(sys.argv[0]) or "natsbroker"
        self._lines: Queue[bytes | None] = Queue(_MOST)
        self._dropped = 0
        self._thread: Thread | None = None
        self._pid = 0
        try:
            self._socket: socket.socket | None = _connected(url)
        except OSError as error:
            raise SyslogError(error) from None

    def write(self, label: str, line: str) -> None:
        if self._dropped and not self._lines.full():
            dropped, self._dropped = self._dropped, 0
            self._put("WRN", f"{dropped} lines were dropped: the syslog daemon is too slow")
        self._put(label, line)

    def _put(self, label: str, line: str) -> None:
        # twistd forks after the connection to the daemon is made, and threads do not survive a
        # fork.
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._thread = Thread(target=self._send, name="syslog", daemon=True)
            self._thread.start()
        try:
            self._lines.put_nowait(self._framed(PRIORITIES[label], line))
        except Full:
            self._dropped += 1

    def _framed(self, priority: int, line: str) -> bytes:
        when = datetime.fromtimestamp(self._now()).astimezone()
        if self.url == LOCAL_SYSLOG or self.url.startswith("unix:"):
            stamp = f"{when:%b} {when.day:2} {when:%H:%M:%S}"
        else:
            stamp = f"{_go(when)} {socket.gethostname()}"
        facility = _DAEMON if self.url == LOCAL_SYSLOG else 0
        text = f"<{facility | priority}>{stamp} {self._tag}[{self._pid}]: {line}\n"
        return text.encode("ascii", "backslashreplace")

    def _send(self) -> None:
        while (line := self._lines.get()) is not None:
            # As in Go's writer: after a broken connection, the line is sent once more over a new
            # one.
            if not self._sent(line):
                self._reconnect()
                self._sent(line)
        if self._socket is not None:
            self._socket.close()

    def _sent(self, line: bytes) -> bool:
        if self._socket is None:
            return False
        try:
            self._socket.sendall(line)
        except OSError:
            self._socket.close()
            self._socket = None
        return self._socket is not None

    def _reconnect(self) -> None:
        try:
            self._socket = _connected(self.url)
        except OSError:
            # A log of this failure would be sent the same way. The next line tries to connect
            # again.
            self._socket = None

    def close(self) -> None:
        """Send what waits, for a short time."""
        if self._thread is not None and self._pid == os.getpid():
            try:
                self._lines.put(None, timeout=_TIMEOUT)
            except Full:
                return
            self._thread.join(_TIMEOUT)
        elif self._socket is not None:
            self._socket.close()


def _go(when: datetime) -> str:
    text = when.isoformat(timespec="seconds")
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _connected(url: str) -> socket.socket:
    if url == LOCAL_SYSLOG:
        return _local()
    network, address = syslogAddress(url)
    if isinstance(address, str):
        return _opened(socket.AF_UNIX, socket.SOCK_STREAM, address)
    if network == "tcp":
        return socket.create_connection(address, _TIMEOUT)
    family, kind, _, _, place = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
    return _opened(family, kind, place)


def _local() -> socket.socket:
    for path in _PLACES:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            try:
                return _opened(socket.AF_UNIX, kind, path)
            except OSError:
                continue
    raise OSError("no syslog daemon on this machine")


def _opened(family: int, kind: int, place: Any) -> socket.socket:
    opened = socket.socket(family, kind)
    opened.settimeout(_TIMEOUT)
    try:
        opened.connect(place)
    except OSError:
        opened.close()
        raise
    return opened
