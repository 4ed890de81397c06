"""The service of the monitoring pages, which starts before the first client and stops last."""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from natsbroker.config.model import Settings
from natsbroker.connections.listener import Opened, PortListener, addressEndpoint, describe
from natsbroker.connections.tls import ConnectionCreator
from natsbroker.monitoring.model import MonitoringModel
from natsbroker.monitoring.resource import monitorSite
from natsbroker.runtime.failures import StartError, listenDetail

_log = Logger(namespace="natsbroker")


class MonitoringService(Service):
    def __init__(
        self,
        reactor: Any,
        model: MonitoringModel,
        settings: Settings,
        creator: ConnectionCreator | None,
        opened: Opened | None = None,
    ) -> None:
        """@param opened: what listens at the settings' address already, or C{None}."""
        monitoring = settings.monitoring
        if problem := monitoring.portProblem(creator is not None):
            raise StartError(f"Can't start monitoring: {problem}")
        self.model = model
        self.scheme = "https" if monitoring.https_port else "http"
        self._reactor = reactor
        self._host = monitoring.http_host
        self._number = max(monitoring.https_port or monitoring.http_port, 0)
        self._listener: PortListener | None = None
        self._opened = opened
        self._creator = creator

    def useCreator(self, creator: ConnectionCreator) -> None:
        self._creator = creator

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        factory: Any = monitorSite(self.model)
        if self.scheme == "https":
            factory = TLSMemoryBIOFactory(_Current(self), False, factory)
        endpoint = addressEndpoint(self._reactor, self._host, self._number, opened=self._opened)
        listener = PortListener(endpoint, factory)
        failures: list[Failure] = []
        # TCP endpoints listen at once, or fail at once.
        listener.open().addErrback(failures.append)
        try:
            for failure in failures:
                failure.raiseException()
        except CannotListenError as error:
            detail = listenDetail(error)
            raise StartError(
                f"Can't start monitoring: can't listen to the monitor port: {detail}"
            ) from error
        self._listener = listener
        where = describe(self.address)
        _log.info("Starting {scheme} monitor on {where}", scheme=self.scheme, where=where)

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        listener, self._listener = self._listener, None
        return succeed(None) if listener is None else listener.close()

    @property
    def address(self) -> Any:
        return None if self._listener is None else self._listener.address

    @property
    def creator(self) -> ConnectionCreator:
        if self._creator is None:
            raise ValueError("no TLS")
        return self._creator


class _Current(ConnectionCreator):
    """Makes connections with the service's current creator, which a reload replaces."""

    def __init__(self, service: MonitoringService) -> None:
        self._service = service

    def serverConnectionForTLS(self, tlsProtocol: Any) -> Any:
        return self._service.creator.serverConnectionForTLS(tlsProtocol)
