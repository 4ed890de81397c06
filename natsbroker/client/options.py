"""
The options of a client, and the fields of CONNECT: those named here and nothing else. Other clients
have sent private keys that way (nats.js, advisory CVE-2020-26149).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from natsbroker import __version__

__all__ = ["ConnectOptions", "connectFields"]


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """
    The options of one client: its name, and one of several kinds of credentials. Secrets do not
    show in its representation.

    @ivar user: with C{password}.
    @ivar token: instead of a user.
    @ivar nkey: a public key, with C{sign}.
    @ivar jwt: of a user, with C{sign} unless it is a bearer's.
    @ivar sign: signs the server's nonce with the private key, which the caller keeps.
    @ivar echo: whether the client receives its own messages.
    """

    name: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    jwt: str = field(default="", repr=False)
    sign: Callable[[bytes], bytes] | None = field(default=None, repr=False)
    echo: bool = True


def connectFields(options: ConnectOptions, nonce: str, isTLS: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": isTLS,
        "lang": "python-natsbroker",
        "version": __version__,
        "protocol": 1,
        "echo": options.echo,
        "headers": True,
        "no_responders": True,
    }
    given = {
        "name": options.name,
        "user": options.user,
        "pass": options.password,
        "auth_token": options.token,
        "nkey": options.nkey,
        "jwt": options.jwt,
    }
    fields |= {name: value for name, value in given.items() if value}
    if options.sign is not None and nonce:
        signature = options.sign(nonce.encode("utf-8"))
        fields["sig"] = base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")
    return fields
