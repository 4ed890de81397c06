"""
What an auth callout service is asked.

The members of nats-server's authorization request, absent where they are absent there; a
question names a user key that nobody used before, so that an answer is good for one connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from natsbroker.wire.grants import ConnectRequest, Security

__all__ = ["CalloutUser", "nameIn", "questionOf"]

#: What stands in the place of a token.
_REDACTED = "[REDACTED]"

#: What monitoring calls a kind of connection.
_TYPES = {"WEBSOCKET": "websocket", "MQTT": "mqtt"}

#: Options of CONNECT that a service is told, by their names in the request.
_OPTIONS = ("jwt", "nkey", "sig", "auth_token", "user", "pass", "name", "lang", "version")


@dataclass(frozen=True, slots=True)
class CalloutUser:
    """
    What is known of somebody about whom a service is asked.

    @ivar user: how it is named; never a secret.
    @ivar jwt: the user JWT that it was let in with so far.
    @ivar tags: of that JWT.
    @ivar nameTag: the name that it says.
    """

    user: str = ""
    jwt: str = ""
    tags: tuple[str, ...] = ()
    nameTag: str = ""


def nameIn(request: ConnectRequest) -> str:
    """
    How somebody is named who was not let in so far.
    """
    return (
        request.text("nkey")
        or request.text("user")
        or (_REDACTED if request.text("auth_token") and not request.text("jwt") else "")
    )


def questionOf(
    server: Mapping[str, Any], key: str, request: ConnectRequest, applicant: CalloutUser
) -> dict[str, Any]:
    """
    The claims of a question that are particular to NATS.

    @param server: what is said of the server.
    @param key: the user key that the answer must be about.
    """
    claims: dict[str, Any] = {
        "server_id": server,
        "user_nkey": key,
        "client_info": _present(
            {
                "host": request.host,
                "id": request.cid,
                "user": applicant.user,
                "name": request.text("name"),
                "tags": list(applicant.tags),
                "name_tag": applicant.nameTag,
                "kind": "Client",
                "type": _TYPES.get(request.connectionType, "nats"),
                "nonce": request.nonce if request.text("sig") else "",
            }
        ),
        "connect_opts": _optionsIn(request, applicant),
    }
    if request.tls is not None:
        claims["client_tls"] = _secured(request.tls)
    return claims


def _optionsIn(request: ConnectRequest, applicant: CalloutUser) -> dict[str, Any]:
    given = {name: request.text(name) for name in _OPTIONS}
    given["jwt"] = applicant.jwt
    protocol = request.options.get("protocol", 0)
    return {**_present(given), "protocol": protocol if isinstance(protocol, int) else 0}


def _secured(tls: Security) -> dict[str, Any]:
    said: dict[str, Any] = _present({"version": tls.version, "cipher": tls.cipher})
    if tls.chain:
        texts = [each.public_bytes(Encoding.PEM).decode("ascii") for each in tls.chain]
        said["verified_chains"] = [texts]
    return said


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
