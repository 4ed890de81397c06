"""
Fixtures of the interop tests: servers that are stopped, and whose logs are shown when a test fails.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.interop.servers import Flavour, Server
from tests.interop.severalworkers import reasonAgainst
from tests.reach import INTEROP

#: The servers that a test uses, with the length that their logs had when it began.
SERVERS = pytest.StashKey[list[tuple[Server, int]]]()


class StartServer(Protocol):
    """
    Start a server for one test.
    """

    def __call__(
        self, flavour: Flavour, config: str | None = None, arguments: Sequence[str] = ()
    ) -> Server: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that are useless with several workers, if our server runs with several."""
    for item in items:
        reason = reasonAgainst(item.nodeid.partition(f"{INTEROP}/")[2])
        if reason:
            item.add_marker(pytest.mark.skip(reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """
    Put the logs of a failed test's servers into its report.
    """
    report = yield
    if report.failed:
        for server, since in item.stash.get(SERVERS, []):
            report.sections.append((f"log of {server.flavour.name}", server.log(since)))
    return report


def showLogs(node: pytest.Item, server: Server) -> None:
    """Show the server's log from now on if this test fails."""
    node.stash.setdefault(SERVERS, []).append((server, server.logLength()))


@pytest.fixture
def startServer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartServer]:
    """
    A function that starts a server for one test: flavour, configuration text, more flags.
    """
    servers: list[Server] = []

    def start(flavour: Flavour, config: str | None = None, arguments: Sequence[str] = ()) -> Server:
        directory = tmp_path / f"server-{len(servers)}"
        directory.mkdir()
        server = Server(flavour, directory, config, arguments)
        servers.append(server)
        showLogs(request.node, server)
        return server.start()

    yield start
    for server in servers:
        server.stop()
