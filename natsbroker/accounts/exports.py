"""
What an account exports, as far as delivery depends on it.

Plain values. Who may import what was checked when the settings were read.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Latency", "ResponseType", "ServiceExport"]


class ResponseType(Enum):
    """
    How many answers a request gets.

    @cvar SINGLETON: one.
    @cvar STREAM: any number, until one is empty.
    @cvar CHUNKED: the same; the pieces belong together.
    """

    SINGLETON = "singleton"
    STREAM = "stream"
    CHUNKED = "chunked"


class Latency:
    """
    Measurements of a service.

    @ivar subject: where they are published.
    @ivar sampling: how many of a hundred requests are measured; 0 for those whose headers ask for
        it.
    """

    __slots__ = ("sampling", "subject")

    def __init__(self, subject: bytes, sampling: int = 100) -> None:
        self.subject = subject
        self.sampling = sampling


class ServiceExport:
    """
    A service of an account. Told from others by identity.

    @ivar pattern: its requests.
    @ivar responseType: how many answers each gets.
    @ivar threshold: for how many seconds an answer is waited for.
    @ivar latency: whether and where it is measured.
    """

    __slots__ = ("latency", "pattern", "responseType", "threshold")

    def __init__(
        self,
        pattern: bytes,
        responseType: ResponseType = ResponseType.SINGLETON,
        threshold: float = 120.0,
        latency: Latency | None = None,
    ) -> None:
        self.pattern = pattern
        self.responseType = responseType
        self.threshold = threshold
        self.latency = latency

    def __repr__(self) -> str:
        return f"<ServiceExport {self.pattern!r}>"
