"""
Notifications for systemd's C{Type=notify}: the broker is ready, reads its configuration again, or
stops. Nothing is sent without C{NOTIFY_SOCKET}.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence

from twisted.application.service import Service
from twisted.logger import Logger
from zope.interface import implementer

from natsbroker.advisories import Advisory, LameDuckStarted
from natsbroker.broker import Broker
from natsbroker.interfaces import IObserver

_log = Logger(namespace="natsbroker")

_READY = "READY=1"
_STOPPING = "STOPPING=1"


@implementer(IObserver)
class ServiceManager(Service):
    name = "service-manager"

    def __init__(
        self,
        broker: Broker,
        reload: Callable[[], Sequence[str]],
        environment: Mapping[str, str],
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """
        @param reload: gives the problems that prevent it.
        @param environment: C{NOTIFY_SOCKET} is a path, or an abstract name after C{@}.
        @param monotonic: in nanoseconds.
        """
        self._broker = broker
        self._reload = reload
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._monotonic = monotonic
        self._isReady = False
        broker.observe(self)
        broker.useReload(self.reload)

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._broker.whenReady().addCallbacks(lambda _: self._ready(), lambda failure: None)

    def _ready(self) -> None:
        self._isReady = True
        self._notify(_READY)

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        self._stopping()

    def observe(self, advisory: Advisory) -> None:
        if isinstance(advisory, LameDuckStarted):
            self._stopping()

    def _stopping(self) -> None:
        self._isReady = False
        self._notify(_STOPPING)

    def reload(self) -> Sequence[str]:
        if not self._isReady:
            return self._reload()
        self._notify("RELOADING=1", f"MONOTONIC_USEC={self._monotonic() // 1000}")
        try:
            return self._reload()
        finally:
            self._notify(_READY)

    def _notify(self, *assignments: str) -> None:
        if not self._address:
            return
        name = self._address
        address = f"\0{name[1:]}" if name.startswith("@") else name
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                # A manager that reads nothing must not stop the broker.
                sender.setblocking(False)
                sender.sendto("\n".join(assignments).encode("ascii"), address)
        except OSError as error:
            _log.error(
                "Could not notify the service manager at {name}: {why}",
                name=name,
                why=(error.strerror or str(error)).lower(),
            )
