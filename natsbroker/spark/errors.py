"""Errors between Spark and a NATS server, of reads, writes and requests."""

from __future__ import annotations


class DataSourceError(Exception):
    """The base class of the errors of L{natsbroker.spark}."""


class OptionError(DataSourceError, ValueError):
    """An option is unknown, has a wrong value, or excludes another one."""


class JavaMissing(DataSourceError):
    """There is no Java that Spark runs on."""


class ConnectionFailed(DataSourceError, ConnectionError):
    """No server lets us in, or the connection is gone."""


class CredentialsRefused(ConnectionFailed):
    """A server does not know the credentials. Waiting does not help."""


class TimedOut(DataSourceError, TimeoutError):
    """The server did not answer in time."""


class ApiError(DataSourceError):
    """
    The JetStream API refuses.

    @ivar code: nats-server's C{err_code}, or the status; 0 without.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class BadMessage(DataSourceError):
    """A message that no stream can have: its subject, its headers or its size are wrong."""


class DataLoss(DataSourceError):
    """Messages that should be read are not in the stream any more, or the stream is another one."""


class LogGone(DataLoss):
    """
    The stream or channel was deleted, and perhaps made again, so its sequences are not valid any
    more.
    """
