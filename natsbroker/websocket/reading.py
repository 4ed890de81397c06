"""Reading and checking the C{websocket} block, with the errors of nats-server."""

from __future__ import annotations

from collections.abc import Iterator

from natsbroker.config.blocks import Diagnostics, ParsedBlock
from natsbroker.config.model import Settings
from natsbroker.config.settings.listeners import (
    advertiseProblems,
    certificateProblems,
    guestProblems,
    listenerFrom,
    loginOf,
)
from natsbroker.config.settings.websocket import Websocket
from natsbroker.websocket.origins import originOf

#: Headers that the answer has anyway, or that would change its meaning.
_RESERVED = frozenset({"host", "content-length", "connection", "upgrade", "nats-no-masking"})
_PREFIX = "sec-websocket-"


def readBlock(block: ParsedBlock, findings: Diagnostics) -> Websocket:
    findings.refuseHalfLogin(loginOf(block))
    return listenerFrom(block, findings, Websocket)


def checkBlock(
    settings: Settings, websocket: Websocket, root: ParsedBlock, findings: Diagnostics
) -> Settings:
    if websocket.port:
        block = root.blockOrEmpty("websocket")
        findings.errorsAt(block, _problems(websocket))
        findings.errorsAt(block, _loginProblems(websocket, settings))
    return settings


def _problems(websocket: Websocket) -> Iterator[tuple[str, str]]:
    if websocket.tls is None and not websocket.no_tls:
        yield "tls", "websocket requires TLS configuration"
    yield from certificateProblems(websocket.tls, "clients over WebSocket")
    for origin in websocket.allowed_origins:
        try:
            originOf(origin)
        except ValueError as error:
            yield "allowed_origins", str(error)
    for name, value in websocket.headers.items():
        if name.lower() in _RESERVED:
            yield "headers", f'websocket: invalid header "{name}" not allowed'
        elif name.lower().startswith(_PREFIX):
            message = f'websocket: invalid header "{name}", "Sec-WebSocket-" prefix not allowed'
            yield "headers", message
        elif not name or set(f"{name}{value}") & set("\r\n\0") or ":" in name:
            yield "headers", f"websocket: {name!r} cannot be a header"
    yield from advertiseProblems("advertise", websocket.advertise, websocket.port)


def _loginProblems(websocket: Websocket, settings: Settings) -> Iterator[tuple[str, str]]:
    names = {user.user for user in settings.users()}
    wanted = websocket.no_auth_user
    if wanted and settings.operator.isOn:
        yield "no_auth_user", "no_auth_user not compatible with Trusted Operator"
    else:
        yield from guestProblems(wanted, names)
    for name, value in (("username", websocket.user), ("token", websocket.token)):
        if names and value:
            yield (
                "authorization",
                f"websocket authentication {name} not compatible with presence of users/nkeys",
            )
    if websocket.user and websocket.token:
        yield "authorization", "Cannot have a user/pass and token"
    if websocket.jwt_cookie and not settings.operator.isOn:
        yield (
            "jwt_cookie",
            "trusted operators or trusted keys configuration is required for JWT authentication "
            f'via cookie "{websocket.jwt_cookie}"',
        )
