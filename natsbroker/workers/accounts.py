"""
The account of a client by its CONNECT, before a worker has verified that. A client with a forged
CONNECT is passed to some worker, and refused there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from natsbroker.config.model import GLOBAL_ACCOUNT, Settings

_CREDENTIALS = ("user", "pass", "auth_token", "nkey", "jwt")


class AccountFinder:
    """
    @ivar isNeeded: whether clients of several accounts can be distinguished by a CONNECT in clear
        text.
    @ivar hasNonce: whether clients may have to sign a nonce.
    """

    def __init__(self, settings: Settings) -> None:
        authorization = settings.authorization
        self._isOperated = settings.operator.isOn
        self._users = {user.user: user.account or GLOBAL_ACCOUNT for user in settings.users()}
        self._guest = settings.no_auth_user
        self._isOpen = not self._users or settings.isOpenBesideSystem
        hasKeys = any(user.nkey for user in settings.users())
        self.hasNonce = hasKeys or self._isOperated or bool(settings.proxies)
        isElsewhere = authorization.auth_callout is not None or bool(authorization.plugin)
        accounts = {*self._users.values(), *([GLOBAL_ACCOUNT] if self._isOpen else [])}
        # The system account has few clients, for which CONNECT need not be read.
        isShared = self._isOperated or len(accounts - {settings.system_account}) > 1
        isClear = settings.tls is None and not settings.proxy_protocol
        self.isNeeded = isClear and isShared and not isElsewhere
        self._streaming = "" if settings.streaming is None else settings.streaming.account
        hasUsers = self._isOperated or isElsewhere or self._streaming in self._users.values()
        if not hasUsers:
            self._streaming = ""

    def isForFirst(self, account: str) -> bool:
        """
        Whether a client has to be at the first worker: NATS Streaming there knows the users of its
        own worker alone, and durable subscriptions and permissions go by the user.

        @param account: empty if it is unknown.
        """
        return bool(self._streaming) and account in ("", self._streaming)

    def accountOf(self, options: Mapping[str, Any]) -> str:
        """
        @param options: the options of CONNECT.
        @return: the account; empty if it is unknown.
        """
        if self._isOperated:
            return _issuerOf(options.get("jwt") or "")
        name = options.get("nkey") or options.get("user") or ""
        if not any(options.get(credential) for credential in _CREDENTIALS):
            name = self._guest
        if name in self._users:
            return self._users[name]
        return GLOBAL_ACCOUNT if self._isOpen or not name else ""


def _issuerOf(jwt: str) -> str:
    """The account that issued a user's JWT; empty for another text."""
    payload = jwt.split(".")[1:2]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload[0] + "=="))
        nats = claims.get("nats") or {}
        account = claims.get("issuer_account") or nats.get("issuer_account") or claims["iss"]
    except (ValueError, LookupError, AttributeError, TypeError):
        return ""
    return account if isinstance(account, str) else ""
