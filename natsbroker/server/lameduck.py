"""
Lame duck mode: clients that understand INFO are notified. Then all are closed one after the other,
so that they do not reconnect elsewhere all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from natsbroker import errors
from natsbroker.clients.context import ClientContext
from natsbroker.clients.finding import sessionsOf
from natsbroker.clients.session import ClientSession
from natsbroker.config.model import Settings
from natsbroker.runtime.reload import LIFE

_log = Logger(namespace=LIFE)

_LONGEST = 1.0
"""The longest pause between two clients, in seconds."""

_SHORTEST = 0.001
"""The shortest pause; more clients at a time are closed instead of a shorter one."""


class LameDuck:
    def __init__(self, context: ClientContext, settings: Settings, random: Random) -> None:
        self._context = context
        self._settings = settings
        self._random = random
        self._waiting: Deferred[Any] | None = None

    async def depart(self, urls: tuple[str, ...] = ()) -> None:
        """
        Notify the clients, wait for the grace period, and close them. The listeners must be closed
        before. The mode ends early when L{cancel} is called, or no client is left.
        """
        context = self._context
        context.info = context.info.changed(ldm=True, connect_urls=urls)
        sessions = sessionsOf(context.connections)
        for session in sessions:
            session.sendInfo()
        context.connections.whenEmpty(self.cancel)
        if not sessions:
            return
        try:
            await self._pause(self._settings.lame_duck_grace_period)
            _log.info("Closing existing clients")
            await self._close(sessions)
        except CancelledError:
            return
        gone: Deferred[None] = Deferred()
        context.connections.whenEmpty(lambda: gone.callback(None))
        await gone

    def cancel(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    async def _close(self, sessions: Sequence[ClientSession]) -> None:
        settings = self._settings
        left = settings.lame_duck_duration - settings.lame_duck_grace_period
        pause = (left if left > 0 else 1.0) / len(sessions)
        batch = max(1, round(_SHORTEST / pause)) if pause < _SHORTEST else 1
        pause = min(max(pause, _SHORTEST), _LONGEST)
        for place, session in enumerate(sessions, 1):
            session.close(errors.SERVER_SHUTDOWN)
            if place % batch == 0 and place < len(sessions):
                await self._pause(pause * self._random.uniform(0.5, 1.0))

    async def _pause(self, seconds: float) -> None:
        reactor: Any = self._context.reactor
        self._waiting = deferLater(reactor, seconds)
        try:
            await self._waiting
        finally:
            self._waiting = None
