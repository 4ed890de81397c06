"""
An auth callout service written with nats-py, as users write them: it reads the server's requests
and answers as the test decides.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from types import TracebackType
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.auth.callout.questions import Curve, Question
from tests.interop.auth.peers import Both, Peer
from tests.interop.servers import PATIENCE, Server

__all__ = ["CalloutService", "Decide", "Worlds"]

#: What is answered: bytes, or nothing.
Decide = Callable[[Question], "bytes | None"]


class CalloutService:
    """
    The service, on a thread of its own.

    @ivar questions: the requests received.
    @ivar decide: makes the answer to a request.
    """

    def __init__(
        self, server: Server, decide: Decide, curve: Curve | None = None, **login: Any
    ) -> None:
        """
        @param login: the options with which the service logs in.
        """
        self.decide = decide
        self.questions: list[Question] = []
        self._curve = curve
        self._url = server.url
        self._login = login
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._client: Client | None = None

    def __enter__(self) -> CalloutService:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._run(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _start(self) -> None:
        self._client = await nats.connect(self._url, connect_timeout=PATIENCE, **self._login)
        await self._client.subscribe("$SYS.REQ.USER.AUTH", cb=self._asked)
        await self._client.flush()

    async def _stop(self) -> None:
        assert self._client is not None
        await self._client.close()

    async def _asked(self, message: Msg) -> None:
        question = Question(message.data, dict(message.headers or {}), self._curve)
        self.questions.append(question)
        answer = self.decide(question)
        if answer is not None:
            await message.respond(answer)


class Worlds:
    """
    Both servers, each with a service.

    @ivar services: the services, in the order of the servers.
    """

    def __init__(self, both: Both, curve: Curve | None = None, **login: Any) -> None:
        """
        @param login: the options with which the services log in.
        """
        self.both = both
        self.services = [
            CalloutService(server, lambda question: None, curve, **login) for server in both.servers
        ]
        for service in self.services:
            service.__enter__()

    def stop(self) -> None:
        """Stop services and servers."""
        for service in self.services:
            service.__exit__(None, None, None)
        self.both.stop()

    def questions(self) -> list[Question]:
        """The last request of each server."""
        return [service.questions[-1] for service in self.services]

    def counts(self) -> list[int]:
        """The number of requests to each service."""
        return [len(service.questions) for service in self.services]

    def compare(self, decide: Decide, play: Callable[[Server], Any]) -> Any:
        """
        Do the same at both servers, while the services decide.

        @return: the result, which must be the same at both.
        """
        for service in self.services:
            service.decide = decide
        return self.both.compare(play)

    def login(
        self, decide: Decide, options: Mapping[str, Any] | None = None, *asks: bytes
    ) -> list[str]:
        """Log in at both servers, and send further lines if the login succeeds."""
        hello = {"user": "bob", "pass": "secret"} if options is None else options

        def play(server: Server) -> list[str]:
            with closing(Peer(server)) as peer:
                answers = [peer.login(options=hello)]
                if not answers[0]:
                    answers += [peer.ask(ask) for ask in asks]
                return answers

        compared: list[str] = self.compare(decide, play)
        return compared
