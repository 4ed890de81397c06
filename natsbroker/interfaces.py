"""
The public facade of the contracts: every interface, under one name.
"""

from __future__ import annotations

from natsbroker._iauth import IAccountResolver, IAuthorizer
from natsbroker._ibus import (
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOrigin,
    IOutboxLink,
    IOutboxSubscriber,
    IPublishFilter,
    IRunSubscriber,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
)
from natsbroker._igateway import (
    IGatewayBus,
    IGatewayInterestPolicy,
    IGatewayLink,
    IGatewayPassage,
    IGatewayPolicyPlugin,
    IInterestTable,
)
from natsbroker._iservice import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IPrepared,
    IReloadable,
    IRouterPlugin,
)
from natsbroker._istore import (
    IExportableLog,
    IHeldLog,
    ILeasedStore,
    ILogCatalogue,
    ILogUser,
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
    "IReloadable",
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
