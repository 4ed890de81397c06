"""
Operator mode for interop tests: keys, JWTs and a configuration with them.
"""

from __future__ import annotations

import time
from typing import Any

from tests.auth.operator.chain import ANY, Account, KeyPair, Operator, oldToken

OPERATOR = Operator()


SYSTEM, ONE, TWO, STRICT, UNTRUSTED, EXPIRED, OLD = (Account(OPERATOR) for _ in range(7))


USER, REVOKED = KeyPair("U"), KeyPair("U")


SCOPED, PLAIN = KeyPair("A"), KeyPair("A")


FOREIGNER = Operator()


NOW = int(time.time())


def template(**nats: Any) -> dict[str, Any]:
    """The template for users of a scoped signing key."""
    unlimited = {"subs": -1, "data": -1, "payload": -1}
    return {"kind": "user_scope", "key": SCOPED.key, "template": {**unlimited, **nats}}


SCOPE = template(
    pub={"allow": ["{{name()}}.>", "{{tag(team)}}.x", "_INBOX.>"]},
    sub={"allow": ["{{subject()}}.>", "{{account-name()}}.*", "_INBOX.>"]},
    resp={"max": 2, "ttl": 0},
)


ACCOUNTS = {
    SYSTEM: SYSTEM.jwt(),
    ONE: ONE.jwt(
        {
            "signing_keys": [ONE.signing.key, PLAIN.key, SCOPE],
            "revocations": {REVOKED.key: NOW - 50},
            "default_permissions": {"pub": {"deny": ["denied"]}, "sub": {}},
        },
        limits={"payload": 1000},
        name="first",
    ),
    TWO: TWO.jwt({"revocations": {"*": NOW - 50}}, limits={"conn": 1}),
    OLD: oldToken("account", OPERATOR, OLD.key, {"limits": ANY}),
    STRICT: STRICT.jwt(limits={"disallow_bearer": True}),
    UNTRUSTED: UNTRUSTED.jwt(signer=FOREIGNER),
    EXPIRED: EXPIRED.jwt(exp=NOW - 10),
}


def memoryConfig() -> str:
    """A configuration with all JWTs."""
    preload = "\n".join(f"{account.key}: {text}" for account, text in ACCOUNTS.items())
    operator = OPERATOR.jwt({"system_account": SYSTEM.key})
    return f"operator: {operator}\nresolver: MEMORY\nresolver_preload {{\n{preload}\n}}\n"
