"""
What the monitoring pages need to see of a broker, as protocols.

Promises: nothing but shapes; each is no wider than what a page shows, so that a test, a link or a
third party's broker can provide them.
Must never know: any implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime

from natsbroker.wire.grants import Security

__all__ = [
    "AccountView",
    "ClosedView",
    "ConnectionView",
    "ConnectionsView",
    "ContextView",
    "CountedView",
    "FactsView",
    "InfoView",
    "LimitsView",
    "MatcherView",
    "MomentView",
    "PeerView",
    "SettingsView",
    "SubscriptionFactsView",
    "SubscriptionView",
]


class SubscriptionFactsView(Protocol):
    """
    A subscription of a connection that is gone.
    """

    @property
    def pattern(self) -> bytes: ...

    @property
    def queue(self) -> bytes: ...

    @property
    def sid(self) -> bytes: ...

    @property
    def delivered(self) -> int: ...

    @property
    def maximum(self) -> int: ...


class CountedView(Protocol):
    """
    Something that messages pass.
    """

    @property
    def traffic(self) -> tuple[int, int, int, int]:
        """
        Messages in, bytes in, messages out, bytes out.
        """


class PeerView(Protocol):
    """
    A connection of any kind: who is at its other end. Durations are seconds.
    """

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def roundTrip(self) -> float: ...

    @property
    def subscriptions(self) -> int: ...


class MomentView(PeerView, Protocol):
    """
    A connection of any kind at one moment; times are seconds since the epoch. Nothing in it may be
    a secret.
    """

    @property
    def started(self) -> float: ...

    @property
    def lastActivity(self) -> float: ...

    @property
    def pending(self) -> int: ...


class FactsView(MomentView, Protocol):
    """
    A connection of a client at one moment.
    """

    @property
    def cid(self) -> int: ...

    @property
    def inMessages(self) -> int: ...

    @property
    def inBytes(self) -> int: ...

    @property
    def outMessages(self) -> int: ...

    @property
    def outBytes(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def lang(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def tls(self) -> Security | None: ...

    @property
    def nameTag(self) -> str: ...

    @property
    def issuer(self) -> str: ...

    @property
    def tags(self) -> Sequence[str]: ...

    @property
    def jwt(self) -> str: ...

    @property
    def details(self) -> Sequence[SubscriptionFactsView]: ...


class SubscriptionView(Protocol):
    """
    A subscription that is there; as a router stores it.
    """

    @property
    def pattern(self) -> bytes: ...

    @property
    def queue(self) -> bytes: ...

    @property
    def kind(self) -> int: ...

    @property
    def subscriber(self) -> Any: ...

    @property
    def tag(self) -> Any: ...

    @property
    def delivered(self) -> int: ...

    @property
    def maximum(self) -> int: ...


class ConnectionView(CountedView, Protocol):
    """
    A connection that is there.
    """

    @property
    def subscriptions(self) -> Iterable[tuple[bytes, Any]] | None:
        """
        Sids and their subscriptions (L{SubscriptionView}); C{None} before it is let in.
        """

    def facts(self) -> FactsView:
        """
        What there is to tell about it now.
        """


class ClosedView(Protocol):
    """
    A connection that was there.
    """

    @property
    def facts(self) -> FactsView: ...

    @property
    def stop(self) -> float: ...

    @property
    def reason(self) -> str: ...


class ConnectionsView(Protocol):
    """
    The connections that are there (L{ConnectionView}), and what is remembered of the others.
    """

    @property
    def total(self) -> int: ...

    @property
    def slow(self) -> Mapping[str, int]: ...

    @property
    def ended(self) -> Mapping[str, int]: ...

    @property
    def closed(self) -> Iterable[ClosedView]: ...

    @property
    def closedTraffic(self) -> Sequence[int]: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class InfoView(Protocol):
    """
    What INFO says about the server.
    """

    @property
    def server_id(self) -> str: ...

    @property
    def server_name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def natsbroker(self) -> str: ...

    @property
    def git_commit(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def auth_required(self) -> bool: ...

    @property
    def tls_required(self) -> bool: ...

    @property
    def tls_verify(self) -> bool: ...

    @property
    def connect_urls(self) -> Sequence[str]: ...


class LimitsView(Protocol):
    """
    The limits of client connections; times are seconds.
    """

    @property
    def max_connections(self) -> int: ...

    @property
    def max_subscriptions(self) -> int: ...

    @property
    def max_control_line(self) -> int: ...

    @property
    def max_payload(self) -> int: ...

    @property
    def max_pending(self) -> int: ...

    @property
    def write_deadline(self) -> float: ...

    @property
    def auth_timeout(self) -> float: ...

    @property
    def ping_interval(self) -> float: ...

    @property
    def ping_max(self) -> int: ...


class ContextView(Protocol):
    """
    What client connections share.
    """

    @property
    def reactor(self) -> IReactorTime: ...

    @property
    def info(self) -> InfoView: ...

    @property
    def limits(self) -> LimitsView: ...

    @property
    def connections(self) -> ConnectionsView: ...


class MatcherView(Protocol):
    """
    The remembered answers of an account's router.
    """

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    def __len__(self) -> int: ...

    def match(self, subject: bytes) -> Any: ...


class AccountView(Protocol):
    """
    An account; its length is the number of its subscriptions.
    """

    @property
    def name(self) -> str: ...

    @property
    def matcher(self) -> MatcherView: ...

    def subscriptions(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class _TLS(Protocol):
    @property
    def timeout(self) -> float: ...


class _Monitoring(Protocol):
    @property
    def http_host(self) -> str: ...

    @property
    def http_port(self) -> int: ...

    @property
    def https_port(self) -> int: ...

    @property
    def http_base_path(self) -> str: ...


class SettingsView(Protocol):
    """
    What the pages show of the settings that is nowhere else.
    """

    @property
    def monitoring(self) -> _Monitoring: ...

    @property
    def tls(self) -> _TLS | None: ...

    @property
    def system_account(self) -> str: ...

    @property
    def no_system_account(self) -> bool: ...

    @property
    def server_tags(self) -> Sequence[str]: ...

    @property
    def server_metadata(self) -> Mapping[str, str]: ...

    @property
    def config_digest(self) -> str: ...
