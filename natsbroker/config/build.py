"""
From a tree to frozen settings, or to everything that is wrong with it.

This module promises a complete L{Settings} that a broker can start with, or one
L{ConfigErrors} that lists every mistake in the order of the file.  It must never know the
command line (its overrides arrive as a function) or open a socket.

The checks are nats-server's, observed on 2.15, at the places where a file says something;
L{natsbroker.config.checks} has those that need the whole.  A C{0} in a file stands for
the default, as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from natsbroker.auth.operator.reading import operatorModeFrom
from natsbroker.auth.reading import Identities
from natsbroker.config.blocks import Diagnostics, ParsedBlock, plainValues, positionsIn, readTable
from natsbroker.config.build_server import (
    connectionSettings,
    loggingFrom,
    monitoringFrom,
    operationSettings,
    timeSettings,
)
from natsbroker.config.checks import check
from natsbroker.config.errors import ConfigError, ConfigErrors, Position
from natsbroker.config.files import readText
from natsbroker.config.jetstream import JetStream
from natsbroker.config.language.tree import Table
from natsbroker.config.model import SYSTEM_ACCOUNT, Router, Settings
from natsbroker.config.tls import tlsOf
from natsbroker.config.unsupported import NOT_YET

__all__ = ["Built", "buildDefaults", "buildFile", "buildText", "buildTree"]

Override = Callable[[Settings], Settings]


@dataclass(frozen=True, slots=True)
class Built:
    """
    What came of a configuration.

    @ivar warnings: what the broker starts with all the same; C{-t} refuses it.
    """

    settings: Settings
    warnings: tuple[ConfigError, ...] = ()


def _unchanged(settings: Settings) -> Settings:
    return settings


def buildFile(
    path: str,
    environment: Mapping[str, str],
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    """
    Read a configuration file and everything that it names.

    @param environment: where C{$NAME} is looked up.
    @param override: applied to what the file says, before the settings are checked.
    @param read: gives the text of a path, or raises L{OSError}.
    @raise ConfigErrors: with every mistake.
    """
    from natsbroker.config.language.parser import parseFile

    tree = _parsed(lambda: parseFile(path, environment, read))
    return buildTree(tree, path, override, read)


def buildText(
    text: str,
    environment: Mapping[str, str],
    source: str = "",
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    """
    Read a configuration from memory; see L{buildFile}.

    @param source: what errors name as the file.
    """
    from natsbroker.config.language.parser import parse

    tree = _parsed(lambda: parse(text, environment, source, read))
    return buildTree(tree, source, override, read)


def buildDefaults(override: Override = _unchanged) -> Built:
    """
    Make settings without any file.

    @raise ConfigErrors: when the overrides do not fit together.
    """
    findings = Diagnostics()
    reading = ParsedBlock("", Position())
    settings = check(override(_settings(reading, findings, readText)), reading, findings)
    return _outcome(settings, findings)


def buildTree(
    tree: Table,
    source: str,
    override: Override = _unchanged,
    read: Callable[[str], str] = readText,
) -> Built:
    """
    Make settings from a tree; see L{buildFile}.
    """
    from natsbroker.config.keys.root import ROOT
    from natsbroker.config.language.digest import digestOf

    findings = Diagnostics()
    if not tree.entries:
        message = f"{source}: config has no values or is empty"
        findings.warnings.append(ConfigError(message))
    reading = readTable(tree, ROOT, findings)
    settings = _settings(reading, findings, read)
    settings = replace(
        settings,
        config_file=source,
        config_digest=digestOf(tree),
        places=positionsIn(reading) if source else {},
    )
    return _outcome(check(override(settings), reading, findings), findings)


def _parsed(parser: Callable[[], Table]) -> Table:
    try:
        return parser()
    except ConfigError as error:
        raise ConfigErrors([error]) from None


def _outcome(settings: Settings, findings: Diagnostics) -> Built:
    if findings.errors:
        raise ConfigErrors(sorted(findings.errors, key=_place))
    return Built(settings, tuple(sorted(findings.warnings, key=_place)))


def _place(error: ConfigError) -> tuple[str, int, int]:
    position = error.position
    return position.source, position.line, position.column


def _settings(reading: ParsedBlock, findings: Diagnostics, read: Callable[[str], str]) -> Settings:
    """
    Make settings from what was read; an authorization timeout that is not given is 0.
    """
    settings = connectionSettings(Settings(), reading, findings)
    settings = timeSettings(settings, reading, findings)
    settings = operationSettings(settings, reading, findings)
    settings = _identitySettings(settings, reading, findings)
    router = reading.block("router")
    return replace(
        settings,
        logging=loggingFrom(reading, findings),
        monitoring=monitoringFrom(reading, findings),
        tls=tlsOf(reading, findings, read),
        allow_non_tls=reading.flag("allow_non_tls"),
        operator=operatorModeFrom(reading, findings, read),
        router=Router(router.text("plugin"), router.others) if router else Router(),
        plugins=_sections(reading, "plugins"),
        services=_sections(reading, "services"),
        deferred=_deferred(reading),
        **_rareBlocks(reading, findings, read),
    )


def _rareBlocks(
    reading: ParsedBlock, findings: Diagnostics, read: Callable[[str], str]
) -> dict[str, Any]:
    """
    The blocks that few configurations have. What reads one loads only where the file has it, so
    that the others start sooner.
    """
    found: dict[str, Any] = {}
    if "streaming" in reading:
        from natsbroker.streaming.reading import streamingFrom

        found["streaming"] = streamingFrom(reading)
    if "cluster" in reading:
        from natsbroker.routes.reading import clusterFrom

        found["cluster"] = clusterFrom(reading, findings, read)
    if "gateway" in reading:
        from natsbroker.gateways.reading import gatewayFrom

        found["gateway"] = gatewayFrom(reading, findings, read)
    if "leafnodes" in reading:
        from natsbroker.leafnodes.reading import leafnodesFrom

        found["leafnodes"] = leafnodesFrom(reading, findings, read)
    if "jetstream" in reading or "default_js_domain" in reading:
        found["jetstream"] = _jetstream(reading)
    if "mappings" in reading:
        from natsbroker.accounts.reading import Exchanges

        found["mappings"] = Exchanges(findings).mappings(reading)
    return found


def _identitySettings(settings: Settings, reading: ParsedBlock, findings: Diagnostics) -> Settings:
    authorization, accounts = Identities(findings).everybody(reading)
    return replace(
        settings,
        authorization=authorization,
        accounts=accounts,
        no_auth_user=reading.text("no_auth_user"),
        system_account=reading.text("system_account") or SYSTEM_ACCOUNT,
        no_system_account=reading.flag("no_system_account"),
    )


def _sections(reading: ParsedBlock, name: str) -> dict[str, Mapping[str, object]]:
    found = reading.mapping(name, dict)
    return {key: dict(section) for key, section in found.items()}


def _deferred(reading: ParsedBlock) -> dict[str, object]:
    return {name: plainValues(value) for name, value in reading.values.items() if name in NOT_YET}


def _jetstream(root: ParsedBlock) -> JetStream:
    """
    Make the values of C{jetstream} and C{default_js_domain}.
    """
    block = root.blockOrEmpty("jetstream")
    return JetStream(
        block.text("domain"),
        block.text("extension_hint").lower() == "will_extend",
        root.mapping("default_js_domain", str),
    )
