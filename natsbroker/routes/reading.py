"""Reading and checking the C{cluster} block. Error texts are nats-server's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from natsbroker.auth.reading import permissionsFrom
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Settings
from natsbroker.config.settings.authorization import Permissions
from natsbroker.config.settings.compression import ACCEPTED, compressionOf
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
from natsbroker.config.settings.routes import DIALECTS, Cluster, splitRoute
from natsbroker.wire.compression import FAST


def readBlock(block: ParsedBlock, findings: Diagnostics) -> Cluster:
    return listenerFrom(
        block,
        findings,
        Cluster,
        permissions=_permissions(block, findings),
        compression=compressionOf(block, findings, ACCEPTED, FAST),
    )


def _permissions(block: ParsedBlock, findings: Diagnostics) -> Permissions | None:
    for place in (block, loginOf(block)):
        inner = place.block("permissions")
        if inner is None:
            continue
        permissions = permissionsFrom(inner, findings, hasQueues=False)
        if permissions.allow_responses is not None:
            message = "routes answer nothing by themselves: there are no responses to allow"
            findings.error(message, inner.pathTo("allow_responses"), inner.position)
        return permissions
    return None


def checkBlock(
    settings: Settings, cluster: Cluster, root: ParsedBlock, findings: Diagnostics
) -> Settings:
    findings.errorsAt(root.blockOrEmpty("cluster"), _problems(cluster))
    return replace(settings, cluster=replace(cluster, tls=verified(cluster.tls)))


def _problems(cluster: Cluster) -> Iterator[tuple[str, str]]:
    if isSpaced(cluster.name):
        yield "name", "cluster name cannot contain spaces or new lines"
    if cluster.routes and not cluster.port:
        message = "solicited routes require cluster capabilities, e.g. --cluster"
        yield "routes", message
    yield from urlProblems("routes", "route", cluster.routes, splitRoute)
    yield from guardProblems(cluster, "member")
    yield from loginProblems(cluster)
    yield from certificateProblems(cluster.tls, "members")
    yield from advertiseProblems("cluster_advertise", cluster.advertise, cluster.port)
    if cluster.accounts and cluster.pool_size < 0:
        message = "pool_size cannot be negative if pinned accounts are specified"
        yield "accounts", message
    if cluster.dialect not in DIALECTS:
        expected = ", ".join(f'"{dialect}"' for dialect in DIALECTS)
        yield "dialect", f'unknown dialect "{cluster.dialect}": expected {expected}'
    if cluster.accounts and cluster.dialect == "classic":
        message = "classic routes carry the global account only, over one connection"
        yield "accounts", message
    for name in dict.fromkeys(cluster.accounts):
        if cluster.accounts.count(name) > 1:
            yield "accounts", f'found duplicate account name "{name}"'
