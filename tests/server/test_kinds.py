"""
The table of connection kinds, and a kind that a third party adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from zope.interface import implementer
from zope.interface.verify import verifyObject

from natsbroker.config.model import Settings
from natsbroker.interfaces import IConnectionKind, IConnectionService, ILinks, IPeerService
from natsbroker.links.service import ConnectionService
from natsbroker.monitoring.answers import Answer, textAnswer
from natsbroker.runtime.plugins import PluginError, Plugins
from natsbroker.runtime.reload import ReloadError
from natsbroker.server.kinds import KINDS
from tests.server.support import Host, settingsOf


class CountingService(ConnectionService):
    """
    A service that records the calls of the broker.
    """

    section = "counting"

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def open(self, settings: Any) -> None:
        self.calls.append(f"open {settings.port}")

    def connect(self) -> None:
        self.calls.append("connect")

    def announce(self) -> None:
        self.calls.append("announce")

    def urls(self) -> Sequence[str]:
        return ["count://h:1"]

    def clientInfo(self) -> Mapping[str, Any]:
        return {"connect_urls": ("h:1",)}

    def neighbours(self) -> float:
        return 2

    def location(self) -> tuple[str, Sequence[str]]:
        return "HERE", ["THERE"]

    def linksChanged(self) -> None:
        self.calls.append("changed")

    def reauthorize(self, account: str | None) -> None:
        self.calls.append(f"reauthorize {account}")

    def leave(self) -> None:
        self.calls.append("leave")

    async def stopListening(self) -> None:
        self.calls.append("stop")

    async def close(self) -> None:
        self.calls.append("close")


@implementer(IConnectionKind)
class CountingKind:
    """
    A kind of a third party.

    @ivar service: its service.
    """

    name = "counting"
    key = "counting"
    dialect = "count"
    page = "/countz"
    reloadError = "counting begins with the broker"

    def __init__(self, isAlways: bool = True) -> None:
        self._isAlways = isAlways
        self.service = CountingService()

    def isConfigured(self, settings: Settings) -> bool:
        return self._isAlways or "counting" in settings.services

    def accounts(self, settings: Settings) -> Iterable[str]:
        return ()

    def makePage(self, state: Any) -> Any:
        def page(query: Mapping[str, str]) -> Answer:
            return textAnswer(200, "counted")

        return page

    def makeService(self, host: Any, links: Any) -> CountingService:
        return self.service

    def contribute(self, service: Any, monitoring: Any) -> None:
        monitoring.varz.contributions["counting"] = service.neighbours


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_contract(kind: Any) -> None:
    """
    Each connection kind and its service provide their interfaces, and are shown with their
    addresses and pages.
    """
    broker = Host(
        """
        server_name: n1, listen: "127.0.0.1:4222"
        cluster { name: C1, listen: "127.0.0.1:6222" }
        leafnodes { listen: "127.0.0.1:7422" }
        gateway { name: C1, listen: "127.0.0.1:7222" }
        websocket { listen: "127.0.0.1:8080", no_tls: true }
        mqtt { listen: "127.0.0.1:1883" }
        """
    ).broker
    assert verifyObject(IConnectionKind, kind) and verifyObject(ILinks, broker.links)
    service = broker.links.find(kind.name)
    assert verifyObject(IConnectionService, service)
    assert verifyObject(IPeerService, service)
    Host.around(broker).start()
    [url] = broker.addresses()[kind.key]
    assert url.startswith(f"{kind.dialect}://")
    if kind.page:
        assert broker.monitoring.pages[kind.page] is broker.monitoring.links[kind.name]


def test_uniqueNames() -> None:
    """Names, configuration keys, dialects and pages tell the kinds apart."""
    for attribute in ("name", "key", "dialect", "page"):
        texts = [text for kind in KINDS if (text := getattr(kind, attribute))]
        assert len(set(texts)) == len(texts)


def test_lifeCycle() -> None:
    """A connection kind that is passed in takes part in start, changes, lame duck mode and stop."""
    kind = CountingKind()
    host = Host('listen: "127.0.0.1:4222"', connectionKinds=[kind]).start()
    assert kind.service.calls == ["open 4222", "connect", "announce"]
    del kind.service.calls[:]
    host.broker.links.changed()
    host.broker.links.reauthorize("A")
    host.broker.links.leave()
    host.broker.stopService()
    host.settle()
    assert kind.service.calls == ["changed", "reauthorize A", "leave", "stop", "close"]


def test_contributions() -> None:
    """INFO, addresses, locations and the monitoring pages have the contributions of a kind."""
    broker = Host('listen: "127.0.0.1:4222"', connectionKinds=[CountingKind()]).start().broker
    assert broker.addresses()["counting"] == ["count://h:1"]
    assert broker.clientContext.info.connect_urls == ("h:1",)
    assert broker.links.countPeers() == 2
    assert broker.accounts["$G"].location() == ("HERE", ("THERE",))
    assert broker.monitoring.varz.contributions["counting"]() == 2
    answer = broker.monitoring.answer("/countz", {})
    assert answer is not None and b"".join(answer.body) == b"counted"


def test_installed() -> None:
    """
    An installed connection kind is used if the configuration has its section. Changing the section
    needs a restart.
    """
    kind = CountingKind(isAlways=False)
    plugins = Plugins(lambda interface: [kind] if interface is IConnectionKind else [])
    text = 'listen: "127.0.0.1:4222", services { counting { step: 1 } }'
    assert list(plugins.problems(settingsOf(text))) == []
    broker = Host(text, plugins=plugins).start().broker
    assert broker.links.find("counting") is kind.service
    with pytest.raises(ReloadError, match="not supported for service counting"):
        broker.reload(settingsOf(text.replace("1 }", "2 }")))
    broker.reload(replace(broker.settings, ping_max=5))


def test_startedByReload() -> None:
    """A connection kind that cannot start in a running broker refuses such a reload."""
    kind = CountingKind(isAlways=False)
    broker = Host('listen: "127.0.0.1:4222"', connectionKinds=[kind]).start().broker
    assert broker.links.find("counting") is None
    with pytest.raises(ReloadError, match="counting begins with the broker"):
        broker.reload(settingsOf('listen: "127.0.0.1:4222", services { counting { } }'))


def test_notAKind() -> None:
    """An object that is no connection kind is refused with the names of the missing methods."""
    with pytest.raises(PluginError, match="not a connection kind"):
        Host("", connectionKinds=[object()])
