"""
A stage with the API.
"""

from __future__ import annotations

import json
from typing import Any

from natsbroker.jetstream.api.consumers import CONSUMER_ROUTES
from natsbroker.jetstream.api.dispatcher import ApiDispatcher
from natsbroker.jetstream.api.snapshots import SNAPSHOT_ROUTES
from natsbroker.jetstream.api.streams import STREAM_ROUTES
from tests.jetstream.support import Stage


class ApiStage(Stage):
    """
    An account whose API is served.
    """

    def __init__(self) -> None:
        super().__init__()
        self.api = ApiDispatcher(
            self.jetstream, (*STREAM_ROUTES, *SNAPSHOT_ROUTES, *CONSUMER_ROUTES)
        )
        self.api.start()

    def ask(self, subject: str, body: Any = b"", **headers: str) -> Any:
        """
        The answer to a request behind C{$JS.API.}; C{None} for silence.

        @param body: bytes, or what becomes JSON.
        """
        inbox = self.inbox(b"_INBOX.api")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"$JS.API.{subject}".encode(), data, b"_INBOX.api", **headers)
        self.settle()
        answers = inbox.payloads
        return json.loads(answers[0]) if answers else None

    def failure(self, subject: str, body: Any = b"", **headers: str) -> tuple[int, int]:
        """The code and err_code of the error that answers a request."""
        error = self.ask(subject, body, **headers)["error"]
        return error["code"], error["err_code"]

    def make(self, **config: Any) -> Any:
        """Create a stream, by default C{S} with the subjects C{s.>}."""
        config = {"name": "S", "subjects": ["s.>"], **config}
        return self.ask(f"STREAM.CREATE.{config['name']}", config)
