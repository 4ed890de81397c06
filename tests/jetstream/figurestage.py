"""
A stage with what monitoring shows of JetStream.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.config.model import JetStream
from natsbroker.jetstream.figures import JetStreamFigures
from natsbroker.jetstream.health import jetStreamCheck
from natsbroker.jetstream.jsz import Jsz
from natsbroker.monitoring.answers import collected
from natsbroker.monitoring.healthz import Healthz
from tests.jetstream.api.support import ApiStage
from tests.monitoring.staging import Stage as PageStage

__all__ = ["FigureStage"]


class FigureStage(ApiStage):
    """
    An account C{A} with a stream C{S} of two messages, and an account C{B} without streams.
    """

    def __init__(self, settings: JetStream | None = None) -> None:
        super().__init__()
        other = ApiStage()
        other.jetstream.name = "B"
        self.isRunning = True
        self.figures: JetStreamFigures | None = JetStreamFigures(
            {"B": other.jetstream, "A": self.jetstream},
            settings or JetStream(enabled=True),
            "/data/jetstream",
            lambda: self.isRunning,
        )
        self.make()
        for payload in (b"one", b"two"):
            self.publish(b"s.a", payload)
        self._page = Jsz(PageStage().model.varz._state, lambda: self.figures)
        self._healthz = Healthz([jetStreamCheck(lambda: self.figures)])

    def page(self, **query: str) -> Any:
        """Get C{/jsz} as a document."""
        made: list[bytes] = []
        answer = self._page({key.replace("_", "-"): value for key, value in query.items()})
        assert answer.status == 200
        for waiting in collected(answer.body, made):
            if waiting is not None:
                self.wait(waiting)
        return json.loads(b"".join(made))

    def details(self, **query: str) -> dict[str, Any]:
        """
        The accounts in C{/jsz}, by name.
        """
        return {
            account["name"]: account for account in self.page(**query).get("account_details", ())
        }

    def health(self, **query: str) -> tuple[int, Any]:
        """
        Status and document of C{/healthz}.
        """
        answer = self._healthz({key.replace("_", "-"): value for key, value in query.items()})
        return answer.status, json.loads(b"".join(answer.body))
