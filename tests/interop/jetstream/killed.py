"""
Clients of a JetStream whose broker is killed under load, and its promises to them.

C{python -m tests.interop.jetstream.killed DIRECTORY ROUNDS SEED} does any number of rounds.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.interop.plainclients import Client
from tests.interop.servers import OURS_FAST, PATIENCE, Server

__all__ = ["Api", "Lost", "Unserved", "Workload", "work"]

STORAGE = 'jetstream { store_dir: "$DIR/js", max_file: 4GB, sync_interval: "$INTERVAL" }'

_MOST = 5
"""C{max_deliver} of the consumer that seldom acknowledges."""

_SECOND = 1_000_000_000

_GONE = (ConnectionError, TimeoutError, OSError)

_UNSERVED = b"NATS/1.0 503"


class Lost(AssertionError):
    """A promise was broken."""


class Unserved(Lost):
    """A subject has no responders; the argument is the subject."""


class Api:
    """A client that sends one request at a time."""

    def __init__(self, server: Server) -> None:
        self.client = Client(server)
        self._inbox = self.client.subscribe(b"_INBOX.%d.*" % id(self))
        self._replies: Iterator[bytes] = (
            b"_INBOX.%d.%d" % (id(self), number) for number in itertools.count()
        )

    def request(self, subject: str, body: bytes = b"", headers: bytes = b"") -> bytes:
        """
        @return: the body of the answer.
        """
        self.client.publish(subject.encode(), body, next(self._replies), headers)
        return self._answer(subject)

    def _answer(self, subject: str) -> bytes:
        _, headers, body = self.client.messages(self._inbox, 1)[0]
        if headers.startswith(_UNSERVED):
            raise Unserved(subject)
        return body

    def requests(self, subjects: list[bytes], body: bytes) -> Iterator[bytes]:
        """
        Send requests together.

        @return: the bodies of the answers.
        """
        for subject in subjects:
            self.client.publish(subject, body, next(self._replies))
        for subject in subjects:
            yield self._answer(subject.decode())

    def ask(self, subject: str, **fields: Any) -> dict[str, Any]:
        """
        @return: the answer to a request below C{$JS.API}.
        @raise Lost: if it is an error.
        """
        body = json.dumps(fields).encode() if fields else b""
        answer: dict[str, Any] = json.loads(self.request(f"$JS.API.{subject}", body))
        if "error" in answer:
            raise Lost(f"{subject}: {answer['error']}")
        return answer

    def published(
        self, subject: str, bodies: list[bytes], headers: list[bytes]
    ) -> Iterator[dict[str, Any]]:
        """
        Publish messages together.

        @return: the acknowledgements, in order.
        """
        for body, block in zip(bodies, headers, strict=True):
            self.client.publish(subject.encode(), body, next(self._replies), block)
        for _ in bodies:
            yield json.loads(self._answer(subject))

    def fetch(self, stream: str, consumer: str, count: int) -> list[tuple[bytes, bytes]]:
        """
        @return: the available messages, as reply subjects and bodies.
        """
        reply = next(self._replies)
        body = json.dumps({"batch": count, "no_wait": True}).encode()
        self.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}".encode(), body, reply)
        failures: list[tuple[bytes, bytes]] = []
        while len(failures) < count:
            address, headers, payload = self.client.messages(self._inbox, 1)[0]
            if headers and not address:
                break
            failures.append((address, payload))
        return failures


Work = Callable[[Api, Random], None]


def _position(reply: bytes) -> tuple[int, int]:
    """
    @return: the sequence of a message in its stream, and the number of its deliveries.
    """
    words = reply.split(b".")
    return int(words[5]), int(words[4])


@dataclass
class Workload:
    """
    The work of clients, and their knowledge of it.

    @ivar stored: acknowledged publishes: bodies by stream and sequence.
    @ivar asked: every body that was published.
    @ivar delivered: sequences by consumer, with the number of deliveries.
    @ivar acked: sequences by consumer whose acknowledgement was answered.
    @ivar streams: descriptions of streams whose last change was answered.
    @ivar consumers: descriptions of consumers whose last change was answered.
    @ivar _present: by sequence, the number of deliveries by the running broker to the consumer with
        a limit.
    @ivar _sent: sequences that may not be delivered again to that consumer, even after crashes.
    @ivar unsure: names whose last change was not answered.
    """

    server: Server
    random: Random
    stored: dict[tuple[str, int], bytes] = field(default_factory=dict)
    asked: set[bytes] = field(default_factory=set)
    delivered: dict[str, Counter[int]] = field(default_factory=dict)
    acked: dict[str, set[int]] = field(default_factory=dict)
    streams: dict[str, str | None] = field(default_factory=dict)
    consumers: dict[str, str | None] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    problems: list[BaseException] = field(default_factory=list)
    identified: list[bytes] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _present: Counter[int] = field(default_factory=Counter)
    _sent: set[int] = field(default_factory=set)

    def prepare(self) -> None:
        """Create the streams and consumers that stay."""
        api = Api(self.server)
        for name, more in (
            ("LIMITS", {}),
            ("QUEUE", {"retention": "workqueue"}),
            ("INTEREST", {"retention": "interest"}),
        ):
            subjects = [f"{name}.>"]
            api.ask(f"STREAM.CREATE.{name}", name=name, subjects=subjects, **more)
        self._consume(api, "LIMITS", "seldom", max_deliver=_MOST, ack_wait=_SECOND // 2)
        self._consume(api, "LIMITS", "often", ack_wait=_SECOND)
        self._consume(api, "QUEUE", "worker", ack_wait=_SECOND)
        self._consume(api, "INTEREST", "one", ack_wait=_SECOND)
        self._consume(api, "INTEREST", "two", ack_wait=_SECOND)
        api.client.close()

    def _consume(self, api: Api, stream: str, name: str, **more: Any) -> None:
        config = {
            "durable_name": name,
            "ack_policy": "explicit",
            "max_ack_pending": 5000,
            **more,
        }
        api.ask(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", stream_name=stream, config=config)
        self.delivered[name] = Counter()
        self.acked[name] = set()

    # What clients do until the broker is gone.

    def works(self) -> list[Work]:
        """
        @return: the work of each client, which is repeated.
        """
        return [
            lambda api, random: self._publish(api, random, "LIMITS"),
            lambda api, random: self._publish(api, random, "QUEUE"),
            lambda api, random: self._publish(api, random, "INTEREST"),
            self._publishIdentified,
            lambda api, random: self._take(api, random, "LIMITS", "seldom", 0.2),
            lambda api, random: self._take(api, random, "LIMITS", "often", 0.9),
            lambda api, random: self._take(api, random, "QUEUE", "worker", 0.9),
            lambda api, random: self._take(api, random, "INTEREST", "one", 0.9),
            lambda api, random: self._take(api, random, "INTEREST", "two", 0.9),
            self._configure,
        ]

    def round(self, seconds: float) -> None:
        """Work for some time, then kill the broker, start it again, and compare."""
        threads = self._begin()
        time.sleep(seconds)
        self.server.signal("KILL")
        self.server.exitStatus()
        self._join(threads)
        self.server.restart()
        self._present.clear()
        self.compare()

    def _begin(self) -> list[threading.Thread]:
        works = self.works()
        seeds = [self.random.random() for _ in works]
        threads = [
            threading.Thread(target=self._run, args=[work, Random(seed)])
            for work, seed in zip(works, seeds, strict=True)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(PATIENCE)
        if self.problems:
            raise self.problems[0]

    def _run(self, work: Work, random: Random) -> None:
        try:
            api = Api(self.server)
            while True:
                work(api, random)
        except _GONE:
            return
        except BaseException as error:
            self.problems.append(error)

    def _publish(self, api: Api, random: Random, stream: str) -> None:
        bodies = [
            b"%d %b" % (next(self._numbers), b"x" * random.randrange(200))
            for _ in range(random.choice((1, 20, 100)))
        ]
        self.asked.update(bodies)
        answers = api.published(f"{stream}.plain", bodies, [b""] * len(bodies))
        for body, answer in zip(bodies, answers, strict=True):
            self._learn(stream, answer, body)

    def _publishIdentified(self, api: Api, random: Random) -> None:
        """Publish messages with ids, and repeat those that were not acknowledged."""
        if not self.identified:
            self.identified = [b"id-%d" % next(self._numbers) for _ in range(30)]
            self.asked.update(self.identified)
        bodies = list(self.identified)
        headers = [b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % payload for payload in bodies]
        answers = api.published("LIMITS.identified", bodies, headers)
        for body, answer in zip(bodies, answers, strict=True):
            self._learn("LIMITS", answer, body)
            self.identified.remove(body)

    def _learn(self, stream: str, answer: dict[str, Any], body: bytes) -> None:
        if "error" in answer:
            raise Lost(f"publishing to {stream}: {answer}")
        self.stored[stream, answer["seq"]] = body

    def _take(
        self, api: Api, random: Random, stream: str, name: str, share: float, count: int = 100
    ) -> None:
        """Fetch messages, and acknowledge a share of them, most with an answer."""
        messages = api.fetch(stream, name, count)
        if not messages:
            time.sleep(0.01)
        waiting = []
        for reply, _ in messages:
            self._received(name, reply)
        for reply, _ in messages:
            if random.random() < share:
                if random.random() < 0.2:
                    api.client.publish(reply, b"+ACK")
                else:
                    waiting.append(reply)
        for reply, _ in zip(waiting, api.requests(waiting, b"+ACK"), strict=True):
            self.acked[name].add(_position(reply)[0])

    def _received(self, name: str, reply: bytes) -> None:
        sequence, count = _position(reply)
        self.delivered[name][sequence] += 1
        if sequence in self.acked[name]:
            raise Lost(f"{name} has {sequence} again, after its acknowledgement was answered")
        if name != "seldom":
            return
        self._present[sequence] += 1
        if count > _MOST or self._present[sequence] > _MOST or sequence in self._sent:
            raise Lost(f"{name} has {sequence} for the {count}. time")
        if self._present[sequence] == _MOST:
            # One broker sent it twice: it knows that it was sent, whatever comes.
            self._sent.add(sequence)

    def _configure(self, api: Api, random: Random) -> None:
        """Create, change or delete a stream or a consumer."""
        isStream = random.random() < 0.5
        name = f"C{random.randrange(12)}"
        key = name if isStream else f"LIMITS.{name}"
        kept = self.streams if isStream else self.consumers
        kind = "STREAM" if isStream else "CONSUMER"
        self.unsure.add(key)
        if key in kept and kept[key] is not None and random.random() < 0.3:
            api.ask(f"{kind}.DELETE.{key}")
            kept[key] = None
        else:
            text = f"{next(self._numbers)}"
            if not isStream:
                config = {"durable_name": name, "ack_policy": "explicit", "description": text}
                api.ask(f"CONSUMER.DURABLE.CREATE.{key}", stream_name="LIMITS", config=config)
            else:
                isNew = kept.get(key) is None
                verb = "CREATE" if isNew else "UPDATE"
                more = {"first_seq": 1000} if isNew and random.random() < 0.5 else {}
                fields = {"name": name, "subjects": [f"{name}.>"], "description": text}
                api.ask(f"STREAM.{verb}.{name}", **fields, **more)
            kept[key] = text
        self.unsure.discard(key)

    # What is promised.

    def compare(self) -> None:
        """
        @raise Lost: if something acknowledged is missing.
        """
        api = Api(self.server)
        self._compareConfigurations(api, "STREAM", self.streams)
        self._compareConfigurations(api, "CONSUMER", self.consumers)
        for stream in ("LIMITS", "QUEUE", "INTEREST"):
            last = api.ask(f"STREAM.INFO.{stream}")["state"]["last_seq"]
            known = max((number for name, number in self.stored if name == stream), default=0)
            if last < known:
                raise Lost(f"{stream} ends at {last}, and {known} was acknowledged")
        for stream, name in (("LIMITS", "seldom"), ("LIMITS", "often"), ("QUEUE", "worker")):
            floor = api.ask(f"CONSUMER.INFO.{stream}.{name}")["ack_floor"]["stream_seq"]
            if floor > api.ask(f"STREAM.INFO.{stream}")["state"]["last_seq"]:
                raise Lost(f"the floor of {name} is ahead of its stream")
        api.client.close()

    def _compareConfigurations(self, api: Api, kind: str, kept: dict[str, str | None]) -> None:
        for key in {
            *kept,
            *(unsureKey for unsureKey in self.unsure if ("." in unsureKey) == (kind != "STREAM")),
        }:
            answer = json.loads(api.request(f"$JS.API.{kind}.INFO.{key}"))
            description = None if "error" in answer else answer["config"]["description"]
            if key not in self.unsure and description != kept.get(key):
                raise Lost(f"{kind} {key} is {description}, and {kept.get(key)} was answered")
            kept[key] = description
        self.unsure -= set(kept)

    def finish(self) -> None:
        """
        Fetch everything, and compare the result with the promises.

        @raise Lost: if something is lost, or left behind.
        """
        api = Api(self.server)
        contents = self._contents(api)
        for (stream, sequence), body in self.stored.items():
            if stream == "LIMITS" and contents.get(sequence) != body:
                raise Lost(f"{sequence} is {contents.get(sequence)!r}, and {body!r} was stored")
        twice = [body for body, count in Counter(contents.values()).items() if count > 1]
        if twice or not self.asked.issuperset(contents.values()):
            raise Lost(f"{twice} are stored twice")
        # One client at a time publishes those without an id.
        plain = [body for _, body in sorted(contents.items()) if not body.startswith(b"id-")]
        numbers = [int(body.split()[0]) for body in plain]
        if numbers != sorted(numbers):
            raise Lost("messages are stored out of order")
        for stream, name in (("LIMITS", "often"), ("QUEUE", "worker")):
            self._drain(api, stream, name)
        for name in ("one", "two"):
            self._drain(api, "INTEREST", name)
        missing = set(contents) - set(self.delivered["often"])
        if missing:
            raise Lost(f"{len(missing)} messages did not come: {sorted(missing)[:5]}")
        for stream, names in (("QUEUE", ("worker",)), ("INTEREST", ("one", "two"))):
            sequences = {number for name, number in self.stored if name == stream}
            for name in names:
                missing = sequences - set(self.delivered[name])
                if missing:
                    raise Lost(f"{len(missing)} messages of {stream} did not come to {name}")
            left = api.ask(f"STREAM.INFO.{stream}")["state"]["messages"]
            if left:
                raise Lost(f"{left} messages are left behind in {stream}")
        for key in ("LIMITS.seldom", "LIMITS.often", "QUEUE.worker", "INTEREST.one"):
            api.ask(f"CONSUMER.DELETE.{key}")
        api.client.close()

    def _contents(self, api: Api) -> dict[int, bytes]:
        """
        @return: the content of the stream with limits.
        """
        config = {"durable_name": "reader", "ack_policy": "none"}
        api.ask("CONSUMER.DURABLE.CREATE.LIMITS.reader", stream_name="LIMITS", config=config)
        bodies: dict[int, bytes] = {}
        while messages := api.fetch("LIMITS", "reader", 1000):
            bodies.update((_position(reply)[0], body) for reply, body in messages)
        api.ask("CONSUMER.DELETE.LIMITS.reader")
        return bodies

    def _drain(self, api: Api, stream: str, name: str) -> None:
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            messages = api.fetch(stream, name, 1000)
            for reply, _ in messages:
                self._received(name, reply)
                api.client.publish(reply, b"+ACK")
            if messages:
                api.request(messages[-1][0].decode(), b"+ACK")
                continue
            info = api.ask(f"CONSUMER.INFO.{stream}.{name}")
            if not info["num_pending"] and not info["num_ack_pending"]:
                return
            if time.monotonic() > deadline:
                raise Lost(f"{name} is stuck: {info}")
            time.sleep(0.05)


def work(
    directory: Path,
    rounds: int,
    seed: int,
    interval: str = "always",
    make: Callable[[Server, Random], Workload] = Workload,
) -> Workload:
    """
    Kill a broker several times.

    @param interval: its C{sync_interval}.
    @return: the knowledge of the clients.
    """
    server = Server(OURS_FAST, directory, STORAGE.replace("$INTERVAL", interval)).start()
    try:
        workload = make(server, Random(seed))
        workload.prepare()
        for _ in range(rounds):
            workload.round(workload.random.uniform(0.05, 0.8))
        workload.finish()
    finally:
        server.stop()
    return workload


if __name__ == "__main__":
    done = work(
        Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or ["always"])[0]
    )
    print(len(done.stored), {name: len(acks) for name, acks in done.acked.items()})
