"""The contracts of stores, held for the provider in memory."""

from __future__ import annotations

from typing import Any

from natsbroker.mqtt.contracts import StoredPublish
from tests.mqtt.contracts import PublishContract, RetainedContract, SessionContract
from tests.mqtt.memorystores import MemoryPublishes, MemoryRetained, MemorySessions


class TestMemorySessions(SessionContract):
    """Sessions in memory."""

    def setUp(self) -> None:
        self.sessions = MemorySessions("A")

    def makeSessions(self, name: str) -> Any:
        return self.sessions.other(name)


class TestMemoryRetained(RetainedContract):
    """Retained messages in memory."""

    def makeRetained(self) -> Any:
        return MemoryRetained()


class TestMemoryPublishes(PublishContract):
    """Messages with QoS 1 and 2 in memory."""

    def makePublishes(self) -> Any:
        return MemoryPublishes()

    def published(self, store: Any) -> list[StoredPublish]:
        messages: list[StoredPublish] = store.published
        return messages


# The suites themselves have no store.
del PublishContract, RetainedContract, SessionContract
