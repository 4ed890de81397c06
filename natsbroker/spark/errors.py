"""
What can go wrong between Spark and a NATS server.

Promises: one family, whose members pass from a worker to the driver whole; no text repeats a
secret.
Must never know: who raises them.
"""

from __future__ import annotations

__all__ = [
    "ApiError",
    "ConnectionFailed",
    "DataLoss",
    "JavaMissing",
    "OptionError",
    "SourceError",
    "TimedOut",
]


class SourceError(Exception):
    """
    Base of them all.
    """


class OptionError(SourceError, ValueError):
    """
    An option is unknown, has a wrong value, or does not go with another one.
    """


class JavaMissing(SourceError):
    """
    There is no Java that Spark runs on.
    """


class ConnectionFailed(SourceError, ConnectionError):
    """
    No server lets us in, or the connection is gone.
    """


class TimedOut(SourceError, TimeoutError):
    """
    The server did not answer in time.
    """


class ApiError(SourceError):
    """
    The JetStream API refuses.

    @ivar code: nats-server's number for the reason (C{err_code}), or the status; 0 without.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class DataLoss(SourceError):
    """
    Messages that should be read are not in the stream any more, or the stream is another one.
    """
