"""
From what was read to what is said of the JetStream of other servers.

This module promises domains that subjects can be made of, of accounts that exist.  It must never
know what a domain is for.
"""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.config.blocks import Findings, Reading
from natsbroker.config.jetstream import JetStream
from natsbroker.config.model import GLOBAL_ACCOUNT, Settings
from natsbroker.config.publickeys import ACCOUNT, isPublicKey
from natsbroker.subjects.grammar import hasWildcard, isValidLiteral

__all__ = ["checkJetStream", "jetstreamFrom"]


def jetstreamFrom(root: Reading) -> JetStream:
    """
    Make the values of C{jetstream} and C{default_js_domain}.
    """
    block = root.blockOrEmpty("jetstream")
    return JetStream(
        block.text("domain"),
        block.text("extension_hint").lower() == "will_extend",
        root.mapping("default_js_domain", str),
    )


def checkJetStream(settings: Settings, root: Reading, findings: Findings) -> None:
    """
    Check the domains, and the accounts that they are named for, as nats-server does.
    """
    said = settings.jetstream
    if said.domain and not _isDomain(said.domain):
        message = "invalid domain name: may not contain ., * or >"
        findings.error(message, "jetstream.domain", root.place("jetstream"))
    for name, domain in said.default_domains.items():
        for problem in _problems(settings, name, domain):
            message = f"default_js_domain {problem}"
            findings.error(message, "default_js_domain", root.place("default_js_domain"))


def _problems(settings: Settings, account: str, domain: str) -> Iterator[str]:
    known = settings.accounts.get(account)
    if settings.operator.isOn:
        if not isPublicKey(account, ACCOUNT):
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
