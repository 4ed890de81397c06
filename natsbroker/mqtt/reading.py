"""Reading and checking the C{mqtt} block, with the errors of nats-server."""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Settings
from natsbroker.config.settings.listeners import (
    certificateProblems,
    guestProblems,
    listenerFrom,
    loginOf,
)
from natsbroker.config.settings.mqtt import MQTT

_IGNORED = "consumer replicas setting ignored in this server version"


def readBlock(block: ParsedBlock, findings: Diagnostics) -> MQTT:
    findings.refuseHalfLogin(loginOf(block))
    if "consumer_replicas" in block:
        findings.warnAt(block, "consumer_replicas", _IGNORED)
    return listenerFrom(block, findings, MQTT)


def checkBlock(
    settings: Settings, mqtt: MQTT, root: ParsedBlock, findings: Diagnostics
) -> Settings:
    if mqtt.port:
        block = root.blockOrEmpty("mqtt")
        findings.errorsAt(block, _problems(mqtt, settings))
        findings.errorsAt(block, _loginProblems(mqtt, settings))
    return settings


def _problems(mqtt: MQTT, settings: Settings) -> Iterator[tuple[str, str]]:
    linked = [settings.cluster, settings.gateway]
    if not settings.server_name and any(linked):
        yield "port", "mqtt requires server name to be explicitly set"
    if not settings.jetstream.enabled and not any([*linked, settings.leafnodes]):
        yield "port", "mqtt requires JetStream to be enabled if running in standalone mode"
    if mqtt.ack_wait < 0:
        yield "ack_wait", "ack wait must be a positive value"
    if mqtt.js_api_timeout < 0:
        yield "js_api_timeout", "JS API timeout must be a positive value"
    if not 0 <= mqtt.max_ack_pending <= _MOST:
        value = f"invalid value {mqtt.max_ack_pending}, should in [0..{_MOST}] range"
        yield "max_ack_pending", value
    yield from certificateProblems(mqtt.tls, "clients over MQTT")


_MOST = 0xFFFF


def _loginProblems(mqtt: MQTT, settings: Settings) -> Iterator[tuple[str, str]]:
    names = {user.user for user in settings.users()}
    if mqtt.no_auth_user and settings.operator.isOn:
        yield "no_auth_user", "no_auth_user not compatible with Trusted Operator"
    else:
        yield from guestProblems(mqtt.no_auth_user, names)
    for name, value in (("username", mqtt.user), ("token", mqtt.token)):
        if names and value:
            yield (
                "authorization",
                f"mqtt authentication {name} not compatible with presence of users/nkeys",
            )
    if mqtt.user and mqtt.token:
        yield "authorization", "Cannot have a user/pass and token"
