"""
Two requests at the same time: the answers and the result are those of nats-server for the two
requests one after the other, in either order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jetstream.asking import STORAGE
from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, REAL, Server

_Request = tuple[str, bytes]


def _stream(verb: str, name: str = "S", **config: Any) -> _Request:
    body = {"name": name, "subjects": [f"{name}.>"], **config}
    return f"STREAM.{verb}.{name}", json.dumps(body).encode()


def _consumer(name: str = "c", action: str = "", **config: Any) -> _Request:
    config = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    body = {"stream_name": "S", "action": action, "config": config}
    return f"CONSUMER.CREATE.S.{name}", json.dumps(body).encode()


_MADE, _CONSUMER = _stream("CREATE"), _consumer()
_DELETED, _LOST = ("STREAM.DELETE.S", b""), ("CONSUMER.DELETE.S.c", b"")
_PURGED = ("STREAM.PURGE.S", b"")
_PAUSED = ("CONSUMER.PAUSE.S.c", b'{"pause_until":"2040-01-01T00:00:00Z"}')
_ERASED = ("STREAM.MSG.DELETE.S", b'{"seq":1}')
_LARGE = 6 * 10**9

#: What there is before, and the two requests.
RACES: dict[str, tuple[tuple[_Request, ...], _Request, _Request]] = {
    "sameStream": ((), _MADE, _MADE),
    "otherConfig": ((), _MADE, _stream("CREATE", max_msgs=5)),
    "otherStorage": ((), _MADE, _stream("CREATE", storage="memory")),
    "overlap": ((), _MADE, _stream("CREATE", "T", subjects=["S.a"])),
    "room": ((), _stream("CREATE", max_bytes=_LARGE), _stream("CREATE", "T", max_bytes=_LARGE)),
    "createDelete": ((), _MADE, _DELETED),
    "deleteDelete": ((_MADE,), _DELETED, _DELETED),
    "deleteCreate": ((_MADE,), _DELETED, _stream("CREATE", max_msgs=7)),
    "updates": ((_MADE,), _stream("UPDATE", max_msgs=7), _stream("UPDATE", max_msgs=8)),
    "updateDelete": ((_MADE,), _stream("UPDATE", max_msgs=7), _DELETED),
    "updatesOverlap": (
        (_MADE, _stream("CREATE", "T")),
        _stream("UPDATE", subjects=["S.>", "u"]),
        _stream("UPDATE", "T", subjects=["T.>", "u"]),
    ),
    "sameConsumer": ((_MADE,), _CONSUMER, _CONSUMER),
    "consumers": ((_MADE,), _CONSUMER, _consumer(max_deliver=3)),
    "immutable": ((_MADE,), _CONSUMER, _consumer(ack_policy="none")),
    "created": (
        (_MADE,),
        _consumer(action="create"),
        _consumer(action="create", max_deliver=4),
    ),
    "createUpdate": ((_MADE,), _CONSUMER, _consumer(action="update", max_deliver=4)),
    "consumerDelete": ((_MADE,), _CONSUMER, _LOST),
    "consumerDeletes": ((_MADE, _CONSUMER), _LOST, _LOST),
    "consumerStream": ((_MADE,), _CONSUMER, _DELETED),
    "bothDeleted": ((_MADE, _CONSUMER), _LOST, _DELETED),
    "consumerInfo": ((_MADE,), _CONSUMER, ("CONSUMER.INFO.S.c", b"")),
    "workqueue": ((_stream("CREATE", retention="workqueue"),), _CONSUMER, _consumer("d")),
    "maxConsumers": ((_stream("CREATE", max_consumers=1),), _CONSUMER, _consumer("d")),
    "limits": ((_MADE, _CONSUMER), _stream("UPDATE", retention="interest"), _consumer("d")),
    "purges": ((_MADE,), _PURGED, _PURGED),
    "purgeDelete": ((_MADE,), _PURGED, _DELETED),
    "erased": ((_MADE,), _ERASED, _ERASED),
    "purgeErase": ((_MADE,), _PURGED, _ERASED),
    "pauseDelete": ((_MADE, _CONSUMER), _PAUSED, _LOST),
    "infoDelete": ((_MADE,), ("STREAM.INFO.S", b""), _DELETED),
    "listDelete": ((_MADE,), ("STREAM.LIST", b""), _DELETED),
    "consumersDelete": ((_MADE, _CONSUMER), ("CONSUMER.LIST.S", b""), _DELETED),
    "namesDelete": ((_MADE, _CONSUMER), ("CONSUMER.NAMES.S", b""), _LOST),
}


class Racer:
    """A client whose requests a server receives one after the other, or at the same time."""

    def __init__(self, server: Server) -> None:
        self._client = Client(server)
        self._inbox = self._client.subscribe(b"_INBOX.>")

    def _publish(self, number: int, request: _Request) -> None:
        self._client.publish(f"$JS.API.{request[0]}".encode(), request[1], b"_INBOX.%d" % number)

    def _ask(self, request: _Request) -> Any:
        self._publish(0, request)
        return _shown(self._client.take(self._inbox, 1)[0])

    def run(self, before: tuple[_Request, ...], *requests: _Request, isTogether: bool) -> Any:
        """
        @return: the sorted answers, and the streams and the consumer that exist afterwards.
        """
        for name in "ST":
            self._ask((f"STREAM.DELETE.{name}", b""))
        for request in before:
            self._ask(request)
        if any(subject == "STREAM.CREATE.S" for subject, _ in before):
            # At times a stream of nats-server has messages of one that was deleted just before.
            self._ask(("STREAM.PURGE.S", b""))
            for _ in range(3):
                self._client.publish(b"S.x", b"hi", b"_INBOX.stored")
            self._client.take(self._inbox, 3)
        if isTogether:
            for number, request in enumerate(requests):
                self._publish(number, request)
            answers = [_shown(message) for message in self._client.take(self._inbox, len(requests))]
        else:
            answers = [self._ask(request) for request in requests]
        left = [self._ask((f"STREAM.INFO.{name}", b"")) for name in "ST"]
        left.append(self._ask(("CONSUMER.INFO.S.c", b"")))
        return json.dumps([sorted(answers, key=json.dumps), left])


def _shown(answer: bytes) -> Any:
    """The part of an answer that does not depend on its time."""
    document = json.loads(answer)
    state = document.get("state", {})
    error = document.get("error", {}).get("err_code", 0)
    lists = [len(document.get(key) or ()) for key in ("streams", "consumers")]
    config = {key: value for key, value in document.get("config", {}).items() if key != "metadata"}
    counts = [document.get(key) for key in ("purged", "paused", "success", "did_create")]
    return [document["type"], error, config, state.get("messages"), lists, counts]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Racer]]:
    """nats-server and natsbroker."""
    place: Path = tmp_path_factory.mktemp("races")
    servers = []
    for flavour in (REAL, OURS_FAST):
        directory = place / flavour.name
        directory.mkdir()
        servers.append(Server(flavour, directory, STORAGE))
    try:
        for server in servers:
            server.start()
        yield [Racer(server) for server in servers]
    finally:
        for server in servers:
            server.stop()


@pytest.mark.parametrize("name", RACES)
def test_oneAfterTheOther(pair: list[Racer], name: str) -> None:
    """Two requests at the same time have the result of one of their two orders."""
    real, ours = pair
    before, *requests = RACES[name]
    orders = (requests, requests[::-1])
    outcome = ours.run(before, *requests, isTogether=True)
    expected: set[str] = set()
    for _ in range(3):
        expected |= {real.run(before, *order, isTogether=False) for order in orders}
        if outcome in expected:
            break
    assert outcome in expected
