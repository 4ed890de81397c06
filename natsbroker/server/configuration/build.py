"""
From a tree to frozen settings, or to all errors, with nats-server's checks of several keys. Checks
that need the command line too are in L{natsbroker.server.configuration.checks}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from natsbroker.auth.operator.reading import OperatorModeReader
from natsbroker.auth.reading import AuthorizationReader
from natsbroker.config.blocks import Diagnostics, ParsedBlock, plainValues, positionsIn, readTable
from natsbroker.config.errors import ConfigError, ConfigErrors, Position
from natsbroker.config.files import readText
from natsbroker.config.language.tree import TableNode
from natsbroker.config.model import (
    SYSTEM_ACCOUNT,
    Logging,
    Monitoring,
    RouterSettings,
    Settings,
)
from natsbroker.config.ocsp import ocspCacheOf, ocspOf
from natsbroker.config.settings.listeners import listenAddress
from natsbroker.config.tls import tlsOf
from natsbroker.server.configuration.checks import check
from natsbroker.server.kinds import KINDS
from natsbroker.wire.durations import durationText
from natsbroker.wire.nkeys import NkeyError, publicBytes

Override = Callable[[Settings], Settings]


@dataclass(frozen=True, slots=True)
class Built:
    """Settings and, from L{inspectFile}, errors."""

    settings: Settings
    warnings: tuple[ConfigError, ...] = ()
    errors: tuple[ConfigError, ...] = ()


def _unchanged(settings: Settings) -> Settings:
    return settings


def buildFile(
    path: str,
    environment: Mapping[str, str],
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    return _accepted(inspectFile(path, environment, override, read))


def inspectFile(
    path: str,
    environment: Mapping[str, str],
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    """
    @return: settings with defaults for keys with errors.
    @raise ConfigErrors: if the text is not in the configuration language.
    """
    from natsbroker.config.language.parser import parseFile

    tree = _parsed(lambda: parseFile(path, environment, read))
    return _built(tree, path, override, read)


def buildText(
    text: str,
    environment: Mapping[str, str],
    source: str = "",
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    from natsbroker.config.language.parser import parse

    tree = _parsed(lambda: parse(text, environment, source, read))
    return buildTree(tree, source, override, read)


def buildDefaults(override: Override = _unchanged) -> Built:
    findings = Diagnostics()
    root = ParsedBlock("", Position())
    settings = check(override(_settings(root, findings)), root, findings)
    return _accepted(_outcome(settings, findings))


def buildTree(
    tree: TableNode,
    source: str,
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    return _accepted(_built(tree, source, override, read))


def _built(tree: TableNode, source: str, override: Override, read: Callable[[str], str]) -> Built:
    from natsbroker.config.keys.root import ROOT
    from natsbroker.config.language.digest import digestOf

    findings = Diagnostics(read)
    if not tree.entries:
        message = f"{source}: config has no values or is empty"
        findings.warnings.append(ConfigError(message))
    root = readTable(tree, ROOT, findings)
    settings = _settings(root, findings)
    settings = replace(
        settings,
        config_file=source,
        config_digest=digestOf(tree),
        places=positionsIn(root) if source else {},
        deferred={
            name: plainValues(value)
            for name, value in root.values.items()
            if ROOT.keys[name].unsupported is not None
        },
    )
    return _outcome(check(override(settings), root, findings), findings)


def _parsed(parser: Callable[[], TableNode]) -> TableNode:
    try:
        return parser()
    except ConfigError as error:
        raise ConfigErrors([error]) from None


def _outcome(settings: Settings, findings: Diagnostics) -> Built:
    warnings, errors = (
        tuple(sorted(group, key=_place)) for group in (findings.warnings, findings.errors)
    )
    return Built(settings, warnings, errors)


def _accepted(built: Built) -> Built:
    if built.errors:
        raise ConfigErrors(built.errors)
    return built


def _place(error: ConfigError) -> tuple[str, int, int]:
    position = error.position
    return position.source, position.line, position.column


def _settings(root: ParsedBlock, findings: Diagnostics) -> Settings:
    """Settings without the defaults that depend on others."""
    defaults = Settings()
    host, port = listenAddress(root, findings)
    authorization, accounts = AuthorizationReader(findings).read(root)
    router = root.blockOrEmpty("router")
    settings = replace(
        defaults,
        **{
            **root.fieldsOf(Settings),
            "host": host or defaults.host,
            "port": port or defaults.port,
            "server_tags": _tags(root),
            "ocsp": ocspOf(root, findings),
            "ocsp_cache": ocspCacheOf(root, findings),
            "proxies": _proxies(root, findings),
            "system_account": root.text("system_account") or SYSTEM_ACCOUNT,
            "authorization": authorization,
            "accounts": accounts,
            "logging": _logging(root),
            "monitoring": _monitoring(root, findings),
            "tls": tlsOf(root, findings),
            "operator": OperatorModeReader(root, findings).mode(),
            "router": RouterSettings(router.text("plugin"), router.others),
            **_rareBlocks(root, findings),
        },
    )
    _checkTogether(settings, root, findings)
    return settings


def _tags(root: ParsedBlock) -> tuple[str, ...]:
    tags = (tag.strip().lower() for tag in root.texts("server_tags"))
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def _proxies(root: ParsedBlock, findings: Diagnostics) -> tuple[str, ...]:
    keys = []
    for block in root.blockOrEmpty("proxies").blocks("trusted"):
        key = block.text("key")
        try:
            publicBytes(key)
        except NkeyError:
            findings.error("invalid proxy key", block.pathTo("key"), block.place("key"))
        else:
            keys.append(key)
    return tuple(keys)


def _logging(root: ParsedBlock) -> Logging:
    logging = Logging(**root.fieldsOf(Logging))
    traces = logging.trace or logging.trace_verbose or logging.trace_headers
    return replace(logging, trace=traces)


def _monitoring(root: ParsedBlock, findings: Diagnostics) -> Monitoring:
    _, plainPort = listenAddress(root, findings, ("http", "", "http_port"))
    _, securePort = listenAddress(root, findings, ("https", "", "https_port"))
    addresses = [root.take(name, tuple) for name in root.values if name in ("http", "https")]
    hosts = [str(address[0]) for address in addresses if address]
    pages = Monitoring(**root.fieldsOf(Monitoring))
    host = hosts[-1] if hosts else ""
    return replace(pages, http_host=host, http_port=plainPort, https_port=securePort)


def _checkTogether(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> None:
    if settings.max_payload > settings.max_pending:
        message = (
            f"max_payload ({settings.max_payload}) cannot be higher than "
            f"max_pending ({settings.max_pending})"
        )
        given = "max_payload" if "max_payload" in root else "max_pending"
        findings.errorAt(root, given, message)
    duration, period = settings.lame_duck_duration, settings.lame_duck_grace_period
    if period >= duration:
        message = (
            f"lame duck grace period ({durationText(period)}) should be strictly lower "
            f"than lame duck duration ({durationText(duration)})"
        )
        grace, whole = "lame_duck_grace_period", "lame_duck_duration"
        findings.errorAt(root, grace if grace in root else whole, message)


def _rareBlocks(root: ParsedBlock, findings: Diagnostics) -> dict[str, Any]:
    """Rare blocks. Their readers are loaded only with them, so that other brokers start sooner."""
    blocks: dict[str, Any] = {}
    if "streaming" in root:
        from natsbroker.streaming.reading import streamingFrom

        blocks["streaming"] = streamingFrom(root)
    for kind in KINDS:
        if kind.key in root:
            blocks[kind.key] = kind.read(root, findings)
    if any(name in root for name in ("jetstream", "store_dir", "default_js_domain")):
        from natsbroker.jetstream.reading import jetStreamFrom

        blocks["jetstream"] = jetStreamFrom(root)
    if "mappings" in root:
        from natsbroker.accounts.reading import ImportExportReader

        blocks["mappings"] = ImportExportReader(findings).mappings(root)
    return blocks
