"""
How servers introduce themselves to each other on links of every kind.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from natsbroker import NATS_VERSION
from natsbroker.config.model import Settings


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """
    This broker, as other servers see it.

    @ivar ip: where they are to dial us, as a URL; empty for where they see us.
    @ivar gateway_url: where other clusters are to dial us; empty without a gateway.
    """

    server_id: str
    server_name: str
    host: str = "0.0.0.0"
    port: int = 0
    ip: str = ""
    gateway_url: str = ""

    def head(self, proto: int) -> dict[str, Any]:
        """
        @param proto: what an INFO claims to understand.
        """
        return {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": proto,
            "go": "",
            "host": self.host,
            "port": self.port,
        }


#: What an INFO begins with that is about no server.
NOBODY = {**LinkIdentity("", "", "").head(0), "version": "", "headers": False, "max_payload": 0}


def identityAt(
    settings: Settings, serverId: str, host: str, port: int, ip: str = "", gateway: str = ""
) -> LinkIdentity:
    return LinkIdentity(serverId, settings.server_name or serverId, host, port, ip, gateway)


def isLogin(wanted: tuple[str, str], user: str, password: str) -> bool:
    """
    Whether the credentials of a peer are right, if any are required. The time that it takes does
    not depend on how much of them is right.

    @param wanted: the user and the password; an empty user for none.
    """
    if not wanted[0]:
        return True
    isRightUser = _isSame(user, wanted[0])
    return _isSame(password, wanted[1]) and isRightUser


def _isSame(said: str, wanted: str) -> bool:
    """
    Compare any two strings, also those that JSON can have and UTF-8 can not.
    """
    return hmac.compare_digest(
        said.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass")
    )
