"""
Direct gets of streams that the broker does not lead, from the database that all brokers share.

Direct gets are thus answered while a stream has no leader. Each request reads everything that was
durable when it came. So a client finds its acknowledged messages, whichever broker answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from natsbroker.interfaces import IViewableStore
from natsbroker.jetstream.account import JetStreamAccount
from natsbroker.jetstream.model.streamconfig import StreamConfig
from natsbroker.jetstream.storenames import logName
from natsbroker.jetstream.streams.directget import DirectGetResponder
from natsbroker.jetstream.streams.streamrecords import StreamRecords

if TYPE_CHECKING:
    from natsbroker.interfaces.storage import IStreamStore

REREAD = 10
"""The calls of L{DirectViews.follow} after which configurations are read again in any case."""


class StreamView(StreamRecords):
    """A stream that another broker leads, or that has no leader."""

    def __init__(
        self, account: JetStreamAccount, store: IStreamStore, config: StreamConfig
    ) -> None:
        super().__init__(config, None)
        self.account = account
        self.name = config.name
        self._store: Any = store
        stream: Any = self
        self._responder = DirectGetResponder(stream)
        self._responder.applyConfig()

    def settle(self) -> Deferred[None]:
        """Read which messages are durable now."""
        viewing: Deferred[Any] = self._store.view(logName(self.account.name, self.name))
        return viewing.addCallback(self._viewed)

    def _viewed(self, log: Any) -> None:
        self.log = log

    def close(self) -> None:
        """Answer no more requests."""
        self._responder.close()


class DirectViews:
    """The views of one account."""

    def __init__(
        self,
        account: JetStreamAccount,
        store: IStreamStore,
        configs: Callable[[], Awaitable[Mapping[str, StreamConfig]]],
    ) -> None:
        """The views; C{configs} gives the configurations of all streams of the account."""
        self._account = account
        self._store = store
        self._configs = configs
        self._views: dict[str, StreamView] = {}
        self._leaders: dict[str, str | None] = {}
        self._calls = 0

    async def follow(self, leaders: Mapping[str, str | None]) -> None:
        """
        Answer for the streams that this broker does not lead and that allow direct get.

        @param leaders: the leaders of the account's logs, by log.
        """
        self._calls += 1
        if not IViewableStore.providedBy(self._store):
            return
        if leaders == self._leaders and self._calls % REREAD:
            return
        configs = await self._configs()
        self._leaders = dict(leaders)
        wanted = {
            name: config
            for name, config in configs.items()
            if config.allow_direct and name not in self._account.streams
        }
        for name, view in list(self._views.items()):
            if wanted.get(name) != view.config:
                view.close()
                del self._views[name]
        for name in wanted.keys() - self._views.keys():
            self._views[name] = StreamView(self._account, self._store, wanted[name])

    def close(self) -> None:
        """Answer no more requests."""
        views, self._views = self._views, {}
        for view in views.values():
            view.close()
