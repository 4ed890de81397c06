"""
The C{websocket} block as frozen values. docs/reference/configuration.md has the meaning of each
key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natsbroker.config.settings.listeners import Listener


@dataclass(frozen=True, slots=True)
class Websocket(Listener):
    """
    @ivar ping_interval: 0 for that of other clients, as C{timeout}.
    """

    no_tls: bool = False
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    handshake_timeout: float = 2.0
    compression: bool = False
    token: str = field(default="", repr=False)
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    no_auth_user: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ping_interval: float = 0.0

    @property
    def scheme(self) -> str:
        return "ws" if self.tls is None else "wss"

    @property
    def asksItself(self) -> bool:
        """Whether the block has logins of its own, which replace those of the top level."""
        return bool(self.user or self.token or self.no_auth_user)
