"""
Streaming while somebody sets the wall clock: C{python -m tests.streaming.clocks --histories N}.

A channel keeps its messages for a minute. Messages are published, acknowledged or not; time passes;
and in between the wall clock jumps by up to an hour, to and fro, or is turned back a little at a
time, as a daemon does that corrects it. One seed makes one history.

Promises, of each history: timestamps never fall; no message goes while no clock has ever shown that
its minute is over, and those go of which the clock shows it; what is not acknowledged comes again
when its ack wait has passed by the clock that nobody sets, neither before nor much later; a client
that answers its heartbeats stays.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from random import Random

from natsbroker.config.settings.streaming import Streaming
from natsbroker.wire.values import Message
from tests.streaming.support import SECOND, Client, Listener, Stage

AGE = 60
"""Seconds for which the channel keeps messages."""

WAIT = 5
"""Seconds until a message that is not acknowledged comes again."""

LATE = 0.1
"""Seconds that it may come later: what is due at almost the same time comes together."""

STEPS = (-3600.0, -1800.0, -61.0, -0.5, -0.5, -0.5, 0.5, 61.0, 1800.0, 3600.0)


class TimedListener(Listener):
    """
    A subscription that remembers when each message came.

    @ivar times: by the clock that nobody sets, in the order of the messages.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client, "foo", isAcking=False)
        self.times: list[float] = []

    def _came(self, message: Message) -> None:
        self.times.append(self.stage.clock.seconds())
        super()._came(message)


class History:
    """
    One history.
    """

    def __init__(self, seed: int, makeStage: Callable[[Streaming], Stage] = Stage) -> None:
        self._random = Random(seed)
        self._stage = makeStage(Streaming(max_age=float(AGE)))
        self._client = self._stage.client()
        self._listener = TimedListener(self._client)
        assert self._listener.subscribe(ackWaitInSecs=WAIT) == ""
        self._times: dict[int, int] = {}
        self._sent: dict[int, float] = {}
        self._latest = self._stage.now()
        self.again = self.gone = 0

    def run(self, steps: int) -> None:
        """Run random steps, and check the promises after each."""
        for _ in range(steps):
            self._random.choice((self._publish, self._publish, self._pass, self._set, self._ack))()
            self._look()
        assert self._client.ping() == "", "the client was thought to be dead"

    def _publish(self) -> None:
        assert self._client.publish("foo", b"x") == ""

    def _pass(self) -> None:
        """Let time pass, in steps so small that each delivery is noticed when it comes."""
        for _ in range(self._random.randrange(1, 200)):
            self._advance()

    def _advance(self) -> None:
        self._stage.advance(0.05)
        self._look()

    def _set(self) -> None:
        self._stage.steps += self._random.choice(STEPS)  # type: ignore[assignment]

    def _ack(self) -> None:
        for sequence in self._random.sample(sorted(self._sent), len(self._sent) // 2):
            self._listener.ackNow(sequence)
            del self._sent[sequence]

    def _look(self) -> None:
        """Compare the messages that came, and those that are stored, with the expected ones."""
        self._latest = max(self._latest, self._stage.now())
        messages = self._listener.taken()
        times, self._listener.times = self._listener.times, []
        for message, now in zip(messages, times, strict=True):
            sequence = message.sequence
            if message.redelivered:
                self.again += 1
                waited = now - self._sent[sequence]
                assert WAIT - 1e-6 <= waited <= WAIT + LATE, f"{sequence} came after {waited}"
            else:
                before = self._times.get(sequence - 1, 0)
                assert before <= message.timestamp, f"{sequence} is older than the one before"
                self._times[sequence] = message.timestamp
            self._sent[sequence] = now
        self._lookAtAges()

    def _lookAtAges(self) -> None:
        """Demand that no message was removed too early."""
        bounds = self._stage.service.context.channels.get("foo").bounds  # type: ignore[union-attr]
        young = [number for number, at in self._times.items() if at >= self._latest - AGE * SECOND]
        if young:
            assert bounds.first <= min(young), f"{min(young)} went too early"
        for sequence in [number for number in self._sent if number < bounds.first]:
            self.gone += 1
            del self._sent[sequence]  # it is not there any more, and does not come again

    def end(self) -> None:
        """Let all messages expire: all are removed, whatever the clock showed before."""
        last = max(self._times.values(), default=0)
        self._stage.steps += max(last - self._stage.now(), 0) // SECOND + AGE + 1
        for _ in range(40):
            self._advance()
        assert self._stage.model.channel("foo").msgs == 0


def main() -> None:
    """Play some histories from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    again = gone = 0
    for seed in range(arguments.first, arguments.first + arguments.histories):
        history = History(seed)
        try:
            history.run(60)
            history.end()
        except AssertionError as error:
            raise SystemExit(f"seed {seed}: {error}") from error
        again += history.again
        gone += history.gone
    print(f"{arguments.histories} histories, {again} messages came again, {gone} went unread")


if __name__ == "__main__":
    main()
