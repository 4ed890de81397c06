"""
From what was read to the settings of the gateway.

This module promises values that make sense, or an error at the place of each that does
not, in nats-server's words.  It must never know connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsbroker.config.addresses import checkPort
from natsbroker.config.build_cluster import advertised, listenAddress
from natsbroker.config.build_tls import tlsFrom
from natsbroker.config.cluster import splitRoute
from natsbroker.config.errors import ConfigError
from natsbroker.config.gateway import Gateway, InterestPolicy, RemoteGateway
from natsbroker.config.loopback import isLoopback
from natsbroker.config.model import TLS, Settings
from natsbroker.config.reading import Findings, Reading

__all__ = ["checkGateway", "gatewayFrom"]


def gatewayFrom(root: Reading, findings: Findings, read: Callable[[str], str]) -> Gateway | None:
    """
    Make the settings of the gateway.

    @param read: gives the text of a path, or raises L{OSError}.
    @return: L{None} when the file has no such block.
    """
    block = root.block("gateway")
    if block is None:
        return None
    default = Gateway()
    host, port = listenAddress(block, findings)
    login = block.block("authorization") or Reading("", block.position)
    if login.block("permissions") is not None:
        message = "gateways have no permissions: nats-server ignores them, and so does natsbroker"
        findings.warnings.append(
            ConfigError(message, login.pathTo("permissions"), login.place("permissions"))
        )
    return Gateway(
        name=block.text("name"),
        host=host or default.host,
        port=port,
        user=login.text("user"),
        password=login.text("pass"),
        timeout=login.seconds("timeout"),
        tls=_tls(block, findings, read),
        advertise=block.text("advertise"),
        connect_retries=block.integer("connect_retries"),
        connect_backoff=block.flag("connect_backoff"),
        gateways=tuple(_remote(each, findings, read) for each in block.blocks("gateways")),
        reject_unknown_cluster=block.flag("reject_unknown_cluster"),
        write_deadline=block.seconds("write_deadline"),
        insecure_listen=block.flag("insecure_listen"),
        interest=_interest(block.block("interest")),
    )


def _interest(block: Reading | None) -> InterestPolicy:
    if block is None:
        return InterestPolicy()
    own = {name: value for name, value in block.values.items() if name != "plugin"}
    return InterestPolicy(block.text("plugin"), {**own, **block.others})


def _remote(block: Reading, findings: Findings, read: Callable[[str], str]) -> RemoteGateway:
    urls = (*block.texts("url"), *block.texts("urls"))
    return RemoteGateway(block.text("name"), urls, _tls(block, findings, read))


def _tls(block: Reading, findings: Findings, read: Callable[[str], str]) -> TLS | None:
    """
    The TLS of a block; gateways always show each other their certificates.
    """
    inner = block.block("tls")
    return None if inner is None else replace(tlsFrom(inner, findings, read), verify=True)


def checkGateway(settings: Settings, root: Reading, findings: Findings) -> Settings:
    """
    Report what makes no sense, where the file says it if it does, and give the cluster the
    gateway's name if it has none.
    """
    gateway = settings.gateway
    if gateway is None:
        return settings
    block = root.block("gateway") or Reading("gateway", root.position)
    for name, message in _problems(gateway):
        findings.error(message, block.pathTo(name), block.place(name))
    for place, remote in enumerate(gateway.gateways):
        for message in _remoteProblems(place, remote, gateway):
            findings.error(message, block.pathTo("gateways"), block.place("gateways"))
    cluster = settings.cluster
    if cluster is None or not gateway.name:
        return settings
    if cluster.name and cluster.name != gateway.name:
        message = "cluster name conflicts between cluster and gateway definitions"
        findings.error(message, block.pathTo("name"), block.place("name"))
    return replace(settings, cluster=replace(cluster, name=gateway.name))


def _problems(gateway: Gateway) -> list[tuple[str, str]]:
    """
    The name of each key that makes no sense, with what is wrong with it.
    """
    problems = []
    if not gateway.name and gateway.port:
        problems.append(("name", "gateway has no name"))
    if len(gateway.name.split()) > 1 or gateway.name != gateway.name.strip():
        problems.append(("name", "gateway name cannot contain spaces"))
    if gateway.name and not gateway.port:
        message = f'gateway "{gateway.name}" has no port specified (select -1 for random port)'
        problems.append(("listen", message))
    if gateway.port and not _isGuarded(gateway):
        message = (
            f"other machines reach {gateway.host}, and whoever does is a gateway; add "
            '"authorization" or "tls", or say "insecure_listen: true" if that is meant'
        )
        problems.append(("listen", message))
    if bool(gateway.user) != bool(gateway.password):
        problems.append(("authorization", "a user needs a password, and a password a user"))
    if gateway.password.startswith("$2"):
        message = "gateways are dialled with the password, so it cannot be a hash"
        problems.append(("authorization", message))
    if gateway.tls is not None and not gateway.tls.certs:
        problems.append(("tls", "gateways need 'cert_file' and 'key_file'"))
    after = gateway.interest.options.get("switch_after")
    if not gateway.interest.plugin and isinstance(after, int) and after < 0:
        problems.append(("interest", "switch_after can not be negative"))
    for name in ("connect_retries", "write_deadline", "timeout"):
        if getattr(gateway, name) < 0:
            problems.append((name, "value can not be negative"))
    if gateway.advertise:
        try:
            checkPort(advertised(gateway.advertise, gateway.port)[1])
        except ValueError as error:
            problems.append(("advertise", str(error)))
    return problems


def _remoteProblems(place: int, remote: RemoteGateway, gateway: Gateway) -> list[str]:
    if not remote.name:
        return [f"gateway in the list {place} has no name"]
    problems = []
    if not remote.urls:
        problems.append(f'gateway "{remote.name}" has no URL')
    if [each.name for each in gateway.gateways[:place]].count(remote.name):
        problems.append(f'gateway "{remote.name}" is there twice')
    for url in remote.urls:
        try:
            splitRoute(url, "gateway")
        except ValueError as error:
            problems.append(str(error))
    if remote.tls is not None and not remote.tls.certs:
        problems.append("gateways need 'cert_file' and 'key_file'")
    return problems


def _isGuarded(gateway: Gateway) -> bool:
    """
    Whether whoever connects must prove something, or cannot connect from elsewhere.
    """
    known = bool(gateway.user) or gateway.tls is not None
    return known or gateway.insecure_listen or isLoopback(gateway.host)
