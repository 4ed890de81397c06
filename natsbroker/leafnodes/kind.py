"""
Leafnodes as a kind of connection. What it calls loads only for a broker that has leafnodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from natsbroker.auth.settings import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from natsbroker.config.blocks import Diagnostics, ParsedBlock
    from natsbroker.config.model import Settings


class LeafnodeKind:
    """
    Provides L{natsbroker.interfaces.IConnectionKind}. A reload that is the first to name leafnodes
    finds a service that listens nowhere, which a reload cannot change, and dials no remote yet.
    """

    name = "leaf"
    key = "leafnodes"
    dialect = "nats-leaf"
    page = "/leafz"
    reloadError = ""

    def read(self, root: ParsedBlock, diagnostics: Diagnostics, read: Callable[[str], str]) -> Any:
        from natsbroker.leafnodes.reading import leafnodesFrom

        return leafnodesFrom(root, diagnostics, read)

    def check(self, settings: Settings, root: ParsedBlock, diagnostics: Diagnostics) -> Settings:
        if settings.leafnodes is None:
            return settings
        from natsbroker.leafnodes.reading import checkLeafnodes

        names = {GLOBAL_ACCOUNT, *settings.accounts}
        if not settings.no_system_account:
            names.add(settings.system_account)
        isOperated = settings.operator.isOn
        checkLeafnodes(settings.leafnodes, names, isOperated, root, diagnostics)
        return settings

    def isConfigured(self, settings: Settings) -> bool:
        return settings.leafnodes is not None

    def accounts(self, settings: Settings) -> Iterable[str]:
        block = settings.leafnodes
        return () if block is None else (block.account, *(each.account for each in block.remotes))

    def makePage(self, state: Any) -> Any:
        from natsbroker.leafnodes.leafz import Leafz

        return Leafz(state)

    def makeService(self, host: Any, links: Any) -> Any:
        from natsbroker.leafnodes.service import LeafnodeService

        return LeafnodeService(links.dependencies, lambda: links.find("route"))

    def contribute(self, service: Any, monitoring: Any) -> None:
        from natsbroker.leafnodes.pages import LeafPages

        LeafPages(service).contribute(monitoring)
