"""The C{mqtt} block of the configuration."""

from __future__ import annotations

import pytest

from natsbroker.config.settings.mqtt import MQTT
from natsbroker.server.configuration.build import buildText
from tests.config.support import complaintsOf, settingsOf

WHOLE = """
jetstream: enabled
mqtt {
    listen: "127.0.0.1:1883"
    tls { cert_file: cert.pem, key_file: key.pem }
    authorization { user: u, password: p, timeout: 4 }
    ack_wait: "10s", js_api_timeout: "3s", max_ack_pending: 100, js_domain: d
    stream_replicas: 3, consumer_memory_storage: true, consumer_inactive_threshold: "1h"
    reject_qos2_publish: true, downgrade_qos2_subscribe: true
}
"""


def test_values() -> None:
    """Every key has its place in the settings."""
    mqtt = settingsOf(WHOLE).mqtt
    assert mqtt is not None
    assert mqtt.tls is not None
    assert mqtt == MQTT(
        host="127.0.0.1",
        port=1883,
        tls=mqtt.tls,
        user="u",
        password="p",
        timeout=4.0,
        ack_wait=10.0,
        js_api_timeout=3.0,
        max_ack_pending=100,
        js_domain="d",
        stream_replicas=3,
        consumer_memory_storage=True,
        consumer_inactive_threshold=3600.0,
        reject_qos2_publish=True,
        downgrade_qos2_subscribe=True,
    )


def test_defaults() -> None:
    """A block without a port listens nowhere and needs nothing."""
    assert settingsOf("mqtt {}").mqtt == MQTT()
    assert settingsOf("port: 1").mqtt is None


@pytest.mark.parametrize(
    ("block", "rest", "problem"),
    [
        ("port: -1", "", "mqtt requires JetStream to be enabled if running in standalone mode"),
        (
            "port: 1",
            "jetstream: true, cluster { port: 1, name: c }",
            "mqtt requires server name to be explicitly set",
        ),
        ("port: 1, ack_wait: '-1s'", "jetstream: true", "ack wait must be a positive value"),
        (
            "port: 1, js_api_timeout: '-1s'",
            "jetstream: true",
            "JS API timeout must be a positive value",
        ),
        (
            "port: 1, max_ack_pending: 65536",
            "jetstream: true",
            "invalid value 65536, should in [0..65535] range",
        ),
        ("port: 1, tls {}", "jetstream: true", "need 'cert_file' and 'key_file'"),
        ("port: 1, no_auth_user: a", "jetstream: true", '"a" present, but users/nkeys are not'),
        (
            "port: 1, authorization { user: a, password: b }",
            "jetstream: true, authorization { users: [ {user: x, password: y} ] }",
            "mqtt authentication username not compatible with presence of users/nkeys",
        ),
        (
            "port: 1, authorization { token: a }",
            "jetstream: true, authorization { users: [ {user: x, password: y} ] }",
            "mqtt authentication token not compatible with presence of users/nkeys",
        ),
        (
            "port: 1, authorization { token: a, user: b, password: c }",
            "jetstream: true",
            "Cannot have a user/pass and token",
        ),
    ],
)
def test_problems(block: str, rest: str, problem: str) -> None:
    """Settings that contradict each other are refused with nats-server's words."""
    assert any(problem in text for text in complaintsOf(f"mqtt {{ {block} }}\n{rest}"))


@pytest.mark.parametrize("rest", ["cluster { port: 1, name: c }", "leafnodes { port: 1 }"])
def test_otherJetStream(rest: str) -> None:
    """JetStream may be on another server of a cluster, or behind a leafnode."""
    mqtt = settingsOf(f"server_name: s, mqtt {{ port: 1 }}\n{rest}").mqtt
    assert mqtt is not None
    assert mqtt.isOn


def test_ignored() -> None:
    """A key that nats-server ignores has its warning."""
    built = buildText("mqtt { consumer_replicas: 1 }", {})
    assert [str(warning) for warning in built.warnings if "consumer replicas" in str(warning)]
