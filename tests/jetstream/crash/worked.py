"""
The work of JetStream clients, and the guarantees to them.

A process that may be killed says what it is about to ask, what was answered and what it received;
L{Known} reads that and compares it with what is found afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from natsbroker.wire.values import Message
from tests.jetstream.crash.place import Place
from tests.storage.history import Lost

STREAMS: dict[str, dict[str, Any]] = {
    "L": {"subjects": ["L.>"], "duplicate_window": 10**16},
    "W": {"subjects": ["W.>"], "retention": "workqueue"},
    "K": {"subjects": ["K.>"], "max_msgs_per_subject": 1},
    "B": {"subjects": ["B.>"], "max_bytes": 4000},
    "P": {"subjects": ["P.>"]},
}

SOURCED: dict[str, dict[str, Any]] = {
    "Q": {"retention": "workqueue", "sources": [{"name": "L"}]},
}
"""Streams that take what others have, where nothing is damaged: they work by themselves."""

MOST = 2
"""C{max_deliver} of the consumer that seldom acknowledges."""

CONSUMERS: dict[str, dict[str, Any]] = {
    "L.often": {"ack_wait": 10**9, "max_ack_pending": 10000},
    "L.seldom": {"ack_wait": 10**9, "max_ack_pending": 10000, "max_deliver": MOST},
    "W.worker": {"ack_wait": 10**9, "max_ack_pending": 10000},
    "B.late": {"ack_wait": 10**9, "max_ack_pending": 10000},
}

SOURCED_CONSUMERS: dict[str, dict[str, Any]] = {
    "Q.worker": {"ack_wait": 10**9, "max_ack_pending": 10000},
}

_KEYS = 5

_QUEUES = ("W.worker", "Q.worker")

Say = Callable[[dict[str, Any]], None]


def bodyOf(number: int) -> bytes:
    """The content of the message with a number."""
    return b"%d %b" % (number, b"x" * (number * 37 % 150))


def positionOf(message: Message) -> tuple[int, int]:
    """
    @return: a delivered message's sequence in its stream, and how often it was delivered.
    """
    words = message.reply.split(b".")
    return int(words[5]), int(words[4])


class Clients:
    """Clients that send random requests, and seldom wait for the answers."""

    def __init__(
        self, place: Place, seed: str, number: int, say: Say, isSourced: bool = False
    ) -> None:
        """
        @param number: of the first message.
        @param isSourced: whether there are L{SOURCED} streams.
        """
        self._streams = {**STREAMS, **(SOURCED if isSourced else {})}
        self._consumers = {**CONSUMERS, **(SOURCED_CONSUMERS if isSourced else {})}
        self._place = place
        self._random = Random(seed)
        self._number = number
        self._say = say
        self._open = 0
        self._operation = 0

    def prepare(self) -> None:
        """
        Make the streams and consumers that stay.
        """
        place = self._place
        for name, config in self._streams.items():
            if name not in place.jetstream.streams:
                place.ask(f"STREAM.CREATE.{name}", name=name, **config)
        for key, config in self._consumers.items():
            stream, name = key.split(".")
            if name not in place.jetstream.streams[stream].consumers:
                config = {"durable_name": name, "ack_policy": "explicit", **config}
                subject = f"CONSUMER.DURABLE.CREATE.{key}"
                place.ask(subject, stream_name=stream, config=config)
        self._say({"prepared": True})

    def step(self) -> None:
        """Send one random request."""
        choices = [self._publish] * 6 + [self._take] * 6 + [self._serve] * 3
        choices += [self._configure] * 2 + [self._repeat, self._purge, self._delete, self._wait]
        self._random.choice(choices)()
        if self._open > 100:
            self.finish()

    def finish(self) -> None:
        """
        Wait for all answers.
        """
        self._place.until(lambda: not self._open)

    def _ask(self, what: dict[str, Any], subject: bytes, body: bytes, headers: Any = None) -> None:
        self._operation += 1
        operation = self._operation
        self._say({"ask": operation, **what})
        self._open += 1

        def answered(message: Message) -> None:
            self._open -= 1
            answer = json.loads(message.payload) if message.payload else {}
            self._say({"done": operation, "seq": answer.get("seq"), "error": answer.get("error")})

        self._place.send(subject, body, answered, headers)

    def _publish(self) -> None:
        stream = self._random.choice("LLWKBP")
        for _ in range(self._random.choice((1, 1, 5, 30))):
            number, self._number = self._number, self._number + 1
            self._store(stream, number)
        if self._random.random() < 0.5:
            self._place.settle()

    def _store(self, stream: str, number: int) -> None:
        tail = number % _KEYS if stream == "K" else number % 3
        headers = {"Nats-Msg-Id": str(number)} if number % 4 == 0 else None
        what = {"publish": stream, "number": number}
        self._ask(what, b"%b.%d" % (stream.encode(), tail), bodyOf(number), headers)

    def _repeat(self) -> None:
        """Publish a message with its identifier again."""
        self.finish()
        numbers = [int(body.split()[0]) for body in contentsOf(self._place, "L").values()]
        if numbers := [number for number in numbers if number % 4 == 0]:
            self._store("L", self._random.choice(numbers))

    def _serve(self) -> None:
        """Take one job after the other, and wait until each acknowledgement is answered."""
        for _ in range(self._random.randint(1, 6)):
            self._takeFrom("W.worker", 1, 1)
            self.finish()

    def _take(self) -> None:
        key = self._random.choice(list(self._consumers))
        share = 0.2 if key == "L.seldom" else 0.8
        self._takeFrom(key, self._random.choice((1, 10, 40)), share)

    def _takeFrom(self, key: str, batch: int, share: float) -> None:
        stream, name = key.split(".")

        def received(message: Message) -> None:
            number = int(message.payload.split()[0])
            self._say({"received": key, "seq": positionOf(message)[0], "number": number})

        for message in self._place.fetch(stream, name, batch, received):
            sequence, _ = positionOf(message)
            if self._random.random() < share:
                self._ask({"ack": key, "of": sequence}, message.reply, b"+ACK")

    def _configure(self) -> None:
        self.finish()
        name = f"C{self._random.randrange(4)}"
        self._number += 1
        text = str(self._number)
        if self._random.random() < 0.5:
            exists = name in self._place.jetstream.streams
            if exists and self._random.random() < 0.3:
                self._change(name, "", f"STREAM.DELETE.{name}", {})
                return
            verb = "UPDATE" if exists else "CREATE"
            config = {"name": name, "subjects": [f"{name}.>"], "description": text}
            self._change(name, text, f"STREAM.{verb}.{name}", config)
            return
        if name in self._place.jetstream.streams["L"].consumers and self._random.random() < 0.3:
            self._change(f"L.{name}", "", f"CONSUMER.DELETE.L.{name}", {})
            return
        config = {"durable_name": name, "ack_policy": "explicit", "description": text}
        subject = f"CONSUMER.DURABLE.CREATE.L.{name}"
        self._change(f"L.{name}", text, subject, {"stream_name": "L", "config": config})

    def _change(self, name: str, text: str, subject: str, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode() if body else b""
        self._ask({"change": name, "text": text}, f"$JS.API.{subject}".encode(), data)
        self.finish()

    def _delete(self) -> None:
        last = self._place.jetstream.streams["L"].last
        if last:
            sequence = self._random.randint(1, last)
            body = json.dumps({"seq": sequence}).encode()
            self._ask({"delete": sequence}, b"$JS.API.STREAM.MSG.DELETE.L", body)

    def _purge(self) -> None:
        self.finish()
        tail = self._random.choice((None, 0, 1, 2))
        body = {} if tail is None else {"filter": f"P.{tail}"}
        last = self._place.jetstream.streams["P"].last
        what = {"purge": tail, "last": last}
        self._ask(what, b"$JS.API.STREAM.PURGE.P", json.dumps(body).encode())

    def _wait(self) -> None:
        self.finish()
        self._place.pass_(self._random.choice((0.1, 0.3, 1.5)))


def work(directory: Path, seed: str, number: int, steps: int, say: Say) -> None:
    """Do the work of clients in one process."""
    place = Place(directory, number)
    clients = Clients(place, seed, number, say, True)
    clients.prepare()
    for _ in range(steps):
        clients.step()
    clients.finish()
    say({"finished": True})


class Known:
    """
    The messages and answers that clients know of.

    @ivar stored: acknowledged messages: numbers by stream and sequence.
    @ivar received: how often each sequence came to a consumer.
    @ivar certain: sequences that C{L.seldom} got twice from one process. The second delivery made
        it durable that the first was sent: no further one is allowed, however many crashes came.
    @ivar acked: sequences by consumer whose acknowledgement was answered.
    @ivar mayBeAcked: those whose acknowledgement was sent.
    @ivar deleted: sequences of L whose deletion was asked for.
    @ivar gone: those whose deletion was answered.
    @ivar purged: up to which sequence a purge was asked for, by what subjects of P end with.
    @ivar empty: the same of purges that were answered.
    @ivar places: where Q has what it took from L: sequences by number.
    @ivar texts: what a stream or consumer may be described by; empty if it may not exist.
    """

    def __init__(self, isSourced: bool = False) -> None:
        """
        @param isSourced: as for L{Clients}.
        """
        self.isPrepared = False
        self._streams = [*STREAMS, *(SOURCED if isSourced else ())]
        self._consumers = [*CONSUMERS, *(SOURCED_CONSUMERS if isSourced else ())]
        self.stored: dict[str, dict[int, int]] = {name: {} for name in self._streams}
        self._first: dict[str, dict[int, int]] = {name: {} for name in self._streams}
        self.received: dict[str, Counter[int]] = {key: Counter() for key in self._consumers}
        self.certain: set[int] = set()
        self._now: Counter[int] = Counter()
        self.acked: dict[str, set[int]] = {key: set() for key in self._consumers}
        self.mayBeAcked: dict[str, set[int]] = {key: set() for key in self._consumers}
        self.deleted: set[int] = set()
        self.gone: set[int] = set()
        self.purged: Counter[int] = Counter()
        self.empty: Counter[int] = Counter()
        self.places: dict[int, int] = {}
        self.texts: dict[str, set[str]] = {}

    def learn(self, lines: Iterable[bytes]) -> None:
        """
        Read what a process said.
        """
        asked: dict[int, dict[str, Any]] = {}
        self._now.clear()
        for line in lines:
            said = json.loads(line)
            if "prepared" in said:
                self.isPrepared = True
            elif "ask" in said:
                asked[said["ask"]] = said
                self._asked(said)
            elif "done" in said:
                self._done(asked[said["done"]], said)
            elif "received" in said:
                self._received(said["received"], said["seq"], said["number"])

    def _asked(self, said: dict[str, Any]) -> None:
        if "ack" in said:
            self.mayBeAcked[said["ack"]].add(said["of"])
        elif "delete" in said:
            self.deleted.add(said["delete"])
        elif "purge" in said:
            _purge(self.purged, said)
        elif "change" in said:
            self.texts.setdefault(said["change"], {""}).add(said["text"])

    def _done(self, asked: dict[str, Any], said: dict[str, Any]) -> None:
        if said["error"] and "delete" not in asked:
            raise Lost(f"{asked} is refused: {said['error']}")
        if "publish" in asked:
            self._keep(asked["publish"], said["seq"], asked["number"])
        elif "ack" in asked:
            self.acked[asked["ack"]].add(asked["of"])
        elif "change" in asked:
            self.texts[asked["change"]] = {asked["text"]}
        elif "delete" in asked and not said["error"]:
            self.gone.add(asked["delete"])
        elif "purge" in asked:
            _purge(self.empty, asked)

    def _keep(self, stream: str, sequence: int, number: int) -> None:
        stored = self.stored[stream]
        if stored.setdefault(sequence, number) != number:
            raise Lost(f"{stream} gives {sequence} to {number}, which {stored[sequence]} has")
        if number % 4 == 0 and self._first[stream].setdefault(number, sequence) != sequence:
            first = self._first[stream][number]
            raise Lost(f"{stream} stores {number} twice: as {first} and {sequence}")

    def _received(self, key: str, sequence: int, number: int) -> None:
        self.received[key][sequence] += 1
        if key == "Q.worker" and self.places.setdefault(number, sequence) != sequence:
            raise Lost(f"Q has taken {number} twice: as {self.places[number]} and {sequence}")
        if sequence in self.acked[key]:
            raise Lost(f"{key} has {sequence} again, after its acknowledgement was answered")
        if key != "L.seldom":
            return
        self._now[sequence] += 1
        if self._now[sequence] > MOST or sequence in self.certain:
            raise Lost(f"{key} has {sequence} too often")
        if self._now[sequence] == MOST:
            self.certain.add(sequence)

    def check(self, place: Place) -> None:
        """
        Compare with the found state, and change nothing.

        @raise Lost: if something promised is not there.
        """
        streams = place.jetstream.streams
        for name in self._streams if self.isPrepared else ():
            if name not in streams:
                raise Lost(f"the stream {name} is forgotten")
            self._checkMessages(place, name)
        for key in self._consumers if self.isPrepared else ():
            self._checkConsumer(place, key)
        for key, texts in self.texts.items():
            name, _, consumer = key.partition(".")
            stream = streams.get(name)
            holder: Any = stream.consumers.get(consumer) if stream and consumer else stream
            text = "" if holder is None else holder.config.description
            if text not in texts:
                raise Lost(f"{key} is {text!r} and not one of {texts}")

    def _checkMessages(self, place: Place, name: str) -> None:
        contents = contentsOf(place, name)
        self._checkCounts(place, name, contents)
        newest: dict[int, int] = {}
        for sequence, number in self.stored[name].items():
            content = contents.get(sequence)
            if content is not None and content != bodyOf(number):
                raise Lost(f"{sequence} of {name} is {content!r} and not {bodyOf(number)!r}")
            if content is not None:
                continue
            isLater = sequence < min(contents, default=place.jetstream.streams[name].last + 1)
            if name == "K":
                newest[number % _KEYS] = max(newest.get(number % _KEYS, 0), sequence)
            elif not (
                (name == "L" and sequence in self.deleted)
                or (name == "W" and sequence in self.mayBeAcked["W.worker"])
                or (name == "P" and sequence <= self.purged[number % 3])
                or (name == "B" and isLater)
            ):
                raise Lost(f"{sequence} of {name} is lost")
        for key, sequence in newest.items():
            if not any(
                later > sequence and int(body.split()[0]) % _KEYS == key
                for later, body in contents.items()
            ):
                raise Lost(f"the last message {sequence} of key {key} is lost")
        last = place.jetstream.streams[name].last
        if last < max(self.stored[name], default=0):
            raise Lost(f"{name} ends at {last}")

    def _checkCounts(self, place: Place, name: str, contents: dict[int, bytes]) -> None:
        """
        Check that no message is stored twice or has come back, and that the stream counts its
        messages.
        """
        numbers = [int(body.split()[0]) for body in contents.values()]
        keys = [number % _KEYS for number in numbers] if name == "K" else numbers
        if len(set(keys)) != len(contents):
            raise Lost(f"{name} has something twice: {sorted(keys)}")
        again = {
            sequence
            for sequence, number in zip(contents, numbers, strict=True)
            if (name == "L" and sequence in self.gone)
            or (name == "P" and sequence <= self.empty[number % 3])
            or (name == "W" and sequence in self.acked["W.worker"])
        }
        if again:
            raise Lost(f"{sorted(again)[:5]} of {name} are there again")
        state = place.ask(f"STREAM.INFO.{name}")["state"]
        if state["messages"] != len(contents) and name not in SOURCED:
            raise Lost(f"{name} counts {state['messages']} messages and has {len(contents)}")

    def _checkConsumer(self, place: Place, key: str) -> None:
        name, consumer = key.split(".")
        stream = place.jetstream.streams[name]
        if consumer not in stream.consumers:
            raise Lost(f"the consumer {key} is forgotten")
        pending = stream.consumers[consumer].core.pending
        if max(pending.floorStream, pending.deliveredStream) > stream.last:
            raise Lost(f"{key} is ahead of its stream: {pending.floorStream} > {stream.last}")
        gone = [sequence for sequence in pending.entries if sequence < stream.first]
        if gone:
            raise Lost(f"{key} waits for {gone[:5]}, which {name} has no more")
        waiting = sum(sequence > pending.deliveredStream for sequence in contentsOf(place, name))
        counted = place.ask(f"CONSUMER.INFO.{key}")["num_pending"]
        if counted != waiting and name not in SOURCED:
            raise Lost(f"{key} counts {counted} pending messages, and {waiting} are")
        open_ = self.acked[key].intersection(pending.entries)
        if open_:
            raise Lost(f"acknowledgements of {key} are lost: {open_}")

    def checkDeliveries(self, place: Place) -> None:
        """
        Take all messages from the consumers, and check that no unacknowledged message is missing.
        """
        self._now.clear()
        for key in self._consumers if self.isPrepared else ():
            name, consumer = key.split(".")
            came: Counter[int] = Counter()
            for _ in range(3):
                place.pass_(1.5)
                while messages := place.fetch(name, consumer, 200):
                    for message in messages:
                        sequence, _ = positionOf(message)
                        self._received(key, sequence, int(message.payload.split()[0]))
                        came[sequence] += 1
                        if key != "L.seldom":
                            self.mayBeAcked[key].add(sequence)
                            place.send(message.reply, b"+ACK", lambda answer: None)
                place.settle()
            missing = set(contentsOf(place, name)) - set(self.received[key]) - self.mayBeAcked[key]
            if missing:
                raise Lost(f"{key} did not get {sorted(missing)[:5]}")
            place.result(place.jetstream.streams[name].settle())
            if key in _QUEUES and contentsOf(place, name):
                raise Lost(f"{list(contentsOf(place, name))[:5]} are left behind in the work queue")

    def checkSources(self, place: Place) -> None:
        """After L{checkDeliveries}, compare the messages that Q has taken with those of L."""
        left = contentsOf(place, "L").values() if self.isPrepared else ()
        if missing := {int(content.split()[0]) for content in left} - set(self.places):
            raise Lost(f"Q did not take {sorted(missing)[:5]}")


def contentsOf(place: Place, name: str) -> dict[int, bytes]:
    """
    The messages of a stream.
    """
    stream = place.jetstream.streams[name]
    contents: dict[int, bytes] = {}
    sequence = 1
    while sequence <= stream.last:
        part = place.result(stream.read((), sequence, 1000, 1 << 24))
        contents.update((record.sequence, record.payload) for record in part.records)
        sequence = part.next
    return contents


def _purge(purged: Counter[int], said: dict[str, Any]) -> None:
    for tail in range(3) if said["purge"] is None else (said["purge"],):
        purged[tail] = max(purged[tail], said["last"])
