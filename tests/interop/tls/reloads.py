"""
Reloads of a server, with a wait for their end.
"""

from __future__ import annotations

from tests.interop.servers import Server


def reload(server: Server, pattern: str = "Reloaded server configuration") -> None:
    """Make a server reload its files."""
    since = server.logLength()
    server.signal("HUP")
    server.waitForLog(pattern, since)
