"""
Certificates and servers that the tests of TLS share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.interop.conftest import showLogs
from tests.interop.servers import OURS_FAST, REAL, Flavour, Server
from tests.interop.tls.authority import authority, issue

#: Starts a server with a configuration and flags in a directory with certificates, or gives the
#: one that runs already.
Serve = Callable[..., Server]

BLOCK = """
tls {
    cert_file: "$DIR/server.pem"
    key_file: "$DIR/server-key.pem"
    %s
}
"""

VERIFY = 'ca_file: "$DIR/ca.pem", verify: true\n'


def writeFiles(directory: Path) -> None:
    """
    Write an authority C{ca}, the server's certificate C{server}, the clients' C{client} and
    C{second}, and C{stranger} of another authority.
    """
    ours, theirs = authority(), authority("CN=another authority")
    ours.write(directory, "ca")
    server = issue(ours, names=["localhost"], addresses=["127.0.0.1"])
    server.write(directory, "server")
    issue(ours, "CN=client", emails=["client@example.com"]).write(directory, "client")
    issue(ours, "CN=second").write(directory, "second")
    issue(theirs, "CN=client", emails=["client@example.com"]).write(directory, "stranger")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of L{writeFiles}."""
    directory = tmp_path_factory.mktemp("certificates")
    writeFiles(directory)
    return directory


@pytest.fixture(scope="module", params=(REAL, OURS_FAST), ids=lambda flavour: flavour.name)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """
    nats-server, then natsbroker.
    """
    chosen: Flavour = request.param
    return chosen


@pytest.fixture(scope="module")
def running(flavour: Flavour) -> Iterator[dict[tuple[str, ...], Server]]:
    """The running servers of one flavour, by configuration and flags."""
    servers: dict[tuple[str, ...], Server] = {}
    yield servers
    for server in servers.values():
        server.stop()


@pytest.fixture
def serve(
    request: pytest.FixtureRequest,
    flavour: Flavour,
    files: Path,
    running: dict[tuple[str, ...], Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> Serve:
    """A function that starts a server, or returns the running one with the same settings."""

    def serve(config: str | None = "", arguments: Sequence[str] = ()) -> Server:
        key = (config or "", *arguments)
        if key not in running:
            text = None if config is None else config.replace("$DIR", str(files))
            place = tmp_path_factory.mktemp(flavour.name)
            running[key] = Server(flavour, place, text, [*arguments, "-m", "-1"]).start()
        showLogs(request.node, running[key])
        return running[key]

    return serve
