"""The interfaces between a service that owns logs and the export service."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from natsbroker.interfaces import IStateStore, IStreamLog


class ILogDirectory(Interface):
    """The logs of a service under its clients' names, while it serves them."""

    kind = Attribute("The kind of the logs, as one token of a subject: C{CHANNEL} or C{STREAM}.")

    realm = Attribute(
        "The owner of the logs, as tokens of a subject: the id of the streaming cluster, or the"
        " JetStream domain."
    )

    def names() -> list[str]:
        """All names, sorted."""

    def find(name: str) -> IStreamLog | None:
        """A log, or C{None} if it does not exist or cannot be read now."""

    def headerPrefix(name: str) -> int:
        """The number of the service's own bytes before each header block in a log."""

    def readSubjects(name: str) -> tuple[bytes, ...]:
        """
        The subjects of other requests that read the log. A user needs permission to publish to one
        of them to export the log. If the tuple is empty, permission for the export request is
        enough.
        """

    def states() -> IStateStore:
        """Space for state about the logs, in the same store."""


class ILogConsumer(Interface):
    """A consumer of the logs of a service, such as the export service."""

    def begin(catalogue: ILogDirectory) -> Deferred[None]:
        """Called when the service has begun to serve the logs."""

    def end() -> Deferred[None]:
        """The service is about to stop: release the logs. Called once after each C{begin}."""
