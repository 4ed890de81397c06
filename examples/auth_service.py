"""
An authorization service: a broker asks it over HTTP about every client that logs in.

The users are in a table. Each may publish below C{orders.NAME} for ten minutes, and then has to log
in again; a clerk may hear all orders.

Run it with the port that it answers on, and end it with Ctrl-C::

    python examples/auth_service.py 8080

and a broker with this configuration, whose clients log in as C{anna} with C{apple}, or C{bob} with
C{banana}::

    authorization { plugin: http, url: "http://127.0.0.1:8080/" }

(On another machine than the broker it belongs behind HTTPS; see docs/topics/authorization.md.)
"""

from __future__ import annotations

import hmac
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.task import react
from twisted.web.http import FORBIDDEN, OK
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

#: Names, passwords, and whether somebody is a clerk.
USERS = {"anna": ("apple", True), "bob": ("banana", False)}

#: How long a login holds, in seconds.
TERM = 600


def grantFor(connect: dict[str, str], now: float) -> dict[str, Any] | None:
    """
    The grant of a client.

    @param connect: what the client said of itself.
    @param now: seconds since the epoch.
    @return: the answer for the broker; C{None} to deny.
    """
    name = connect.get("user", "")
    password, isClerk = USERS.get(name, ("", False))
    given = connect.get("pass", "")
    if not password or not hmac.compare_digest(password.encode("utf-8"), given.encode("utf-8")):
        return None
    own = f"orders.{name}.>"
    return {
        "user": name,
        "permissions": {
            "publish": {"allow": [own]},
            "subscribe": {"allow": ["_INBOX.>", "orders.>" if isClerk else own]},
        },
        "expires": int(now) + TERM,
    }


class Authorization(Resource):
    """The resource to which the broker sends its questions."""

    isLeaf = True

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._now = now

    def render_POST(self, request: Request) -> bytes:
        """
        Answer one question.
        """
        asked = json.load(request.content)  # type: ignore[arg-type]
        grant = grantFor(asked["connect"], self._now())
        request.setResponseCode(FORBIDDEN if grant is None else OK)
        return b"" if grant is None else json.dumps(grant).encode("utf-8")


async def main(reactor: Any, port: str = "8080") -> None:
    """
    Answer questions until the process ends.

    @param port: of this machine; 0 for any that is free.
    """
    endpoint = TCP4ServerEndpoint(reactor, int(port), interface="127.0.0.1")
    listening: Any = await endpoint.listen(Site(Authorization()))
    print(f"listening on 127.0.0.1:{listening.getHost().port}", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
