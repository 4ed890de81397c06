"""
Generated requests that two servers answer: C{python -m tests.interop.jetstream.requests --rounds N}
makes any number of rounds.

A round begins with no streams, or with the same few, and each request depends on the streams left
by the ones before. The answers are compared completely, except for times, for names that a server
chose and for the progress of sources.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from random import Random
from typing import Any

from tests.interop.jetstream.generated import (
    CONSUMERS,
    FORMS,
    NAMES,
    QUEUES,
    broken,
    consumerBody,
    streamBody,
)
from tests.interop.jetstream.histories import Ask
from tests.interop.jetstream.lockstep import Lockstep, Side, normalAnswer, together

__all__ = ["EACH", "compareRound"]

EACH = 25
"""The requests of a round. A consumer without a durable name ends after five seconds."""

_RANDOM = "RANDOM"

_OFFSETS = (b"", b"{}", b'{"offset":1}', b'{"offset":9}', b'{"offset":-1}', b'{"offset":"x"}')


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


class _Round:
    """
    @ivar present: configurations by the name of the stream, or of stream and consumer.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.present: dict[str, dict[str, Any]] = {}

    def nextStream(self) -> Ask:
        """
        @return: a request about streams.
        """
        random, chance = self._random, self._random.random()
        name = random.choice(NAMES)
        if chance < 0.06:
            return Ask(f"STREAM.DELETE.{name}")
        if chance < 0.2:
            return self._readStreams(name)
        isUpdate = chance < 0.48
        body = streamBody(random, name, self.present.get(name) if isUpdate else None)
        body = body.replace(b'"$JS.EVENT', b'"$JS.EVENT.x')  # Advisories are stored a moment later.
        return Ask(f"STREAM.{'UPDATE' if isUpdate else 'CREATE'}.{name}", self._perhapsBroken(body))

    def nextConsumer(self) -> Ask:
        """
        @return: a request about consumers.
        """
        random, chance = self._random, self._random.random()
        stream, name, form = random.choice("LLLIWX"), random.choice(CONSUMERS), random.choice(FORMS)
        if chance < 0.05:
            return Ask(f"CONSUMER.DELETE.{stream}.{name}")
        if chance < 0.15:
            return self._readConsumers(stream, name)
        filter_ = random.choice(["", "", "", "q.a", "q.>"]) if form == "NAMED" else ""
        present = self.present.get(f"{stream}.{name}") if random.random() < 0.6 else None
        body = consumerBody(random, stream, form, name, filter_, present)
        tails = {
            "EPHEMERAL": f"CREATE.{stream}",
            "NAMED": ".".join(filter(None, ["CREATE", stream, name, filter_])),
            "DURABLE": f"DURABLE.CREATE.{stream}.{name}",
        }
        return Ask(f"CONSUMER.{tails[form]}", self._perhapsBroken(body))

    def _perhapsBroken(self, body: bytes) -> bytes:
        return broken(self._random, body) if self._random.random() < 0.1 else body

    def _readStreams(self, name: str) -> Ask:
        body = self._random.choice(_OFFSETS)
        return self._random.choice(
            (
                Ask(f"STREAM.INFO.{name}", body),
                Ask(f"STREAM.PURGE.{name}", self._random.choice((b"", b"{}", b'{"keep":1}', b"{"))),
                Ask(f"STREAM.MSG.GET.{name}", self._random.choice((b"", b'{"seq":1}', b"[]"))),
                Ask(f"STREAM.MSG.DELETE.{name}", self._random.choice((b"", b'{"seq":1}', b"[]"))),
                Ask("STREAM.NAMES", self._random.choice((body, b'{"subject":"a"}'))),
                Ask("STREAM.LIST", self._random.choice((body, b'{"subject":"a.>"}'))),
            )
        )

    def _readConsumers(self, stream: str, name: str) -> Ask:
        body = self._random.choice(_OFFSETS)
        until = {"pause_until": self._random.choice(("2034-01-01T00:00:00Z", "zork", ""))}
        return self._random.choice(
            (
                Ask(f"CONSUMER.INFO.{stream}.{name}", body),
                Ask(f"CONSUMER.PAUSE.{stream}.{name}", self._random.choice((body, _json(until)))),
                Ask(f"CONSUMER.NAMES.{stream}", body),
                Ask(f"CONSUMER.LIST.{stream}", body),
            )
        )

    def learn(self, request: Ask, answer: dict[str, Any]) -> None:
        """Remember the configuration in an answer."""
        words = request.subject.split(".")
        if answer.get("success") and words[1] == "DELETE":
            self.present.pop(".".join(words[2:]), None)
        elif "config" in answer and "stream_name" in answer:
            self.present[f"{answer['stream_name']}.{answer['name']}"] = answer["config"]
        elif "config" in answer:
            self.present[answer["config"]["name"]] = answer["config"]


def _shown(value: Any) -> Any:
    """
    @return: the part of an answer that is compared.
    """
    if isinstance(value, list):
        return [_shown(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "config" in value and "state" in value:
        # What mirrors and sources received is a matter of time, and nats-server lists sources in
        # any order.
        value = {key: item for key, item in value.items() if key not in ("mirror", "sources")}
    return {key: _shown(item) for key, item in value.items()}


def _answered(side: Side, request: Ask) -> Any:
    """
    Send a request, and delete a consumer whose name the server chose, because it would end by
    itself.
    """
    reply = next(iter(side.ask(request)), "{}")
    if isinstance(reply, list):
        # Of a consumer for sources, with headers that name it.
        reply = normalAnswer(b"", reply[1])
    answer = _shown(json.loads(reply))
    name = answer.get("name", "")
    if "stream_name" in answer and name not in CONSUMERS:
        side.ask(Ask(f"CONSUMER.DELETE.{answer['stream_name']}.{name}"))
        answer = json.loads(json.dumps(answer).replace(f'"{name}"', f'"{_RANDOM}"'))
    return answer


def compareRound(lockstep: Lockstep, seed: int) -> str:
    """
    Let both servers answer the requests of a round.

    @return: the first difference; empty if there is none.
    """
    random = Random(seed)
    state, isOfStreams = _Round(random), seed % 2 == 0
    for name in (*NAMES, *(queue["name"] for queue in QUEUES)):
        lockstep.both(partial(Side.ask, request=Ask(f"STREAM.DELETE.{name}")))
    for queue in () if isOfStreams else QUEUES:
        made = Ask(f"STREAM.CREATE.{queue['name']}", _json(queue))
        lockstep.both(partial(Side.ask, request=made))
    for number in range(EACH):
        request = state.nextStream() if isOfStreams else state.nextConsumer()
        lockstep.requests += 1
        ours, real = lockstep.both(partial(_answered, request=request))
        if json.dumps(ours) != json.dumps(real):
            shown = Ask(request.subject, request.body[:2000])
            return f"request {number}: {shown}\n ours {ours}\n real {real}"
        state.learn(request, real)
    return ""


def main() -> None:
    """
    The command.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help=f"of {EACH} requests each")
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--accounts", type=int, default=4, help="how many go on at a time")
    options = parser.parse_args()
    chosen = range(options.first, options.first + options.rounds)
    raise SystemExit(bool(together(compareRound, chosen, options.accounts)))


if __name__ == "__main__":
    main()
