"""
The requests to an auth callout service, and its responses.

A request has the same members as one of nats-server. Its user key is used only once, so that a
response is good for one connection only. A response counts if it is signed, timely, and for this
server and that user key. Any other response denies the login, with nats-server's texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from natsbroker.auth.callout.xkeys import SealError
from natsbroker.auth.fields import FieldError
from natsbroker.auth.operator.tokens import decodeToken
from natsbroker.auth.operator.userclaims import UserClaims, validUntil
from natsbroker.config.settings.authorization import CONNECTION_TYPES
from natsbroker.connections.facts import typeOf
from natsbroker.errors import Unauthorized
from natsbroker.wire.grants import ConnectRequest, Security
from natsbroker.wire.nkeys import Role, isKey

#: The text in the place of a token.
_REDACTED = "[REDACTED]"

#: The options of CONNECT in a request.
_OPTIONS = ("jwt", "nkey", "sig", "auth_token", "user", "pass", "name", "lang", "version")


@dataclass(frozen=True, slots=True)
class CalloutUser:
    """The known facts about a user; C{user} is its name, never a secret."""

    user: str = ""
    jwt: str = ""
    tags: tuple[str, ...] = ()
    nameTag: str = ""


def nameIn(request: ConnectRequest) -> str:
    return (
        request.text("nkey")
        or request.text("user")
        or (_REDACTED if request.text("auth_token") and not request.text("jwt") else "")
    )


def questionOf(
    server: Mapping[str, Any], key: str, request: ConnectRequest, applicant: CalloutUser
) -> dict[str, Any]:
    """The C{nats} claims of a request. C{key} is the user key that the response must name."""
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
                "type": typeOf(request.connectionType),
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
        texts = [
            certificate.public_bytes(Encoding.PEM).decode("ascii") for certificate in tls.chain
        ]
        said["verified_chains"] = [texts]
    return said


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


#: The beginning of a JWT; a message with another one is sealed.
_JWT = b"eyJ"


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """
    @ivar issuer: the key that signed it.
    @ivar issuerAccount: the account that it claims to be signed for; empty for none.
    @ivar isSealed: whether it was encrypted for this server, which only the service can do.
    """

    user: UserClaims
    issuer: str
    issuerAccount: str
    isSealed: bool

    def isFrom(self, keys: Collection[str]) -> bool:
        # Anybody can claim an account; only the signature proves one.
        isSigned = self.issuer in keys and (self.issuerAccount or self.issuer) in keys
        return self.isSealed or isSigned


def readAnswer(
    data: bytes,
    account: str,
    key: str,
    serverId: str,
    now: float,
    unseal: Callable[[bytes], bytes] | None,
) -> AuthorizationResponse:
    """
    @param unseal: decrypts; C{None} without encryption.
    @raise Unauthorized: if it denies or is invalid.
    """
    if not data:
        raise Unauthorized(f'Auth callout violation: "no reason supplied" on account "{account}"')
    isSealed = unseal is not None and not data.startswith(_JWT)
    try:
        if unseal is not None and isSealed:
            data = unseal(data)
    except SealError as error:
        raise Unauthorized(
            f'Error decrypting auth callout response on account "{account}": {error}'
        ) from error
    try:
        token = decodeToken(data.decode("ascii"), "authorization_response")
        nats = token.nats
        text, refusal = nats.text("jwt"), nats.text("error")
        issuerAccount = nats.text("issuer_account")
    except (FieldError, UnicodeDecodeError) as error:
        raise Unauthorized(f"Authorization response is malformed: {error}") from error
    problem = ""
    if not isKey(token.audience, Role.SERVER):
        problem = "Audience must be a server public key"
    elif text and refusal:
        problem = "Only Error or Jwt can be set"
    elif not text and not refusal:
        problem = "Error or Jwt is required"
    elif not token.isTimely(now):
        problem = "claim is expired or not yet valid"
    if problem:
        raise Unauthorized(f"Authorization response had validation errors: {problem}")
    violation = "Auth callout violation: auth callout response is not for"
    if token.subject != key:
        raise Unauthorized(f"{violation} expected user")
    if token.audience != serverId:
        raise Unauthorized(f"{violation} server")
    if refusal:
        raise Unauthorized(f"Auth callout service returned an error: {refusal}")
    user = _userIn(text, account, key, now)
    return AuthorizationResponse(user, token.issuer, issuerAccount, isSealed)


def _userIn(text: str, account: str, key: str, now: float) -> UserClaims:
    try:
        user = UserClaims.decode(text)
        if not user.token.isTimely(now):
            raise FieldError("claim is expired or not yet valid")
    except FieldError as error:
        raise Unauthorized(f"Error validating user JWT: {error}") from error
    if user.token.subject != key:
        raise Unauthorized(
            f'Expected authorized user of "{key}" but got "{user.token.subject}" on account '
            f'"{account}"'
        )
    return user


def stayOf(user: UserClaims, account: str, now: float) -> float:
    """
    Find the end of the times of the day in which a user may connect. As in nats-server, its address
    and kind of connection are not checked again: the service knew them.

    @return: seconds since the epoch; infinity for no end.
    @raise Unauthorized: if it may not connect now, or its JWT names only unknown kinds of
        connection.
    """
    until = validUntil(user.terms.times, user.terms.zone, now)
    if until == -math.inf:
        raise Unauthorized(f'Authorized user on account "{account}" outside of valid connect times')
    types = user.terms.connectionTypes
    if types and not CONNECTION_TYPES.intersection(types):
        raise Unauthorized(f'Authorized user on account "{account}" using invalid connection type')
    return until
