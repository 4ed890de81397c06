"""
Permissions for channels with original NATS Streaming clients: from the configuration, after a
reload, and from a custom authenticator.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.running import running
from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, Server
from tests.interop.stan.programs import PROGRAMS, READY, Line, runScenarios, runTogether

CONFIG = """
streaming { store: file, dir: "$DIR/channels" }
authorization {
    users: [
        { user: boss, password: secret }
        { user: shop, password: secret, permissions: {
            publish: [
                "_STAN.discover.>", "_STAN.close.>", "_INBOX.>"
                "_STAN.pub.*.orders.>"
                "_STAN.sub.test-cluster", "_STAN.sub.*.orders.>", "_STAN.sub.*.prices.>"
                "_STAN.unsub.test-cluster"
                "_STAN.subclose.test-cluster", "_STAN.subclose.*.orders.>"
            ]
            subscribe: ["_INBOX.>", "_STAN.acks.>"]
        } }
    ]
}
"""

#: The same, when the shop is closed.
CLOSED = CONFIG.replace('"_STAN.pub.*.orders.>"', "").replace('"_STAN.sub.*.orders.>", ', "")

NOT_AUTHORIZED = "stan: not authorized"

#: What the scenario prints, except for who subscribes while it goes on.
EXPECTED: list[Line] = [
    {"publish": "", "violation": True},
    {"got": [[1, "p", 0]], "subscribe": NOT_AUTHORIZED},
    {"how": "unsubscribe", "error": NOT_AUTHORIZED},
    {"how": "close", "error": NOT_AUTHORIZED},
    {"connect": "stan: clientID already registered"},
    {"publish": "stan: invalid publish request"},
    {"subscribe": "stan: unknown clientID"},
    {"close": "stan: unknown clientID"},
    READY,
    {"still": [[2, "2", 0]]},
    {"subscribe": NOT_AUTHORIZED, "got": []},
    {"violation": True},
]


def test_configured(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """
    The permissions of users determine the channels that they may publish and subscribe to, and the
    subscriptions that they may end. A user cannot use another user's client id. A permission that a
    reload removes has no effect any more, and an existing subscription ends at its next use.
    """
    server = Server(OURS_FAST, tmp_path, CONFIG).start()
    showLogs(request.node, server)

    def change() -> None:
        server.writeConfig(CLOSED)
        server.signal("HUP")

    try:
        for name, lines in runTogether(server.url, "permissions", whenReady=change).items():
            assert lines["permissions"] == EXPECTED
            refused = rf'\[Client:{name}-shop\] May not subscribe to channel "orders\.{name}"'
            server.waitForLog(refused)
    finally:
        server.stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_authenticator(name: str, tmp_path: Path) -> None:
    """The grant of a custom authenticator decides about channels."""
    PROGRAMS[name].findCommand()
    with running("channels.py", "0", str(tmp_path)) as [port]:
        printed = runScenarios(PROGRAMS[name], f"nats://127.0.0.1:{port}", "shops")
    assert printed["shops"] == [
        {"publish": "", "bob": True},
        {"subscribe": NOT_AUTHORIZED},
        {"got": [[1, "1", 0]], "prices": NOT_AUTHORIZED},
        {"unsubscribe": NOT_AUTHORIZED},
        {"close": ""},
        {"chief": ""},
        {"got": [[1, "1", 0]], "unsubscribe": ""},
    ]
