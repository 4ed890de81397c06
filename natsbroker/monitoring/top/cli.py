"""C{natsbroker top}: a terminal view of a running server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TextIO

from natsbroker.config.goflags import FlagError, FlagType, notUnderstood, takeFlags
from natsbroker.monitoring.top.pages import readPage, serverURL

DEFAULT_SERVER = "http://127.0.0.1:8222"

SHORTEST = 0.1
"""Seconds between two readings, at least."""

HELP = """\
Usage: natsbroker top [--server URL] [--every SECONDS]

Shows the connections, subjects, accounts, streams, consumers, channels, routes, gateways and
leafnodes of a running server, what changes each second, and each of them in full. It reads the
monitoring pages, of natsbroker or of nats-server, which "http_port" in the configuration or -m
switches on.

    --server <url>     where the pages are (default: http://127.0.0.1:8222)
    --every <seconds>  time between two readings (default: 1)

    1 to 9, 0, tab     choose the view
    arrows, enter      choose a row; show it in full
    escape             go back
    < and >, r         choose the column to sort by; reverse the order
    /, escape          only rows that have a text; all rows again
    i                  also show subjects of the server's own
    p, space           pause
    q                  quit
"""

_FLAGS = {
    "server": FlagType.STRING,
    "every": FlagType.STRING,
    "h": FlagType.BOOLEAN,
    "help": FlagType.BOOLEAN,
}


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """The exit code: 1 if it cannot run here, 2 for wrong arguments."""
    try:
        given, others = takeFlags(arguments, _FLAGS)
        if given.get("h") or given.get("help"):
            stdout.write(HELP)
            return 0
        if others:
            raise notUnderstood(others, _FLAGS)
        server = _server(str(given.get("server", DEFAULT_SERVER)))
        every = _seconds(str(given.get("every", "1")))
    except FlagError as error:
        print(f"natsbroker top: {error}", file=stderr)
        return 2
    try:
        from natsbroker.monitoring.top.screen import TopApp
    except ImportError as missing:
        why = f"it needs Textual: pip install 'natsbroker[top]' ({missing})"
        print(f"natsbroker top: {why}", file=stderr)
        return 1
    if not stdout.isatty():
        print("natsbroker top: standard output is not a terminal", file=stderr)
        return 1
    app = TopApp(server, every, partial(readPage, server))
    app.run()
    return app.return_code or 0


def _server(text: str) -> str:
    try:
        return serverURL(text)
    except ValueError as error:
        raise FlagError(f"--server: {error}") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = math.nan
    if not SHORTEST <= seconds < math.inf:
        raise FlagError(f'--every: "{text}" is not a number of seconds of at least {SHORTEST}')
    return seconds
