"""
Tests for L{natsbroker.gateways.reading}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.settings.gateways import Gateway, InterestPolicy, RemoteGateway
from tests.config.support import built, complaintsOf


def gatewayOf(text: str) -> Gateway:
    """The settings of a gateway block."""
    gateway = built(f"gateway {{ name: A, {text} }}").settings.gateway
    assert gateway is not None
    return gateway


def errorsOf(text: str) -> list[str]:
    """The errors of a gateway block, without their positions."""
    return [complaint.split(": ", 1)[1] for complaint in complaintsOf(f"gateway {{ {text} }}")]


def test_absent() -> None:
    """Without the block gateways are disabled."""
    assert built("port: 4222").settings.gateway is None


def test_empty() -> None:
    """With an empty block gateways are disabled, as with nats-server."""
    gateway = built("gateway {}").settings.gateway
    assert gateway == Gateway() and not Gateway().isOn


def test_allSettings() -> None:
    """Every setting can be given, under nats-server's names."""
    gateway = gatewayOf(
        """
        listen: "10.0.0.1:7222", advertise: "h:1"
        authorization { user: u, password: p, timeout: 3 }
        connect_retries: 4, connect_backoff: true, write_deadline: "4s"
        reject_unknown: true, insecure_listen: true
        interest { switch_after: 7 }
        gateways: [
            { name: B, url: "nats://u:p@b:1" }
            { name: C, urls: ["nats://c:2", "d:3"] }
        ]
        """
    )
    assert gateway == Gateway(
        name="A",
        host="10.0.0.1",
        port=7222,
        user="u",
        password="p",
        timeout=3.0,
        advertise="h:1",
        connect_retries=4,
        connect_backoff=True,
        write_deadline=4.0,
        reject_unknown_cluster=True,
        insecure_listen=True,
        interest=InterestPolicy("", {"switch_after": 7}),
        gateways=(
            RemoteGateway("B", ("nats://u:p@b:1",)),
            RemoteGateway("C", ("nats://c:2", "d:3")),
        ),
    )


def test_policy() -> None:
    """The options of a policy plugin are not checked when the block is read."""
    gateway = gatewayOf("port: 1, host: localhost, interest { plugin: mine, regions: [eu], n: 1 }")
    assert gateway.interest == InterestPolicy("mine", {"regions": ["eu"], "n": 1})


def test_tls() -> None:
    """Gateways always require each other's certificates, also with a TLS block of their own."""
    files = "{ cert_file: cert.pem, key_file: key.pem }"
    gateway = gatewayOf(f"port: 1, tls {files}, gateways: [ {{name: B, url: 'b:1', tls {files}}} ]")
    assert gateway.tls is not None and gateway.tls.verify
    (remote,) = gateway.gateways
    assert remote.tls is not None and remote.tls.verify


LOCAL = "name: A, listen: '127.0.0.1:1'"


@pytest.mark.parametrize(
    "text, error",
    [
        ("listen: '127.0.0.1:1'", "gateway.name: gateway has no name"),
        ("name: 'a b', listen: '127.0.0.1:1'", "gateway.name: gateway name cannot contain spaces"),
        (
            "name: A",
            'gateway.listen: gateway "A" has no port specified (select -1 for random port)',
        ),
        (f"{LOCAL}, gateways: [{{url: 'b:1'}}]", "gateway in the list 0 has no name"),
        (f"{LOCAL}, gateways: [{{name: B}}]", 'gateway "B" has no URL'),
        (
            f"{LOCAL}, gateways: [{{name: B, url: 'b:1'}}, {{name: B, url: 'b:2'}}]",
            'gateway "B" is listed twice',
        ),
        (
            f"{LOCAL}, gateways: [{{name: B, url: 'nats://u:canary@'}}]",
            "error parsing gateway url: it needs a host",
        ),
        (
            f"{LOCAL}, gateways: [{{name: B, url: 'b:1', tls {{}}}}]",
            "gateways need 'cert_file' and 'key_file'",
        ),
        (f"{LOCAL}, tls {{}}", "gateways need 'cert_file' and 'key_file'"),
        (f"{LOCAL}, authorization {{ user: u }}", "a user needs a password, and a password a user"),
        (f"{LOCAL}, connect_retries: -1", "value can not be negative"),
        (f"{LOCAL}, interest {{ switch_after: -1 }}", "switch_after can not be negative"),
        (f"{LOCAL}, advertise: 'a:b:c'", "address a:b:c: too many colons in address"),
        ("name: A, listen: '127.0.0.1:70000'", "invalid port 70000"),
    ],
)
def test_invalidSettings(text: str, error: str) -> None:
    """An invalid value is reported with an error that hides passwords."""
    errors = errorsOf(text)
    assert any(problem.endswith(error) for problem in errors), errors
    assert "canary" not in "".join(errors)


@pytest.mark.parametrize("text", ["listen: 7222", 'listen: "10.0.0.1:7222"', "port: -1"])
def test_openListener(text: str) -> None:
    """A listener that other machines reach must require a login."""
    (error,) = errorsOf(f"name: A, {text}, insecure_listen: false")
    assert error.startswith("gateway.listen: other machines reach")
    for guard in (
        "insecure_listen: true",
        "insecure_listen: false, authorization { user: u, password: p }",
        "insecure_listen: false, tls { cert_file: cert.pem, key_file: key.pem }",
    ):
        assert gatewayOf(f"{text}, {guard}").isOn


def test_permissions() -> None:
    """Permissions are ignored with a warning, as with nats-server."""
    text = f"gateway {{ {LOCAL}, authorization {{ user: u, password: p, permissions {{}} }} }}"
    (warning,) = built(text).warnings
    assert "gateways have no permissions" in str(warning)


@pytest.mark.parametrize(
    "text, error",
    [
        (
            "write_timeout: retry",
            "gateway.write_timeout: not supported yet (write timeout policies)",
        ),
        (
            "gateways: [{name: B, url: 'b:1', tls { cert_file: cert.pem, key_file: key.pem, "
            "cert_store: x }}]",
            "gateway.gateways[0].tls.cert_store: not supported yet (certificate stores)",
        ),
    ],
)
def test_notYet(text: str, error: str) -> None:
    """The error for an unsupported key names it."""
    assert errorsOf(f"{LOCAL}, {text}") == [error]


def test_clusterName() -> None:
    """The default name of the cluster is that of the gateway, and a different name is an error."""
    gateway = f"gateway {{ {LOCAL} }}"
    settings = built(f"cluster {{ port: 1, host: localhost }}\n{gateway}").settings
    assert settings.cluster is not None and settings.cluster.name == "A"
    (error,) = complaintsOf(f"cluster {{ name: B, port: 1, host: localhost }}\n{gateway}")
    assert error.endswith("cluster name conflicts between cluster and gateway definitions")
