"""
The streams of an account, as the export service reads them.
"""

from __future__ import annotations

from zope.interface import implementer

from natsbroker.export.logs import ILogDirectory
from natsbroker.interfaces import IStateStore, IStreamLog
from natsbroker.jetstream.account import JetStreamAccount

NO_DOMAIN = "_"


@implementer(ILogDirectory)
class StreamDirectory:
    """Lists the streams for the export service, without channels, which are read as channels."""

    kind = "STREAM"

    def __init__(self, account: JetStreamAccount) -> None:
        self.realm = account.domain or NO_DOMAIN
        self._account = account

    def names(self) -> list[str]:
        return sorted(stream.name for stream in self._account.ownStreams)

    def find(self, name: str) -> IStreamLog | None:
        stream = self._account.streams.get(name)
        if stream is None or stream.isDeleted or stream.isChannel:
            return None
        log: IStreamLog = stream.log
        return log

    def headerPrefix(self, name: str) -> int:
        """The bytes before a header block: files store its length there; see L{StreamRecords}."""
        stream = self._account.streams.get(name)
        return 4 if stream is not None and stream.isInFile else 0

    def readSubjects(self, name: str) -> tuple[bytes, ...]:
        return tuple(
            f"$JS.{domain}API.{request}.{name}".encode("utf-8", "surrogateescape")
            for domain in (("", f"{self.realm}.") if self._account.domain else ("",))
            for request in ("STREAM.MSG.GET", "DIRECT.GET")
        )

    def states(self) -> IStateStore:
        return self._account.files.states(f"pipeline/jetstream/{self._account.name}")
