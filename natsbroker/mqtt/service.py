"""The listener for clients that speak MQTT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from twisted.logger import Logger

from natsbroker.config.diff import Change
from natsbroker.config.model import Settings
from natsbroker.config.settings.mqtt import MQTT
from natsbroker.connections.wheel import DeadlineWheel
from natsbroker.interfaces import IBrokerHost
from natsbroker.links.listener import LinkPort
from natsbroker.links.service import ConnectionService
from natsbroker.monitoring.formats import nanoseconds, number
from natsbroker.mqtt.dialect import MQTTClients, MQTTDialect
from natsbroker.runtime.reload import Step

_log = Logger(namespace="natsbroker")

#: The keys that a reload may change, as in nats-server.
_CHANGEABLE = frozenset(
    {
        "tls",
        "ack_wait",
        "max_ack_pending",
        "stream_replicas",
        "consumer_replicas",
        "consumer_memory_storage",
        "consumer_inactive_threshold",
    }
)


def overlaid(block: MQTT, settings: Settings) -> Settings:
    """The settings of the clients: those of all, with the logins of the block."""
    authorization = settings.authorization
    authorization = replace(authorization, timeout=block.timeout or authorization.timeout)
    if not block.asksItself:
        return replace(settings, authorization=authorization)
    return replace(
        settings,
        no_auth_user=block.no_auth_user,
        authorization=replace(
            authorization, user=block.user, password=block.password, token=block.token
        ),
    )


class MQTTService(ConnectionService):
    def __init__(self, host: IBrokerHost, opened: Any = None) -> None:
        """
        C{ValueError} if the settings contradict each other, or a certificate cannot be used.

        @param opened: a socket that listens already; C{None} for none.
        """
        settings: Settings = host.settings
        block = self.block = settings.mqtt or MQTT()
        reactor: Any = host.reactor
        self.clients = MQTTClients(reactor.seconds, DeadlineWheel(reactor))
        factory: Any = host.clientFactory(
            partial(MQTTDialect, clients=self.clients),
            "MQTT",
            lambda general: overlaid(self.block, general),
            block.tls,
        )
        self._factory = factory
        self._port = LinkPort(
            reactor, block.host, block.port, factory, "mqtt", block.scheme, opened
        )

    async def open(self, settings: Settings) -> None:
        await self._port.open()

    def announce(self) -> None:
        _log.info(
            "Listening for MQTT clients on {scheme}://{where}",
            scheme=self.block.scheme,
            where=str(self._port),
        )

    def urls(self) -> Sequence[str]:
        return self._port.urls()

    def protocolOverWebSocket(self) -> Any:
        """A protocol for a client of MQTT whose packets come in frames of a WebSocket."""
        return self._factory.protocolOver("MQTT_WS")

    async def stopListening(self) -> None:
        await self._port.close()

    def plan(self, settings: Settings, changes: Sequence[Change]) -> Step:
        before, block = self.block, settings.mqtt or MQTT()
        if block.port < 0:
            block = replace(block, port=before.port)
        for field in fields(MQTT):
            isSame = getattr(before, field.name) == getattr(block, field.name)
            if not isSame and field.name not in _CHANGEABLE:
                raise ValueError("config reload not supported for MQTT")
        step: Step = self._factory.planReload(settings, block.tls)

        def apply() -> None:
            self.block = block
            step()

        return apply

    def varz(self) -> Mapping[str, Any]:
        block = self.block
        tls = block.tls
        shown = {
            "host": block.host,
            "port": self._port.number,
            "no_auth_user": block.no_auth_user,
            "auth_timeout": number(block.timeout),
            "tls_map": tls is not None and tls.verify_and_map,
            "tls_timeout": number(2.0 if tls is None else tls.timeout),
            "tls_pinned_certs": [] if tls is None else sorted(tls.pinned_certs),
            "js_domain": block.js_domain,
            # As in nats-server, which shows what was configured.
            "ack_wait": nanoseconds(block.ack_wait) if block.ack_wait != MQTT().ack_wait else 0,
            "max_ack_pending": (
                block.max_ack_pending if block.max_ack_pending != MQTT().max_ack_pending else 0
            ),
        }
        return {key: value for key, value in shown.items() if value}
