"""A cache of OCSP answers about certificates of peers, in memory and optionally in a file."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from twisted.logger import Logger

from natsbroker.config.ocsp import OCSPCache
from natsbroker.files import replaceFile

_log = Logger(namespace="natsbroker")

#: The most answers that are kept; the oldest go first.
_MOST = 10_000


class AnswerCache:
    """Answers by the fingerprint of their certificate. Readers verify them again."""

    def __init__(self, settings: OCSPCache) -> None:
        self._settings = settings
        self._answers: dict[str, tuple[bytes, bool]] = {}
        self._isChanged = False

    @property
    def _path(self) -> Path:
        return Path(self._settings.local_store) / "natsbroker-ocsp.json"

    def load(self) -> None:
        if self._settings.type != "local":
            return
        try:
            rows = json.loads(self._path.read_text("ascii"))
            self._answers = {
                str(key): (base64.b64decode(data, validate=True), bool(isRevoked))
                for key, (data, isRevoked) in rows.items()
            }
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            _log.warn("Unable to load OCSP peer cache: {why}", why=str(error))

    def save(self) -> None:
        if self._settings.type != "local" or not self._isChanged:
            return
        rows = {
            key: (base64.b64encode(data).decode("ascii"), isRevoked)
            for key, (data, isRevoked) in self._answers.items()
        }
        try:
            os.makedirs(self._settings.local_store, mode=0o700, exist_ok=True)
            replaceFile(self._path, lambda path: path.write_text(json.dumps(rows), "ascii"))
        except OSError as error:
            _log.warn("Unable to save OCSP peer cache: {why}", why=str(error))
        else:
            self._isChanged = False

    def get(self, key: str) -> bytes | None:
        answer = self._answers.get(key)
        return None if answer is None else answer[0]

    def isRevoked(self, key: str) -> bool:
        """Whether the last answer, expired or not, was that the certificate is revoked."""
        return self._answers.get(key, (b"", False))[1]

    def put(self, key: str, data: bytes, isRevoked: bool) -> None:
        if self._settings.type == "none":
            return
        self._answers.pop(key, None)
        if len(self._answers) >= _MOST:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = data, isRevoked
        self._isChanged = True

    def drop(self, key: str) -> None:
        if self._settings.preserve_revoked and self.isRevoked(key):
            return
        if self._answers.pop(key, None) is not None:
            self._isChanged = True
