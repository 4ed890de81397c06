"""
Clients whose messages are removed: jobs that are confirmed one by one, values that replace each
other, and purges. Removed messages do not come back when the broker is killed, and all counts are
right.

C{python -m tests.interop.jetstream.killedqueues DIRECTORY ROUNDS SEED} does any number of rounds.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.interop.jetstream.killed import Api, Lost, Work, Workload, work

_KEYS = 4

_STREAMS: dict[str, dict[str, Any]] = {
    "JOBS": {"retention": "workqueue"},
    "VALUES": {"max_msgs_per_subject": 1},
    "PURGED": {},
}


@dataclass
class Queues(Workload):
    """
    @ivar values: the last acknowledged sequence and value of each key.
    @ivar later: by key, values that were published after that.
    @ivar purged: the last sequence of the requested purge, and that of the answered one.
    """

    values: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    later: dict[str, set[bytes]] = field(default_factory=dict)
    purged: tuple[int, int] = (0, 0)

    def prepare(self) -> None:
        super().prepare()
        api = Api(self.server)
        for name, more in _STREAMS.items():
            api.ask(f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **more)
        # Longer than a round: who confirms late does not get a job again.
        self._consume(api, "JOBS", "server", ack_wait=5_000_000_000)
        api.client.close()

    def works(self) -> list[Work]:
        def serve(api: Api, random: Random) -> None:
            self._take(api, random, "JOBS", "server", 1, 1)

        works = [serve] * 4
        return [*super().works(), *works, self._order, self._put, self._purge]

    def _order(self, api: Api, random: Random) -> None:
        self._store(api, "JOBS", random.choice((1, 1, 5)))

    def _store(self, api: Api, stream: str, count: int) -> int:
        """Store some messages, and return the sequence of the last."""
        bodies = [b"%d" % next(self._numbers) for _ in range(count)]
        last = 0
        for body, answer in zip(
            bodies, api.published(f"{stream}.plain", bodies, [b""] * count), strict=True
        ):
            self._learn(stream, answer, body)
            last = answer["seq"]
        return last

    def _put(self, api: Api, random: Random) -> None:
        """Replace a value, in most cases only if it is the known one."""
        key = f"VALUES.{random.randrange(_KEYS)}"
        body = b"%d" % next(self._numbers)
        before, _ = self.values.get(key, (0, b""))
        self.later.setdefault(key, set()).add(body)
        isExpected = random.random() < 0.7
        headers = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % before
        answer = json.loads(api.request(key, body, headers if isExpected else b""))
        if "error" in answer or answer["seq"] <= before:
            raise Lost(f"{key} is replaced after {before}: {answer}")
        self.values[key] = answer["seq"], body
        self.later[key].clear()

    def _purge(self, api: Api, random: Random) -> None:
        last = self._store(api, "PURGED", random.choice((1, 5, 20)))
        self.purged = last, self.purged[1]
        api.ask("STREAM.PURGE.PURGED")
        self.purged = last, last

    def compare(self) -> None:
        super().compare()
        api = Api(self.server)
        for stream in _STREAMS:
            there = self._sequences(api, stream)
            stored = {sequence for name, sequence in self.stored if name == stream}
            gone, mayBeGone = set[int](), set[int]()
            if stream == "JOBS":
                gone, mayBeGone = self.acked["server"], set(self.delivered["server"])
                self._compareCounts(api, there)
            elif stream == "PURGED":
                asked, answered = self.purged
                gone = {sequence for sequence in stored if sequence <= answered}
                mayBeGone = {sequence for sequence in stored if sequence <= asked}
            if lost := stored - mayBeGone - there:
                raise Lost(f"{sorted(lost)[:5]} of {stream} are gone")
            if again := gone & there:
                raise Lost(f"{sorted(again)[:5]} of {stream} are there again")
        self._compareValues(api)
        self._repeat(api)
        api.client.close()

    def _sequences(self, api: Api, stream: str) -> set[int]:
        state = api.ask(f"STREAM.INFO.{stream}", deleted_details=True)["state"]
        there = set(range(max(state["first_seq"], 1), state["last_seq"] + 1))
        there -= set(state.get("deleted") or ())
        if state["messages"] != len(there):
            raise Lost(f"{stream} counts {state['messages']} messages, and has {len(there)}")
        return there

    def _compareCounts(self, api: Api, there: set[int]) -> None:
        info = api.ask("CONSUMER.INFO.JOBS.server")
        waiting = {number for number in there if number > info["delivered"]["stream_seq"]}
        counts = info["num_pending"], info["num_ack_pending"]
        # A job may be gone whose acknowledgement was not answered; it counts until it is due again.
        if counts[0] != len(waiting) or counts[1] < len(there - waiting):
            raise Lost(f"of {len(there)} jobs {len(waiting)} are pending, and {counts} are counted")

    def _compareValues(self, api: Api) -> None:
        keys = set(self.values) | set(self.later)
        if len(there := self._sequences(api, "VALUES")) > len(keys):
            raise Lost(f"there are {len(there)} values of {len(keys)} keys")
        for key in keys:
            body = json.dumps({"last_by_subj": key}).encode()
            answer = json.loads(api.request("$JS.API.STREAM.MSG.GET.VALUES", body))
            if "error" in answer and key not in self.values:
                continue
            shown = answer.get("message", {"seq": 0, "data": ""})
            value = shown["seq"], base64.b64decode(shown["data"])
            if value != self.values.get(key) and value[1] not in self.later[key]:
                raise Lost(f"{key} was {self.values.get(key)}, and is {value}")
            self.values[key] = value
            self.later[key].clear()

    def _repeat(self, api: Api) -> None:
        """Publish the last messages with ids again, and check that each is a duplicate."""
        identified = [
            (sequence, body)
            for (stream, sequence), body in self.stored.items()
            if stream == "LIMITS" and body.startswith(b"id-")
        ]
        for sequence, body in identified[-10:]:
            headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % body
            answer = json.loads(api.request("LIMITS.identified", body, headers))
            if (answer.get("seq"), answer.get("duplicate")) != (sequence, True):
                raise Lost(f"{body!r} is stored as {sequence}, and again: {answer}")

    def finish(self) -> None:
        super().finish()
        api = Api(self.server)
        self._drain(api, "JOBS", "server")
        stored = {sequence for stream, sequence in self.stored if stream == "JOBS"}
        if missing := stored - set(self.delivered["server"]):
            raise Lost(f"jobs {sorted(missing)[:5]} did not come")
        if left := self._sequences(api, "JOBS"):
            raise Lost(f"jobs {sorted(left)[:5]} are left behind")
        api.client.close()


if __name__ == "__main__":
    interval = sys.argv[4] if len(sys.argv) > 4 else "always"
    done = work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), interval, Queues)
    print(len(done.stored), {name: len(acks) for name, acks in done.acked.items()})
