"""
From what was read to the settings of auth callout.

This module promises keys that are keys, and a service that can answer: it has an issuer and
users.  It must never know how a service is asked.
"""

from __future__ import annotations

from natsbroker.auth.settings import GLOBAL_ACCOUNT, AuthCallout
from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.publickeys import ACCOUNT, CURVE, isPublicKey

__all__ = ["calloutFrom"]


def calloutFrom(block: ParsedBlock, findings: Diagnostics) -> AuthCallout:
    """
    Make the settings of an C{auth_callout} block, with nats-server's words for what is wrong.
    """
    issuer, xkey = block.text("issuer"), block.text("xkey")

    def error(message: str, name: str) -> None:
        findings.error(message, block.pathTo(name) if name else block.path, block.place(name))

    if not issuer:
        error("Authorization callouts require an issuer to be specified", "")
    elif not isPublicKey(issuer, ACCOUNT):
        message = f'Expected callout user to be a valid public account nkey, got "{issuer}"'
        error(message, "issuer")
    if xkey and not isPublicKey(xkey, CURVE):
        error(f'Expected callout xkey to be a valid public xkey, got "{xkey}"', "xkey")
    users = block.texts("auth_users")
    if not users:
        error("Authorization callouts require authorized users to be specified", "")
    account = block.text("account") or GLOBAL_ACCOUNT
    return AuthCallout(issuer, account, users, xkey, block.texts("allowed_accounts"))
