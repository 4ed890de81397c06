"""
Servers shared by the rows of the conformance table: one for each configuration.
"""

from __future__ import annotations

from pathlib import Path

from tests.conformance.rows import Row, runSteps
from tests.conformance.transcripts import Replay
from tests.interop.certificates import writeCertificates
from tests.interop.servers import Flavour, Server
from tests.interop.stage import ServerStage


class ServerPool:
    """
    The servers of one flavour.
    """

    def __init__(self, flavour: Flavour, directory: Path) -> None:
        """
        @param directory: a folder for the servers' files.
        """
        self._flavour = flavour
        self._directory = directory
        self._started = 0
        self._idle: dict[str, tuple[Server, object]] = {}

    def serverFor(self, row: Row) -> Server:
        """
        @return: a running server with the row's configuration.
        """
        if not row.fresh and row.config in self._idle:
            return self._idle[row.config][0]
        directory = self._directory / f"{self._started}"
        self._started += 1
        directory.mkdir()
        if "tls" in row.config:
            writeCertificates(directory)
        server = Server(self._flavour, directory, row.config, ["-m", "-1"]).start()
        if not row.fresh:
            self._idle[row.config] = (server, server.monitor("/varz")["subscriptions"])
        return server

    def play(self, row: Row, server: Server, ours: bool) -> None:
        """
        Replay a row on the server that L{serverFor} returned for it.

        @param ours: whether the row's accepted deviations apply.
        """
        stage = ServerStage(server)
        try:
            Replay(stage, row.countPings).run(runSteps(row, ours))
            if not row.fresh:
                stage.settle(self._idle[row.config][1])
        except BaseException:
            # Whatever state it is in, no later row shall suffer from it.
            self._idle.pop(row.config, None)
            server.stop()
            raise
        if row.fresh:
            server.stop()

    def stop(self) -> None:
        """
        Stop all servers.
        """
        while self._idle:
            self._idle.popitem()[1][0].stop()
