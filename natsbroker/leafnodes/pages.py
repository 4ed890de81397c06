"""
Leafnodes as the monitoring pages show them, with nats-server's keys and no passwords.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from natsbroker.clients.listener import joined
from natsbroker.leafnodes.registry import LeafLink
from natsbroker.leafnodes.service import LeafnodeService
from natsbroker.leafnodes.settings import RemoteLeaf, splitRemote
from natsbroker.links.settingsmapper import handshakeOf
from natsbroker.monitoring.formats import nanoseconds, number

if TYPE_CHECKING:
    from natsbroker.monitoring.model import MonitoringModel

#: Seconds for a TLS handshake where no TLS is configured: nats-server's default.
_TLS_TIMEOUT = 2


class LeafPages:
    def __init__(self, service: LeafnodeService) -> None:
        self._service = service

    def contribute(self, monitoring: MonitoringModel) -> None:
        leafs = self._service.leafs
        monitoring.links["leaf"].view = self
        monitoring.varz.statistics["leafs"] = leafs
        monitoring.varz.contributions |= {"leaf": self.varz, "leafnodes": lambda: len(leafs)}
        monitoring.accountz.contributions["leafnode_connections"] = self._countIn

    def leafs(self) -> Iterable[LeafLink]:
        return self._service.leafs

    def _countIn(self, account: str) -> int:
        return sum(leaf.account == account for leaf in self._service.leafs)

    def varz(self) -> dict[str, Any]:
        block, service = self._service.block, self._service
        tls = block.tls
        listens = bool(service.port)
        told = {
            "host": block.host if listens else "",
            "port": service.port,
            "auth_timeout": number(handshakeOf(block)) if listens else 0,
            "tls_timeout": (_TLS_TIMEOUT if tls is None else number(tls.timeout)) * listens,
            "tls_required": tls is not None and listens,
            "tls_verify": tls is not None and tls.verify and listens,
            "remotes": [_remote(each) for each in block.remotes],
            "write_deadline": nanoseconds(block.write_deadline),
        }
        return {key: value for key, value in told.items() if value}


def _remote(remote: RemoteLeaf) -> dict[str, Any]:
    places = map(splitRemote, remote.urls)
    denied = {"exports": list(remote.deny_exports), "imports": list(remote.deny_imports)}
    told = {
        "local_account": remote.localAccount,
        "tls_timeout": 0 if remote.tls is None else number(remote.tls.timeout),
        "urls": [joined(each.host, each.port) for each in places],
        "deny": {key: value for key, value in denied.items() if value},
    }
    return {key: value for key, value in told.items() if value}
