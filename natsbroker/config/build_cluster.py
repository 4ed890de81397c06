"""
From what was read to the settings of the cluster.

This module promises values that make sense, or an error at the place of each that does
not, in nats-server's words.  It must never know connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsbroker.config.addresses import checkPort, splitAddress
from natsbroker.config.build_permissions import permissionsFrom
from natsbroker.config.build_tls import tlsFrom
from natsbroker.config.cluster import DIALECTS, Cluster, splitRoute
from natsbroker.config.identity import Permissions
from natsbroker.config.loopback import isLoopback
from natsbroker.config.reading import Findings, Reading

__all__ = ["advertised", "checkCluster", "clusterFrom", "listenAddress"]


def clusterFrom(root: Reading, findings: Findings, read: Callable[[str], str]) -> Cluster | None:
    """
    Make the settings of the cluster.

    @param read: gives the text of a path, or raises L{OSError}.
    @return: L{None} when the file has no such block.
    """
    block = root.block("cluster")
    if block is None:
        return None
    default = Cluster()
    host, port = listenAddress(block, findings)
    login = block.block("authorization") or Reading("", block.position)
    tls = block.block("tls")
    return Cluster(
        name=block.text("name"),
        host=host or default.host,
        port=port,
        user=login.text("user"),
        password=login.text("pass"),
        timeout=login.seconds("timeout"),
        permissions=_permissions(block, login, findings),
        routes=block.texts("routes"),
        tls=None if tls is None else tlsFrom(tls, findings, read),
        advertise=block.text("cluster_advertise"),
        no_advertise=block.flag("no_advertise"),
        connect_retries=block.integer("connect_retries"),
        connect_backoff=block.flag("connect_backoff"),
        pool_size=block.integer("pool_size", default.pool_size),
        accounts=block.texts("accounts"),
        ping_interval=block.seconds("ping_interval"),
        ping_max=block.integer("ping_max"),
        write_deadline=block.seconds("write_deadline"),
        dialect=block.text("dialect", default.dialect),
        insecure_listen=block.flag("insecure_listen"),
    )


def listenAddress(block: Reading, findings: Findings) -> tuple[str, int]:
    """
    Where links are listened for: what stands later in the file wins.
    """
    host, port, givenBy = "", 0, "listen"
    for name in block.values:
        found = block.take("listen", tuple) if name == "listen" else None
        if found:
            host, port, givenBy = found[0], found[1], name
        elif name == "host":
            host = block.text(name)
        elif name == "port":
            port, givenBy = block.integer(name), name
    try:
        return host, checkPort(port)
    except ValueError as error:
        findings.error(str(error), block.pathTo(givenBy), block.place(givenBy))
        return host, 0


def _permissions(block: Reading, login: Reading, findings: Findings) -> Permissions | None:
    """
    The permissions of the block, else those of its C{authorization}.
    """
    for place in (block, login):
        inner = place.block("permissions")
        if inner is None:
            continue
        found = permissionsFrom(inner, findings)
        if found.allow_responses is not None:
            message = "routes answer nothing by themselves: there are no responses to allow"
            findings.error(message, inner.pathTo("allow_responses"), inner.position)
        return found
    return None


def checkCluster(cluster: Cluster, root: Reading, findings: Findings) -> Cluster:
    """
    Report what makes no sense, where the file says it if it does.
    """
    block = root.block("cluster") or Reading("cluster", root.position)
    for name, message in _problems(cluster):
        findings.error(message, block.pathTo(name), block.place(name))
    if cluster.tls is not None and not cluster.tls.verify:
        # Members always show each other their certificates.
        return replace(cluster, tls=replace(cluster.tls, verify=True))
    return cluster


def _problems(cluster: Cluster) -> list[tuple[str, str]]:
    """
    The name of each key that makes no sense, with what is wrong with it.
    """
    problems = []
    if len(cluster.name.split()) > 1 or cluster.name != cluster.name.strip():
        problems.append(("name", "cluster name cannot contain spaces or new lines"))
    if cluster.routes and not cluster.port:
        message = "solicited routes require cluster capabilities, e.g. --cluster"
        problems.append(("routes", message))
    for url in cluster.routes:
        try:
            splitRoute(url)
        except ValueError as error:
            problems.append(("routes", str(error)))
    if cluster.port and not _isGuarded(cluster):
        message = (
            f"other machines reach {cluster.host}, and whoever does is a member; add "
            '"authorization" or "tls", or say "insecure_listen: true" if that is meant'
        )
        problems.append(("listen", message))
    if (cluster.user and not cluster.password) or (cluster.password and not cluster.user):
        problems.append(("authorization", "a user needs a password, and a password a user"))
    if cluster.password.startswith("$2"):
        message = "routes are dialled with the password, so it cannot be a hash"
        problems.append(("authorization", message))
    if cluster.tls is not None and not cluster.tls.certs:
        problems.append(("tls", "members need 'cert_file' and 'key_file'"))
    for name in ("connect_retries", "ping_max", "ping_interval", "write_deadline", "timeout"):
        if getattr(cluster, name) < 0:
            problems.append((name, "value can not be negative"))
    if cluster.advertise:
        try:
            _, port = advertised(cluster.advertise, cluster.port)
            checkPort(port)
        except ValueError as error:
            problems.append(("cluster_advertise", str(error)))
    if cluster.accounts and cluster.pool_size < 0:
        message = "pool_size cannot be negative if pinned accounts are specified"
        problems.append(("accounts", message))
    if cluster.dialect not in DIALECTS:
        expected = ", ".join(f'"{each}"' for each in DIALECTS)
        problems.append(
            ("dialect", f'no such dialect: "{cluster.dialect}", it is one of {expected}')
        )
    if cluster.accounts and cluster.dialect == "classic":
        message = "classic routes carry the global account only, over one connection"
        problems.append(("accounts", message))
    for name in dict.fromkeys(cluster.accounts):
        if cluster.accounts.count(name) > 1:
            problems.append(("accounts", f'found duplicate account name "{name}"'))
    return problems


def _isGuarded(cluster: Cluster) -> bool:
    """
    Whether whoever connects must prove something, or cannot connect from elsewhere.
    """
    known = bool(cluster.user) or cluster.tls is not None
    return known or cluster.insecure_listen or isLoopback(cluster.host)


def advertised(text: str, port: int) -> tuple[str, int]:
    """
    Read C{host} or C{host:port}.

    @param port: if the text names none, or 0, or -1.
    @raise ValueError: when it is neither.
    """
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], port
    if ":" not in text:
        return text, port
    host, given = splitAddress(text)
    return host, given if given > 0 else port
