"""
The public facade of the contracts: every interface, under one name.
"""

from __future__ import annotations

from natsbroker._iauth import IAuthorizer
from natsbroker._ibus import (
    IBatchSubscriber,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOutboxSubscriber,
    IPublishFilter,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
)
from natsbroker._iservice import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IReloadable,
    IRouterPlugin,
)

__all__ = [
    "IAuthorizer",
    "IAuthorizerPlugin",
    "IBatchSubscriber",
    "IBrokerHost",
    "IBrokerService",
    "IInterestWatcher",
    "ILinkSubscriber",
    "IMessageBus",
    "IObserver",
    "IOutboxSubscriber",
    "IPublishFilter",
    "IReloadable",
    "IRouterPlugin",
    "ISubjectRouter",
    "ISubscriber",
    "ISubscription",
]
