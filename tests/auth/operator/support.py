"""
Brokers in operator mode, and clients that log in to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from natsbroker.testing.memory import MemoryBroker, MemoryConnection
from tests.auth.operator.chain import Account, KeyPair, Operator, raw

__all__ = ["OperatorBroker", "configOf"]


def configOf(
    operator: Operator, *preload: tuple[Account, str], resolver: str = "MEMORY", **nats: Any
) -> str:
    """
    The text of a configuration with an operator and the JWTs of accounts.
    """
    lines = [f"{account.key}: {text}" for account, text in preload]
    loaded = "resolver_preload {\n" + "\n".join(lines) + "\n}\n" if lines else ""
    return f"operator: {operator.jwt(nats)}\nresolver: {resolver}\n{loaded}"


class OperatorBroker(MemoryBroker):
    """A broker whose clients sign nonces."""

    def __enter__(self) -> OperatorBroker:
        return self

    def login(
        self, jwt: str, user: KeyPair | None = None, more: Mapping[str, Any] | None = None
    ) -> tuple[MemoryConnection, bytes]:
        """
        Log in as a user.

        @param user: the signer of the nonce; C{None} for no signature.
        @param more: options of CONNECT beside the JWT.
        @return: the connection, and the broker's answer.
        """
        connection = self.connect()
        info = json.loads(connection.receive()[len(b"INFO ") :])
        options = {"verbose": False, "pedantic": False, "jwt": jwt, **(more or {})}
        if user is not None:
            options["sig"] = raw(user.sign(info["nonce"].encode()))
        connection.info = info
        return connection, connection.request(
            b"CONNECT %b\r\nPING\r\n" % json.dumps(options).encode()
        )
