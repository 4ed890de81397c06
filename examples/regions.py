"""
A gateway interest policy: what belongs to one region never leaves it.

Subjects begin with the name of a region, C{eu.orders.new}. To another cluster goes only what begins
with a region that is shared with it, and C{global}; everything else stays, whatever its
subscriptions are. The policy is asked when clusters connect and when interest changes, never for a
message: it only returns a table with this limit.

Two clusters of one broker each, in two terminals: a name, a port for clients, one for gateways, and
where the other cluster is::

    python examples/regions.py eu 4222 7222 us=127.0.0.1:7223
    python examples/regions.py us 4223 7223 eu=127.0.0.1:7222

Then, with any NATS client::

    nats --server nats://127.0.0.1:4223 sub '>'
    nats --server nats://127.0.0.1:4222 pub global.news 'for everybody'
    nats --server nats://127.0.0.1:4222 pub eu.orders.new 'stays in the EU'

In a broker that is run from a configuration file the same policy is a plugin: a module in
C{twisted/plugins/} of any installed package says C{regions = RegionPlugin()}, and the file says
C{gateway { interest { plugin: regions, shared: { us: ["asia"] } } }}.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from zope.interface import implementer

from natsbroker import Broker
from natsbroker.config.model import Settings
from natsbroker.config.settings.gateways import Gateway, RemoteGateway
from natsbroker.gateways.policies import SwitchingPolicy
from natsbroker.gateways.tables import InterestTable
from natsbroker.interfaces import IBrokerHost, IGatewayInterestPolicy, IGatewayPolicyPlugin
from natsbroker.subjects.permissions import PermissionSet

#: What every cluster may have: subjects that begin so, and answers to requests.
EVERYWHERE = ("global", "_INBOX", "_R_")


class RegionPolicy(SwitchingPolicy):
    """The default policy, except for subjects that must not leave a region."""

    def __init__(self, shared: Mapping[str, Sequence[str]]) -> None:
        """
        @param shared: for each other cluster the regions whose subjects it may have.
        """
        super().__init__()
        self._shared = shared

    def connected(self, gateway: str, account: str, tellsAll: bool) -> InterestTable:
        """
        Limit the interest of a new cluster: it begins with the default, and never exceeds the
        limit, whatever the cluster asks for.
        """
        table = super().connected(gateway, account, tellsAll)
        regions = (*EVERYWHERE, *self._shared.get(gateway, ()))
        table.permitted = PermissionSet(f"{region}.>".encode() for region in regions)
        return table


@implementer(IGatewayPolicyPlugin)
class RegionPlugin:
    """
    Makes the policy of the C{shared} map in the configuration.
    """

    name = "regions"

    def makePolicy(self, host: IBrokerHost, section: Mapping[str, Any]) -> IGatewayInterestPolicy:
        """
        Read the section.
        """
        shared = section.get("shared", {})
        if not isinstance(shared, Mapping) or set(section) - {"shared"}:
            raise ValueError('the only option is "shared", a map from clusters to their regions')
        return RegionPolicy({name: tuple(regions) for name, regions in shared.items()})


async def main(
    reactor: Any, name: str = "eu", port: str = "4222", gatewayPort: str = "7222", *others: str
) -> None:
    """
    Serve until the process ends.

    @param name: of the cluster.
    @param port: for clients; 0 for any that is free.
    @param gatewayPort: for other clusters; likewise.
    @param others: other clusters, each as C{name=host:port}.
    """
    remotes = tuple(RemoteGateway(*_remote(other)) for other in others)
    gateway = Gateway(
        name=name,
        host="127.0.0.1",
        port=int(gatewayPort) or -1,
        gateways=remotes,
        insecure_listen=True,
    )
    settings = Settings(
        server_name=f"{name}-1", host="127.0.0.1", port=int(port) or -1, gateway=gateway
    )
    broker = Broker(settings, reactor=reactor, gatewayPolicy=RegionPlugin())
    broker.startService()
    reactor.addSystemEventTrigger("before", "shutdown", broker.stopService)
    await broker.whenReady()
    print("listening on {}:{}".format(*broker.clientAddress()), flush=True)
    if broker.gateways is not None:
        print("gateways at", *broker.gateways.urls(), flush=True)
    await Deferred()


def _remote(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, place = text.partition("=")
    return name, (f"nats://{place}",)


if __name__ == "__main__":
    react(main, sys.argv[1:])
