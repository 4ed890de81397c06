"""Reading and checking the C{gateway} block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway, InterestPolicy, RemoteGateway
from natsbroker.config.settings.listeners import (
    advertiseProblems,
    certificateProblems,
    guardProblems,
    isSpaced,
    listenerFrom,
    loginOf,
    loginProblems,
    urlProblems,
    verified,
)
from natsbroker.config.settings.routes import splitRoute
from natsbroker.config.tls import tlsOf


def readBlock(block: ParsedBlock, findings: Diagnostics) -> Gateway:
    login = loginOf(block)
    if login.block("permissions") is not None:
        message = "gateways have no permissions: nats-server ignores them, and so does natsbroker"
        findings.warnAt(login, "permissions", message)
    gateway = listenerFrom(
        block,
        findings,
        Gateway,
        gateways=tuple(_remote(remote, findings) for remote in block.blocks("gateways")),
        interest=_interest(block.block("interest")),
    )
    return replace(gateway, tls=verified(gateway.tls))


def _interest(block: ParsedBlock | None) -> InterestPolicy:
    if block is None:
        return InterestPolicy()
    own = {name: value for name, value in block.values.items() if name != "plugin"}
    return InterestPolicy(block.text("plugin"), {**own, **block.others})


def _remote(block: ParsedBlock, findings: Diagnostics) -> RemoteGateway:
    urls = (*block.texts("url"), *block.texts("urls"))
    return RemoteGateway(block.text("name"), urls, verified(tlsOf(block, findings, hasURLs=True)))


def checkBlock(
    settings: Settings, gateway: Gateway, root: ParsedBlock, findings: Diagnostics
) -> Settings:
    """Report inconsistent values, and give the cluster the gateway's name if it has none."""
    block = root.blockOrEmpty("gateway")
    findings.errorsAt(block, _problems(gateway))
    for place, remote in enumerate(gateway.gateways):
        for message in _remoteProblems(place, remote, gateway):
            findings.errorAt(block, "gateways", message)
    cluster = settings.cluster
    if cluster is None or not gateway.name:
        return settings
    if cluster.name and cluster.name != gateway.name:
        message = "cluster name conflicts between cluster and gateway definitions"
        findings.errorAt(block, "name", message)
    return replace(settings, cluster=replace(cluster, name=gateway.name))


def _problems(gateway: Gateway) -> Iterator[tuple[str, str]]:
    if not gateway.name and gateway.port:
        yield "name", "gateway has no name"
    if isSpaced(gateway.name):
        yield "name", "gateway name cannot contain spaces"
    if gateway.name and not gateway.port:
        message = f'gateway "{gateway.name}" has no port specified (select -1 for random port)'
        yield "listen", message
    yield from guardProblems(gateway, "gateway")
    yield from loginProblems(gateway)
    yield from certificateProblems(gateway.tls, "gateways")
    after = gateway.interest.options.get("switch_after")
    if not gateway.interest.plugin and isinstance(after, int) and after < 0:
        yield "interest", "switch_after can not be negative"
    yield from advertiseProblems("advertise", gateway.advertise, gateway.port)


def _remoteProblems(place: int, remote: RemoteGateway, gateway: Gateway) -> Iterator[str]:
    if not remote.name:
        yield f"gateway in the list {place} has no name"
        return
    if not remote.urls:
        yield f'gateway "{remote.name}" has no URL'
    if [earlier.name for earlier in gateway.gateways[:place]].count(remote.name):
        yield f'gateway "{remote.name}" is listed twice'
    for _, message in (
        *urlProblems("urls", "gateway", remote.urls, lambda url: splitRoute(url, "gateway")),
        *certificateProblems(remote.tls, "gateways"),
    ):
        yield message
