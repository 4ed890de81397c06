"""
The public facade of the contracts: every interface, under one name.
"""

from __future__ import annotations

import sys
from types import ModuleType

from natsbroker.interfaces.auth import IAccountResolver, IAuthorizer
from natsbroker.interfaces.bus import (
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOrigin,
    IOutboxLink,
    IOutboxSubscriber,
    IPublisher,
    IPublishFilter,
    IRunSubscriber,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
)
from natsbroker.interfaces.gateways import (
    IGatewayBus,
    IGatewayInterestPolicy,
    IGatewayLink,
    IGatewayPassage,
    IGatewayPolicyPlugin,
    IInterestTable,
)
from natsbroker.interfaces.services import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IPrepared,
    IReloadable,
    IRouterPlugin,
)
from natsbroker.interfaces.storage import (
    IExportableLog,
    IHeldLog,
    ILeasedStore,
    ILogCatalogue,
    ILogUser,
    IReportingStore,
    IRetainedLog,
    IStateStore,
    IStoreOpener,
    IStoreWatcher,
    IStreamLog,
    IStreamStore,
    ISubjectIndexedLog,
)

__all__ = [
    "IAccountResolver",
    "IAuthorizer",
    "IAuthorizerPlugin",
    "IBatchSubscriber",
    "IBrokerHost",
    "IBrokerService",
    "IExportableLog",
    "IGatewayBus",
    "IGatewayInterestPolicy",
    "IGatewayLink",
    "IGatewayPassage",
    "IGatewayPolicyPlugin",
    "IHeldLog",
    "IInterestTable",
    "IInterestWatcher",
    "ILeasedStore",
    "ILinkSubscriber",
    "ILogCatalogue",
    "ILogUser",
    "IMessageBus",
    "IObserver",
    "IOrigin",
    "IOutboxLink",
    "IOutboxSubscriber",
    "IPrepared",
    "IPublishFilter",
    "IPublisher",
    "IReloadable",
    "IReportingStore",
    "IRetainedLog",
    "IRouterPlugin",
    "IRunSubscriber",
    "IStateStore",
    "IStoreOpener",
    "IStoreWatcher",
    "IStreamLog",
    "IStreamStore",
    "ISubjectIndexedLog",
    "ISubjectRouter",
    "ISubscriber",
    "ISubscription",
]


class _Documented(ModuleType):
    """
    A module of interfaces whose documentation shows their methods, which C{help()} leaves out of
    what it says about instances.
    """

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from zope.interface.document import asStructuredText

        opening: str = self.__dict__["__doc__"]
        return "\n".join([opening, *(asStructuredText(getattr(self, name)) for name in __all__)])


sys.modules[__name__].__class__ = _Documented
