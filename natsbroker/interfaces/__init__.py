"""
The public contracts: every interface with the values that it takes or gives and the errors that it
raises.
"""

from __future__ import annotations

import sys
from types import ModuleType

from natsbroker.interfaces.auth import IAccountResolver, IAuthorizer
from natsbroker.interfaces.bus import (
    IAckSubscriber,
    IBatchSubscriber,
    IClusterInterestWatcher,
    IInterestWatcher,
    ILinkSubscriber,
    IMessageBus,
    IOrigin,
    IOutboxLink,
    IOutboxSubscriber,
    IPeerOrigin,
    IPublisher,
    IPublishFilter,
    IRunSubscriber,
    ISubjectRouter,
    ISubscriber,
    ISubscription,
    ITracedSubscriber,
)
from natsbroker.interfaces.clients import (
    IClientDialect,
    IClientEvents,
    IClientFactory,
    IClientSession,
)
from natsbroker.interfaces.gateways import (
    IGatewayInterestPolicy,
    IGatewayPolicyPlugin,
    IInterestTable,
)
from natsbroker.interfaces.links import (
    IConnectionKind,
    IConnectionService,
    ILinks,
    IPeerService,
)
from natsbroker.interfaces.records import (
    Columns,
    EncodedRecord,
    Entry,
    Histogram,
    LeaseCensus,
    LeaseHolder,
    LeaseLost,
    LogBounds,
    LogReadOnly,
    Matching,
    NoSuchLog,
    RangeDigest,
    Record,
    RecordDamaged,
    RecordList,
    Retention,
    ScrubFigures,
    SequenceTooLarge,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFigures,
    StoreFull,
    StoreLocked,
    SubjectTallies,
    SubjectTally,
    UnknownFormat,
)
from natsbroker.interfaces.services import (
    IAuthorizerPlugin,
    IBrokerHost,
    IBrokerService,
    IObserver,
    IOptionsCheck,
    IReadiness,
    IReloadable,
    IRouterPlugin,
    ITurns,
    IWorkerPlugin,
)
from natsbroker.interfaces.storage import (
    ICountedLog,
    IExportableLog,
    IGroupingLog,
    IHeldLog,
    ILeasedStore,
    IMeasuredStore,
    IReportingStore,
    IRetainedLog,
    IShortcutLog,
    IStateStore,
    IStoreOpener,
    IStoreWatcher,
    IStreamLog,
    IStreamStore,
    ISubjectIndexedLog,
    IViewableStore,
)
from natsbroker.wire.grants import Grant
from natsbroker.wire.values import ClientInfo, Kind, Message, Run

__all__ = [
    "ClientInfo",
    "Columns",
    "EncodedRecord",
    "Entry",
    "Grant",
    "Histogram",
    "IAccountResolver",
    "IAckSubscriber",
    "IAuthorizer",
    "IAuthorizerPlugin",
    "IBatchSubscriber",
    "IBrokerHost",
    "IBrokerService",
    "IClientDialect",
    "IClientEvents",
    "IClientFactory",
    "IClientSession",
    "IClusterInterestWatcher",
    "IConnectionKind",
    "IConnectionService",
    "ICountedLog",
    "IExportableLog",
    "IGatewayInterestPolicy",
    "IGatewayPolicyPlugin",
    "IGroupingLog",
    "IHeldLog",
    "IInterestTable",
    "IInterestWatcher",
    "ILeasedStore",
    "ILinkSubscriber",
    "ILinks",
    "IMeasuredStore",
    "IMessageBus",
    "IObserver",
    "IOptionsCheck",
    "IOrigin",
    "IOutboxLink",
    "IOutboxSubscriber",
    "IPeerOrigin",
    "IPeerService",
    "IPublishFilter",
    "IPublisher",
    "IReadiness",
    "IReloadable",
    "IReportingStore",
    "IRetainedLog",
    "IRouterPlugin",
    "IRunSubscriber",
    "IShortcutLog",
    "IStateStore",
    "IStoreOpener",
    "IStoreWatcher",
    "IStreamLog",
    "IStreamStore",
    "ISubjectIndexedLog",
    "ISubjectRouter",
    "ISubscriber",
    "ISubscription",
    "ITracedSubscriber",
    "ITurns",
    "IViewableStore",
    "IWorkerPlugin",
    "Kind",
    "LeaseCensus",
    "LeaseHolder",
    "LeaseLost",
    "LogBounds",
    "LogReadOnly",
    "Matching",
    "Message",
    "NoSuchLog",
    "RangeDigest",
    "Record",
    "RecordDamaged",
    "RecordList",
    "Retention",
    "Run",
    "ScrubFigures",
    "SequenceTooLarge",
    "StoreClosed",
    "StoreError",
    "StoreFailed",
    "StoreFigures",
    "StoreFull",
    "StoreLocked",
    "SubjectTallies",
    "SubjectTally",
    "UnknownFormat",
]


class _Documented(ModuleType):
    """
    Adds the interfaces' methods to the documentation of this module: C{help()} does not show those
    of zope interfaces.
    """

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from zope.interface.document import asStructuredText
        from zope.interface.interface import InterfaceClass

        opening: str = self.__dict__["__doc__"]
        values = [getattr(self, name) for name in __all__]
        texts = [asStructuredText(value) for value in values if isinstance(value, InterfaceClass)]
        return "\n".join([opening, *texts])


sys.modules[__name__].__class__ = _Documented
