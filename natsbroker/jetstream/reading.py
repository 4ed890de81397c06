"""
The settings of JetStream, read and checked. It loads without Twisted, as the configuration does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import GLOBAL_ACCOUNT, JetStream, Settings
from natsbroker.subjects.grammar import hasWildcard, isValidLiteral
from natsbroker.wire.nkeys import Role, isKey


def jetStreamFrom(root: ParsedBlock) -> JetStream:
    block = root.blockOrEmpty("jetstream")
    limits = block.blockOrEmpty("limits")
    given: dict[str, Any] = {}
    for place in (root, block, limits, limits.blockOrEmpty("batch")):
        given |= place.fieldsOf(JetStream, zeros=True)
    isOn = root.flag("jetstream") or (
        root.block("jetstream") is not None and block.values.get("enabled", True)
    )
    return JetStream(**{**given, "enabled": bool(isOn)})


def checkJetStream(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> None:
    said = settings.jetstream
    if said.domain and not _isDomain(said.domain):
        message = "invalid domain name: may not contain ., * or >"
        findings.error(message, "jetstream.domain", root.place("jetstream"))
    block = root.blockOrEmpty("jetstream")
    if "store_dir" in root and "store_dir" in block:
        later = max((root, block), key=lambda place: place.place("store_dir").line)
        findings.errorAt(later, "store_dir", "Duplicate 'store_dir' configuration")
    if said.encryption_key and said.backend != "lmdb":
        problem = (
            f'the store "{said.backend}" does not encrypt: use what the database, or the disk '
            "under it, has for that"
        )
        findings.errorAt(block, "encryption_key", problem)
    for name, domain in said.default_domains.items():
        for problem in _problems(settings, name, domain):
            message = f"default_js_domain {problem}"
            findings.error(message, "default_js_domain", root.place("default_js_domain"))


def checkChannels(settings: Settings, root: ParsedBlock, findings: Diagnostics) -> None:
    """Check that each account with channels as streams has JetStream."""
    streaming = settings.streaming
    for name in () if streaming is None else sorted(set(streaming.jetstream_accounts.values())):
        known = settings.accounts.get(name)
        if not settings.jetstream.enabled:
            problem = "JetStream is not enabled"
        elif settings.operator.isOn or (known is None and name == GLOBAL_ACCOUNT):
            continue
        elif known is None:
            problem = f'references non existing account "{name}"'
        elif known.jetstream:
            continue
        else:
            problem = f'account "{name}" has no JetStream'
        findings.errorAt(root.blockOrEmpty("streaming"), "jetstream_accounts", problem)


def _problems(settings: Settings, account: str, domain: str) -> Iterator[str]:
    known = settings.accounts.get(account)
    if settings.operator.isOn:
        if not isKey(account, Role.ACCOUNT):
            yield f'contains account name "{account}", which is not a valid public account nkey'
    elif account == settings.system_account:
        yield f'contains the system account "{account}"'
    elif known is None and account != GLOBAL_ACCOUNT:
        yield f'references non existing account "{account}"'
    elif known is not None and known.jetstream and domain:
        yield f'contains account name "{account}" with enabled JetStream'
    if domain and not _isDomain(domain):
        yield f'contains account "{account}" with invalid domain name "{domain}"'


def _isDomain(text: str) -> bool:
    token = text.encode("utf-8", "surrogateescape")
    return isValidLiteral(token) and not hasWildcard(token) and b"." not in token
