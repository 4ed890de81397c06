"""
Reloading a server and waiting until it did.
"""

from __future__ import annotations

from tests.interop.servers import Server


def reload(server: Server, pattern: str = "Reloaded server configuration") -> None:
    """
    Have a server read its files again.
    """
    since = server.logLength()
    server.signal("HUP")
    server.waitForLog(pattern, since)
