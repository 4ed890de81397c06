"""
Two subject routers that differ from NATS: one ignores case, one adds an audit receiver.

The broker remembers what a router answers and forgets it by NATS's rules when a subscription comes
or goes. Both routers reach more subjects than these rules say, so both announce it.

Run one of them with the port that clients connect to, and end it with Ctrl-C::

    python examples/routers.py caseless 4222
    python examples/routers.py audit 4222

Then, with any NATS client::

    nats --server nats://127.0.0.1:4222 sub 'Orders.EU'
    nats --server nats://127.0.0.1:4222 sub 'audit.all'
    nats --server nats://127.0.0.1:4222 pub orders.eu 'one more'

With the caseless router the first subscriber gets the message, with the audit router the second.

A broker with a configuration file takes a router as a plugin: a module in C{twisted/plugins/} of an
installed package says C{caseless = RouterPlugin("caseless")}, and the file says
C{router { plugin: caseless }}.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.plugin import IPlugin
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.config.model import Settings
from natsbroker.interfaces import IRouterPlugin, ISubjectRouter
from natsbroker.subjects.index import SubjectIndex

#: A subscription to this subject receives every message of its account. Permissions should keep it
#: to those who may read everything.
AUDIT = b"audit.all"


class AnnouncingIndex(SubjectIndex[Any]):
    """
    The broker's own index of patterns, for routers that announce changes.
    """

    _changed: Callable[[bytes], None] | None = None

    def watchChanges(self, changed: Callable[[bytes], None]) -> None:
        self._changed = changed

    def announce(self) -> None:
        """
        Have the broker forget its answers for all subjects.
        """
        if self._changed is not None:
            self._changed(b">")


@implementer(ISubjectRouter)
class CaselessRouter(AnnouncingIndex):
    """
    A router to which C{Orders.EU} and C{orders.eu} are one subject. Letters are those of ASCII.

    Permissions and mappings still tell cases apart: a user who may not subscribe to C{orders.eu} is
    denied C{Orders.EU} only by an entry of its own.
    """

    def insert(self, pattern: bytes, entry: object) -> None:
        super().insert(pattern.lower(), entry)
        self._announceSpellings(pattern)

    def remove(self, pattern: bytes, entry: object) -> bool:
        wasThere = super().remove(pattern.lower(), entry)
        self._announceSpellings(pattern)
        return wasThere

    def match(self, subject: bytes) -> list[Any]:
        return super().match(subject.lower())

    def hasInterest(self, subject: bytes) -> bool:
        return super().hasInterest(subject.lower())

    def _announceSpellings(self, pattern: bytes) -> None:
        # No NATS pattern covers just the other spellings. Without letters there are none.
        if pattern.lower() != pattern.upper():
            self.announce()


@implementer(ISubjectRouter)
class AuditRouter(AnnouncingIndex):
    """
    A router that adds the subscribers of L{AUDIT} to the receivers of every message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._auditors: dict[int, object] = {}

    def insert(self, pattern: bytes, entry: object) -> None:
        super().insert(pattern, entry)
        if pattern == AUDIT:
            self._auditors[id(entry)] = entry
            self.announce()

    def remove(self, pattern: bytes, entry: object) -> bool:
        wasThere = super().remove(pattern, entry)
        if wasThere and pattern == AUDIT:
            del self._auditors[id(entry)]
            self.announce()
        return wasThere

    def match(self, subject: bytes) -> list[Any]:
        match = super().match(subject)
        return match if subject == AUDIT else [*match, *self._auditors.values()]

    def hasInterest(self, subject: bytes) -> bool:
        return bool(self._auditors) or super().hasInterest(subject)


#: The routers by the name that selects them.
ROUTERS: Mapping[str, Callable[[], ISubjectRouter]] = {
    "audit": AuditRouter,
    "caseless": CaselessRouter,
}


@implementer(IPlugin, IRouterPlugin)
class RouterPlugin:
    """
    Makes one of the routers for each account.
    """

    def __init__(self, name: str) -> None:
        """
        @param name: a key of L{ROUTERS}.
        """
        self.name = name

    def makeRouter(self, account: str, section: Mapping[str, Any]) -> ISubjectRouter:
        if section:
            raise ValueError("this router has no options")
        return ROUTERS[self.name]()


async def main(reactor: Any, name: str = "caseless", port: str = "4222") -> None:
    """
    Serve until the process ends.

    @param name: the router, a key of L{ROUTERS}.
    @param port: for clients; 0 for any that is free.
    """
    settings = Settings(host="127.0.0.1", port=int(port) or -1)
    broker = Broker(settings, reactor=reactor, routerFactory=lambda account: ROUTERS[name]())
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
