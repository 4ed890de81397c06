"""Reading and checking the C{leafnodes} block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings
from natsbroker.config.settings.compression import AUTOMATIC, compressionOf
from natsbroker.config.settings.leafnodes import (
    Leafnodes,
    LeafProxy,
    LeafUser,
    RemoteLeaf,
    splitRemote,
)
from natsbroker.config.settings.listeners import (
    advertiseProblems,
    listenerFrom,
    loginOf,
    urlProblems,
)
from natsbroker.config.tls import tlsOf
from natsbroker.subjects.grammar import isValidSubject
from natsbroker.wire.compression import AUTO
from natsbroker.wire.nkeys import NkeyError, Role, decodeSeed, isKey

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)$")
_OLDEST = (2, 8, 0)

NO_MIGRATION = "has no effect: no stream changes its broker because a leafnode connection is down"


def readBlock(block: ParsedBlock, findings: Diagnostics) -> Leafnodes:
    login = loginOf(block)
    findings.refuseHalfLogin(login)
    return listenerFrom(
        block,
        findings,
        Leafnodes,
        users=tuple(LeafUser(**user.fieldsOf(LeafUser)) for user in login.blocks("users")),
        remotes=tuple(_remote(remote, findings) for remote in block.blocks("remotes")),
        compression=compressionOf(block, findings, AUTOMATIC, AUTO),
    )


def _remote(block: ParsedBlock, findings: Diagnostics) -> RemoteLeaf:
    own = {
        "urls": block.texts("urls"),
        "tls": tlsOf(block, findings),
        "proxy": _proxy(block.block("proxy"), findings),
        "compression": compressionOf(block, findings, AUTOMATIC, AUTO),
    }
    remote = RemoteLeaf(**{**block.fieldsOf(RemoteLeaf), **own})
    migration = "jetstream_cluster_migrate"
    if block.flag(migration) or block.block(migration) is not None:
        findings.warnAt(block, migration, NO_MIGRATION)
    findings.errorsAt(block, _remoteProblems(remote))
    return remote


def _proxy(block: ParsedBlock | None, findings: Diagnostics) -> LeafProxy | None:
    if block is None or not block.values:
        return None
    user, password = block.text("username"), block.text("password")
    host, port, problem = "", 0, ""
    try:
        parts = urlsplit(block.text("url"))
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        problem = "invalid proxy URL"
    else:
        if not block.text("url"):
            problem = "proxy URL must be specified when other proxy options are set"
        elif parts.scheme == "https":
            problem = "https proxies are not supported: nats-server asks them in the clear"
        elif parts.scheme != "http":
            problem = "proxy URL scheme must be http"
        elif not host:
            problem = "proxy URL must specify a host"
        elif not user and not password:
            user, password = (unquote(part or "") for part in (parts.username, parts.password))
    if problem:
        findings.errorAt(block, "url", problem)
    if bool(user) != bool(password):
        message = "proxy username and password must both be specified or both be empty"
        findings.errorAt(block, "username", message)
    return None if problem else LeafProxy(host, port, user, password, block.seconds("timeout"))


def _remoteProblems(remote: RemoteLeaf) -> Iterator[tuple[str, str]]:
    if not remote.urls:
        yield "urls", "a remote needs a url"
    problems = list(urlProblems("urls", "leafnode", remote.urls, splitRemote))
    yield from problems
    if not problems and len({splitRemote(url).isWebSocket for url in remote.urls}) > 1:
        yield (
            "urls",
            "remote leaf node configuration cannot have a mix of websocket and non-websocket urls",
        )
    if remote.proxy and remote.tls is None and any(url.startswith("wss:") for url in remote.urls):
        yield (
            "proxy",
            "a remote URL behind the proxy requires TLS and no TLS configuration is provided",
        )
    if remote.nkey and seedOf(remote.nkey) is None:
        yield "nkey", "Remote leafnode nkey is not a valid seed"
    if remote.nkey and remote.credentials:
        yield "nkey", "Remote leafnode can not have both creds and nkey defined"
    for name in ("deny_imports", "deny_exports"):
        for pattern in getattr(remote, name):
            if not isValidSubject(pattern.encode("utf-8", "surrogateescape")):
                yield name, f'subject "{pattern}" is not a valid subject'


def seedOf(text: str) -> bytes | None:
    """The 32 secret bytes of a user's seed; C{None} if the text is not a seed."""
    try:
        return decodeSeed(text.strip())
    except NkeyError:
        return None


def checkBlock(
    settings: Settings, leafnodes: Leafnodes, root: ParsedBlock, findings: Diagnostics
) -> Settings:
    block = root.blockOrEmpty("leafnodes")
    findings.errorsAt(block, _problems(leafnodes))
    accounts = {"", GLOBAL_ACCOUNT, *settings.accounts}
    if not settings.no_system_account:
        accounts.add(settings.system_account)
    check = _operatedProblems if settings.operator.isOn else _accountProblems
    findings.errorsAt(block, check(leafnodes, accounts))
    return settings


def _problems(leafnodes: Leafnodes) -> Iterator[tuple[str, str]]:
    if leafnodes.users and leafnodes.user:
        yield "authorization", "can not have a single user/pass and a users array"
    if leafnodes.users and leafnodes.nkey:
        yield "authorization", "can not have a single nkey and a users array"
    names = [user.user for user in leafnodes.users]
    for name in dict.fromkeys(name_ for name_ in names if names.count(name_) > 1):
        yield "authorization", f'duplicate user "{name}" detected in leafnode authorization'
    if leafnodes.nkey and not isKey(leafnodes.nkey, Role.USER):
        yield "authorization", "Not a valid public nkey for leafnode authorization"
    known = set()
    for remote in leafnodes.remotes:
        if remote.name in known:
            yield "remotes", "duplicate remote"
        known.add(remote.name)
    if leafnodes.min_version:
        match = _VERSION.match(leafnodes.min_version)
        if match is None:
            yield "min_version", "invalid leafnode's minimum version: it needs three numbers"
        elif tuple(map(int, match.groups())) < _OLDEST:
            yield "min_version", "the minimum version should be at least 2.8.0"
    yield from advertiseProblems("advertise", leafnodes.advertise, leafnodes.port)


def _accountProblems(leafnodes: Leafnodes, accounts: set[str]) -> Iterator[tuple[str, str]]:
    message = 'cannot find local account "%s" specified in leafnode %s'
    for name in (leafnodes.account, *(user.account for user in leafnodes.users)):
        if name not in accounts:
            yield "authorization", message % (name, "authorization")
    for remote in leafnodes.remotes:
        if remote.account not in accounts:
            yield "remotes", message % (remote.account, "remote")


def _operatedProblems(leafnodes: Leafnodes, _: set[str]) -> Iterator[tuple[str, str]]:
    if leafnodes.users:
        yield "authorization", "operator mode does not allow specifying users in leafnode config"
    if not all(isKey(remote.account, Role.ACCOUNT) for remote in leafnodes.remotes):
        yield (
            "remotes",
            "operator mode requires account nkeys in remotes. Please add an `account` key to each "
            "remote in your `leafnodes` section, to assign it to an account. Each account value "
            "should be a 56 character public key, starting with the letter 'A'",
        )
    if leafnodes.port and leafnodes.account and not isKey(leafnodes.account, Role.ACCOUNT):
        yield "authorization", "operator mode and non account nkeys are incompatible"
