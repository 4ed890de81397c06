"""
What a service that authorizes is asked, and what it answers, as JSON.

A question says all that is known of a connection; an answer is a grant as a whole, or is
refused: an unknown name, a wrong type, a subject that is none, or nobody's name lets nobody in.
"""

from __future__ import annotations

import json
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from natsbroker.auth.fields import FieldError, Fields
from natsbroker.subjects.permissions import (
    PermissionSet,
    ResponsePermission,
    SubscribePermissions,
)
from natsbroker.subjects.shapes import TooManyShapes
from natsbroker.wire.grants import GLOBAL_ACCOUNT, ConnectRequest, Grant

__all__ = ["grantFromAnswer", "question"]

#: What of CONNECT is passed on: who the client is, and what program.
_TOLD = ("user", "pass", "auth_token", "nkey", "jwt", "sig", "name", "lang", "version")

_NAMES = frozenset(
    {"user", "account", "permissions", "max_payload", "max_subscriptions", "expires"}
)


def question(request: ConnectRequest, nonce: bool = False) -> bytes:
    """
    What the service is asked.

    @param nonce: whether it is told the nonce that the client signed, too.
    """
    asked: dict[str, Any] = {
        "host": request.host,
        "connection_type": request.connectionType,
        "connect": {name: request.text(name) for name in _TOLD if request.text(name)},
    }
    if nonce:
        asked["nonce"] = request.nonce
    if request.certificate is not None:
        asked["certificate"] = request.certificate.public_bytes(Encoding.PEM).decode("ascii")
    return json.dumps(asked, separators=(",", ":"), sort_keys=True).encode("ascii")


def grantFromAnswer(data: bytes) -> Grant:
    """
    Read an answer that lets somebody in.

    @raise FieldError: if it is not as it should be.
    """
    fields = Fields.parse(data)
    _refuseOthers(fields, _NAMES)
    if not fields.text("user"):
        raise FieldError("user is missing: nobody is let in without a name")
    permissions = fields.block("permissions") or Fields([])
    _refuseOthers(permissions, {"publish", "subscribe", "allow_responses"})
    expires = fields.integer("expires", -1)
    try:
        responses = _responses(permissions)
        return Grant(
            account=fields.text("account") or GLOBAL_ACCOUNT,
            user=fields.text("user"),
            publish=_publish(permissions, responses is not None),
            subscribe=_subscribe(permissions),
            responses=responses,
            maxPayload=_limit(fields, "max_payload"),
            maxSubscriptions=_limit(fields, "max_subscriptions", 1),
            expires=float(expires) if "expires" in fields else None,
        )
    except (TooManyShapes, FieldError) as error:
        raise FieldError(str(error)) from error
    except ValueError as error:
        raise FieldError(f"permissions: {error}") from error


def _refuseOthers(fields: Fields, known: frozenset[str] | set[str]) -> None:
    for name in fields:
        if name not in known:
            raise FieldError(f"{name[:64]!a} is not known")


def _lists(fields: Fields | None) -> tuple[list[bytes] | None, list[bytes]]:
    """
    What is allowed, C{None} for everything, and what is denied.
    """
    if fields is None:
        return None, []
    _refuseOthers(fields, {"allow", "deny"})
    allow = _encoded(fields.texts("allow")) if "allow" in fields else None
    return allow, _encoded(fields.texts("deny"))


def _encoded(subjects: tuple[str, ...]) -> list[bytes]:
    return [each.encode("utf-8") for each in subjects]


def _publish(permissions: Fields, mayAnswer: bool) -> PermissionSet | None:
    """
    Whoever may answer may publish nothing else, unless the answer says what.
    """
    allow, deny = _lists(permissions.block("publish"))
    if allow is None and mayAnswer:
        allow = []
    return None if allow is None and not deny else PermissionSet(allow, deny)


def _subscribe(permissions: Fields) -> SubscribePermissions | None:
    allow, deny = _lists(permissions.block("subscribe"))
    return None if allow is None and not deny else SubscribePermissions(allow, deny)


def _responses(permissions: Fields) -> ResponsePermission | None:
    fields = permissions.block("allow_responses")
    if fields is None:
        return None
    _refuseOthers(fields, {"max", "expires"})
    default = ResponsePermission()
    return ResponsePermission(
        fields.integer("max", default.max), float(fields.integer("expires", int(default.expires)))
    )


def _limit(fields: Fields, name: str, least: int = 0) -> int | None:
    limit = fields.integer(name, -1)
    if limit != -1 and limit < least:
        raise FieldError(f"{name} is neither -1, which means no limit, nor at least {least}")
    return limit if name in fields else None
