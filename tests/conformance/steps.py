"""
Steps of a transcript that need a server process: its signals, log, monitoring pages and TLS.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tests.conformance.transcripts import Peer, Replay, Stage, Step


class ProcessServer(Protocol):
    """A server process with the methods that these steps use."""

    directory: Path

    def signal(self, name: str) -> None: ...

    def writeConfig(self, text: str) -> Path: ...

    def waitForLog(self, pattern: str) -> Any: ...

    def monitor(self, path: str) -> dict[str, Any]: ...

    def exitStatus(self) -> int: ...


@runtime_checkable
class ProcessStage(Stage, Protocol):
    """
    A stage whose server is a process.
    """

    server: ProcessServer


@runtime_checkable
class SecurablePeer(Peer, Protocol):
    """
    A client's end that can do a TLS handshake.
    """

    def secure(self, context: ssl.SSLContext) -> Peer: ...


@runtime_checkable
class FinishingPeer(Peer, Protocol):
    """
    A client's end that can stop sending and go on reading.
    """

    def finish(self) -> None: ...


class ProcessStep:
    """
    The base of the steps that need a process.
    """

    def perform(self, replay: Replay) -> None:
        """Find the process, and act on it."""
        if not isinstance(replay.stage, ProcessStage):
            raise NotImplementedError(f"{self!r} needs a server process")
        self.performOn(replay, replay.stage.server)

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """Act on the process."""
        raise NotImplementedError


def needsProcess(steps: tuple[Step, ...]) -> bool:
    """
    @return: whether any of the steps needs a server process.
    """
    return any(isinstance(step, ProcessStep) for step in steps)


@dataclass(frozen=True)
class Signal(ProcessStep):
    """The server process receives a signal."""

    name: str

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Send the signal.
        """
        replay.note(f"signal {self.name}")
        server.signal(self.name)


@dataclass(frozen=True)
class Reload(ProcessStep):
    """The configuration file is rewritten, and the server reloads it."""

    config: str

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Rewrite, then signal.
        """
        replay.note(f"reload with {self.config!r}")
        server.writeConfig(self.config)
        server.signal("HUP")


@dataclass(frozen=True)
class Refused(ProcessStep):
    """A new connection is refused by the kernel because no listener is open."""

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Try to connect.
        """
        try:
            replay.stage.dial().close()
        except ConnectionRefusedError:
            return
        replay.fail("a new connection", "ECONNREFUSED", "accepted")


@dataclass(frozen=True)
class Exits(ProcessStep):
    """
    The server process ends by itself.
    """

    status: int = 0

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Wait for its end.
        """
        if (status := server.exitStatus()) != self.status:
            replay.fail("the process", self.status, str(status))


@dataclass(frozen=True)
class Logged(ProcessStep):
    """The server writes a line to its log."""

    pattern: str

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Wait for the line.
        """
        server.waitForLog(self.pattern)


@dataclass(frozen=True)
class ClosedReason(ProcessStep):
    """
    The monitoring page of closed connections names a reason.
    """

    reason: str

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Read the page.
        """
        page = server.monitor("/connz?state=closed")
        reasons = [connection.get("reason") for connection in page["connections"]]
        if self.reason not in reasons:
            replay.fail("/connz?state=closed", self.reason, repr(reasons))


@dataclass(frozen=True)
class StartTls(ProcessStep):
    """
    The client does a TLS handshake.

    @ivar certificate: whether the client sends a certificate of its own.
    """

    on: str = "a"
    certificate: bool = False

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """Do the handshake; a failure is detected by the next steps."""
        context = ssl.create_default_context(cafile=str(server.directory / "ca.pem"))
        if self.certificate:
            files = (server.directory / "client.pem", server.directory / "client-key.pem")
            context.load_cert_chain(*map(str, files))
        peer = replay.peer(self.on)
        assert isinstance(peer, SecurablePeer)
        replay.substitute(self.on, peer.secure(context))
        replay.note(f"{self.on} shook hands")


@dataclass(frozen=True)
class Finish(ProcessStep):
    """The client closes its sending side, and continues reading."""

    on: str = "a"

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Half-close.
        """
        peer = replay.peer(self.on)
        assert isinstance(peer, FinishingPeer)
        replay.note(f"{self.on} sends no more")
        peer.finish()


@dataclass(frozen=True)
class Flood(ProcessStep):
    """
    The client sends a packet many times.
    """

    data: bytes
    times: int
    on: str = "a"

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """Send the packet repeatedly."""
        peer = replay.peer(self.on)
        replay.note(f"{self.on} C: {self.times} times {len(self.data)} bytes")
        for _ in range(self.times):
            peer.send(self.data)


@dataclass(frozen=True)
class ClosedWithout(ProcessStep):
    """
    The broker closes the connection in the middle of deliveries and never writes C{text}.
    """

    text: bytes
    on: str = "a"

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """
        Read to the end.
        """
        if self.text in replay.remainder(self.on):
            replay.fail(self.on, f"never {self.text!r}", "it was written")


@dataclass(frozen=True)
class SendComposed(ProcessStep):
    """The client sends bytes that are composed at that moment, such as a token with an expiry."""

    compose: Callable[[], bytes]
    on: str = "a"

    def performOn(self, replay: Replay, server: ProcessServer) -> None:
        """Compose and send the bytes."""
        replay.send(self.on, self.compose())
