"""
The monitoring pages as a service of the broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.error import CannotListenError

from natsbroker.config.model import Monitoring, Settings
from natsbroker.connections.tls import ConnectionCreator
from natsbroker.monitoring.service import MonitoringService
from natsbroker.monitoring.site import MonitorSite
from natsbroker.runtime.failures import StartError
from tests.server.support import Host, logLines, settingsOf


def pages(host: Host) -> MonitoringService:
    """The service of the pages."""
    [service] = [child for child in host.broker if isinstance(child, MonitoringService)]
    return service


class TestListening:
    """Where the pages are."""

    def test_noPages(self) -> None:
        """Without a port there are no pages."""
        assert not any(isinstance(service, MonitoringService) for service in Host().broker)

    def test_address(self) -> None:
        """
        By default, the pages have the host of the client listener. The log line is nats-server's.
        """
        host = Host("http_port: 8222")
        with logLines() as lines:
            host.start()
        port, factory, _, interface = host.reactor.tcpServers[0]
        assert (port, interface) == (8222, "::")
        assert isinstance(factory, MonitorSite)
        assert "[INF] Starting http monitor on 0.0.0.0:8222" in lines

    def test_bothPorts(self) -> None:
        """Ports for HTTP and HTTPS together prevent a start, as in nats-server."""
        with pytest.raises(StartError, match=r"Can't start monitoring: can't specify both HTTP"):
            Host(Settings(monitoring=Monitoring(http_port=1, https_port=2)))

    def test_beforeClients(self) -> None:
        """The pages are available before the first client is accepted."""
        host = Host("port: 4222\nhttp_port: 8222").start()
        assert [server[0] for server in host.reactor.tcpServers] == [8222, 4222]

    def test_anyPort(self) -> None:
        """The kernel may choose the port."""
        host = Host("http_port: -1").start()
        assert host.reactor.tcpServers[0][0] == 0

    def test_portInUse(self) -> None:
        """If the port is in use, the broker does not start, with nats-server's error."""
        host = Host("http_port: 8222")

        def listenTCP(port: int, *arguments: Any, **more: Any) -> Any:
            raise CannotListenError("0.0.0.0", port, OSError(98, "Address already in use"))

        host.reactor.listenTCP = listenTCP
        with pytest.raises(StartError) as error:
            host.start()
        assert str(error.value) == (
            "Can't start monitoring: can't listen to the monitor port: "
            "listen tcp 0.0.0.0:8222: bind: address already in use"
        )

    def test_stop(self) -> None:
        """The pages end with the broker."""
        host = Host("http_port: 8222").start()
        service = pages(host)
        assert service.address is not None
        done: list[Any] = []
        host.broker.stopService().addCallback(done.append)
        assert done == [None]
        assert service.address is None

    def test_stopWithoutStart(self) -> None:
        """Stopping a service that never started does nothing."""
        host = Host("http_port: 8222")
        done: list[Any] = []
        pages(host).stopService().addCallback(done.append)
        assert done == [None]


class TestModel:
    """The model behind the pages."""

    def test_broker(self) -> None:
        """The pages show this broker, with the ports in use."""
        host = Host("port: 4222\nhttp_port: 8222").start()
        answer = host.broker.monitoring.answer("/varz", {})
        assert answer is not None
        text = b"".join(answer.body).decode()
        assert host.broker.serverId in text
        assert '"port": 4222' in text and '"http_port": 8222' in text

    def test_reload(self) -> None:
        """After a reload, the pages show the new settings."""
        host = Host("max_payload: 100").start()
        host.broker.reload(settingsOf("max_payload: 77"))
        answer = host.broker.monitoring.answer("/varz", {})
        assert answer is not None
        assert '"max_payload": 77' in b"".join(answer.body).decode()


class TestTLS:
    """Pages over TLS."""

    def test_needsCertificate(self) -> None:
        """Without a certificate there are no pages."""
        settings = settingsOf("port: 1")
        settings = replace(settings, monitoring=replace(settings.monitoring, https_port=1))
        host = Host()
        with pytest.raises(StartError, match="TLS cert and key required"):
            MonitoringService(host.reactor, host.broker.monitoring, settings, None)

    def test_certificateChanges(self) -> None:
        """A new certificate is used for later connections."""
        first, second = SSL.Context(SSL.TLS_METHOD), SSL.Context(SSL.TLS_METHOD)
        settings = settingsOf("port: 1")
        settings = replace(settings, monitoring=replace(settings.monitoring, https_port=1))
        host = Host()
        service = MonitoringService(
            host.reactor, host.broker.monitoring, settings, ConnectionCreator(first)
        )
        with logLines() as lines:
            service.startService()
        assert lines[-1].startswith("[INF] Starting https monitor on ")
        factory = host.reactor.tcpServers[0][1]
        assert factory._creatorCallable(None).get_context() is first
        service.useCreator(ConnectionCreator(second))
        assert factory._creatorCallable(None).get_context() is second
