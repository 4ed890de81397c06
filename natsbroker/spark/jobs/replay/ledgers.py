"""Progress of tasks that publish, in the key-value bucket C{NB_REPLAY} of the target's server."""

from __future__ import annotations

import msgspec

from natsbroker.spark.errors import ApiError, DataSourceError
from natsbroker.spark.logs.apis import NO_STREAM, StreamApi
from natsbroker.spark.nats.publishing import Pipeline, Publisher

BUCKET = "NB_REPLAY"

_STREAM = f"KV_{BUCKET}"
_VERSION = 1

#: nats-server's numbers: a stream of that name is there already, and somebody else wrote before.
_IS_THERE, _WRONG_LAST = 10058, 10071


class LedgerEntry(msgspec.Struct, frozen=True):
    """
    @ivar plan: a digest of what is published where.
    @ivar created: the creation time of the target stream, which identifies it.
    @ivar row: the last row up to which the stream has all.
    @ivar at: up to this sequence, the stream has no row behind C{row}.
    @ivar inbox: a subject of the connection that publishes now; empty if none does.
    """

    plan: str
    created: str
    row: int
    at: int
    inbox: str = ""
    v: int = _VERSION


class ReplayLedger:
    def __init__(self, streams: StreamApi, job: str, partition: int, pipeline: Pipeline) -> None:
        self._streams = streams
        self._publisher = Publisher(streams.connection, _STREAM, 1, pipeline)
        self._key = f"{job}.{partition}"
        self._subject = f"$KV.{BUCKET}.{self._key}"
        self._revision = 0
        self.isWriting = False

    def make(self, replicas: int) -> None:
        try:
            self._streams.state(_STREAM)
            return
        except ApiError as error:
            if error.code != NO_STREAM:
                raise
        config = {
            "name": _STREAM,
            "subjects": [f"$KV.{BUCKET}.>"],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
            "num_replicas": replicas,
        }
        try:
            self._streams.call(f"STREAM.CREATE.{_STREAM}", config, _STREAM)
        except ApiError as error:
            if error.code != _IS_THERE:
                raise

    def read(self) -> LedgerEntry | None:
        try:
            message = self._streams.message(_STREAM, {"last_by_subj": self._subject})
        except ApiError as error:
            if error.code != NO_STREAM:
                raise
            message = None
        self._revision, _, data = message or (0, b"", b"")
        if not data:
            return None  # The entry is missing, or was deleted.
        try:
            entry = msgspec.json.decode(data, type=LedgerEntry)
        except (msgspec.MsgspecError, RecursionError):
            raise DataSourceError(f"{BUCKET}: the entry {self._key} is malformed") from None
        if entry.v != _VERSION:
            raise DataSourceError(
                f"{BUCKET}: the entry {self._key} is of another version of this job"
            )
        return entry

    def write(self, entry: LedgerEntry) -> None:
        if self.isWriting:
            raise RuntimeError("an entry is on its way")
        self.isWriting = True
        data = msgspec.json.encode(entry)
        last = ("Nats-Expected-Last-Subject-Sequence", str(self._revision))
        told = self._written, self._refused
        self._publisher.publish(self._subject, data, [last], None, *told)

    def _written(self, sequence: int, isDuplicate: bool) -> None:
        self._revision = sequence
        self.isWriting = False

    def _refused(self, error: ApiError) -> None:
        if error.code != _WRONG_LAST:
            raise error
        raise DataSourceError(f"replay {self._key} is being done by another process") from None
