"""
The scenarios of the interop tests with asyncio-nats-streaming: C{python -m
tests.interop.stan.py.scenarios URL SCENARIO...}.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from tests.interop.stan.py.sessions import (
    Session,
    StanError,
    described,
    say,
    scenario,
    until,
)


async def publish(url: str) -> None:
    """Publish messages, each after the acknowledgement of the one before, and without waiting."""
    session = await Session("py-publish").open(url)
    await session.publish("py.publish", "0", "1", "2")
    errors: list[str] = []

    async def acked(ack: Any) -> None:
        errors.append(ack.error)

    for number in range(3, 503):
        await session.stan.publish("py.publish", str(number).encode(), ack_handler=acked)
    await until(lambda: len(errors) == 500)
    say(acks=len(errors), errors=[error for error in errors if error])
    listener = await session.subscribe("py.publish", start_at="first")
    got = await listener.take(503)
    say(inOrder=got == [[number + 1, str(number), 0] for number in range(503)])
    await session.close()


async def starts(url: str) -> None:
    """Subscribe at every start position."""
    session = await Session("py-starts").open(url)
    await session.publish("py.starts", "1", "2", "3")
    await asyncio.sleep(4.2)
    await session.publish("py.starts", "4", "5")
    options: dict[str, dict[str, Any]] = {
        "all": {"deliver_all_available": True},
        "first": {"start_at": "first"},
        "sequence": {"start_at": "sequence", "sequence": 2},
        "last": {"start_at": "last_received"},
        "time": {"start_at": "time", "time": time.time() - 3.1},
        "new": {"start_at": "new_only"},
    }
    listeners = [await session.subscribe("py.starts", **terms) for terms in options.values()]
    await session.publish("py.starts", "6")
    for name, listener, count in zip(options, listeners, (6, 6, 5, 2, 3, 1), strict=True):
        say(start=name, got=[message[0] for message in await listener.take(count)])
    await session.close()


async def durable(url: str) -> None:
    """Close a durable subscription and resume it, then unsubscribe."""
    session = await Session("py-durable").open(url)
    options: dict[str, Any] = {"durable_name": "d", "start_at": "first", "manual_acks": True}
    await session.publish("py.durable", "1", "2", "3")
    first = await session.subscribe("py.durable", **options)
    got = await first.messages(3)
    say(got=[described(message) for message in got])
    say(twice=await session.tryToSubscribe("py.durable", **options))
    await first.ack(*got[:2])
    await first.sub.close()
    await session.publish("py.durable", "4")
    second = await session.subscribe("py.durable", **options)
    say(resumed=await second.take(2))
    await second.sub.unsubscribe()
    third = await session.subscribe("py.durable", **options)
    say(fresh=await third.take(4))
    await session.close()


async def queue(url: str) -> None:
    """
    Share a channel among the members of a queue group.
    """
    session, other = await Session("py-queue").open(url), await Session("py-queue-2").open(url)
    members = [
        await queued.subscribe("py.queue", queue="q") for queued in (session, session, other)
    ]
    for number in range(60):
        await session.publish("py.queue", str(number))
    await until(lambda: sum(len(member.got) for member in members) >= 60)
    await other.settle()
    await session.settle()
    got = sorted(message.seq for member in members for message in member.got)
    say(eachOnce=got == list(range(1, 61)), shared=all(member.got for member in members))
    await other.close()
    await session.close()


async def queueLeave(url: str) -> None:
    """Leave a queue group with unacknowledged messages."""
    session = await Session("py-queueLeave").open(url)
    options: dict[str, Any] = {"queue": "q", "manual_acks": True}
    members = [await session.subscribe("py.queueLeave", **options) for _ in range(2)]
    await session.publish("py.queueLeave", "1", "2", "3", "4")
    await until(lambda: sum(len(member.got) for member in members) == 4)
    leaver, heir = members
    left = sorted(message.seq for message in leaver.got)
    had = await heir.messages(4 - len(left))
    await leaver.sub.unsubscribe()
    taken = await heir.take(len(left))
    say(all=sorted([message.seq for message in had] + left))
    say(
        inherited=sorted(message[0] for message in taken) == left,
        again=[message[2] for message in taken],
    )
    await session.close()


async def durableQueue(url: str) -> None:
    """Leave a durable queue group, and come back as another client."""
    session = await Session("py-durableQueue").open(url)
    other = await Session("py-durableQueue-2").open(url)
    options: dict[str, Any] = {
        "queue": "q", "durable_name": "d", "start_at": "first", "manual_acks": True,
    }  # fmt: skip
    await session.publish("py.durableQueue", "1", "2")
    first = await session.subscribe("py.durableQueue", **options)
    got = await first.messages(2)
    say(got=[described(message) for message in got])
    await first.ack(got[0])
    await session.close()
    await other.publish("py.durableQueue", "3")
    second = await other.subscribe("py.durableQueue", **options)
    say(resumed=await second.take(2))
    await second.sub.unsubscribe()
    third = await other.subscribe("py.durableQueue", **options)
    say(fresh=await third.take(3))
    await other.close()


async def redelivery(url: str) -> None:
    """
    Acknowledge late.
    """
    session = await Session("py-redelivery").open(url)
    await session.publish("py.redelivery", "1", "2", "3")
    listener = await session.subscribe(
        "py.redelivery", start_at="first", manual_acks=True, ack_wait=1, max_inflight=2
    )
    got = await listener.messages(6)
    say(got=[described(message) for message in got])
    await listener.ack(*got[:2])
    await until(lambda: any(not message.proto.redelivered for message in listener.got))
    say(then=[message.seq for message in listener.got if not message.proto.redelivered])
    await session.close()


async def inFlight(url: str) -> None:
    """Receive no more messages in flight than C{max_in_flight}."""
    session = await Session("py-inFlight").open(url)
    await session.publish("py.inFlight", *"123456789")
    listener = await session.subscribe(
        "py.inFlight", start_at="first", manual_acks=True, max_inflight=4
    )
    got = await listener.messages(4)
    say(got=[described(message) for message in got], quiet=await listener.isQuiet())
    await listener.ack(got[2], got[0])
    say(then=await listener.take(2), quiet=await listener.isQuiet())
    await session.close()


async def refused(url: str) -> None:
    """Send requests that are refused."""
    session = await Session("py-refused").open(url)
    try:
        await Session("py-refused").open(url)
    except StanError as error:
        say(duplicate=str(error))
    try:
        await Session("not valid").open(url)
    except StanError as error:
        say(clientID=str(error))
    say(publish=await session.tryToPublish("not/valid", "x"))
    say(subscribe=await session.tryToSubscribe("not.*.valid"))
    say(start=await session.tryToSubscribe("py.refused", ack_wait=0))
    say(inFlight=await session.tryToSubscribe("py.refused", max_inflight=0))
    listener = await session.subscribe("py.refused")
    await listener.sub.close()
    try:
        await listener.sub.close()
    except StanError as error:
        say(close=str(error))
    session.stan._client_id = "py-nobody"
    try:
        await session.close()
    except StanError as error:
        say(gone=str(error))
    await session.nats.close()


async def replaced(url: str) -> None:
    """Stop answering heartbeats, and be replaced by another client."""
    first = await Session("py-replaced").open(url, pingInterval=3600)
    first.hang()
    second = await Session("py-replaced").open(url, pingInterval=1)
    await second.publish("py.replaced", "1")
    say(publish=await first.tryToPublish("py.replaced", "2"))
    second.hang()
    third = await Session("py-replaced").open(url)
    await until(lambda: second.lost)
    say(lost=second.lost)
    await first.nats.close()
    await second.nats.close()
    await third.close()


async def limits(url: str) -> None:
    """
    Reach the limits of channels.
    """
    session = await Session("py-limits").open(url)
    await session.publish("limits.few.py", *"12345")
    few = await session.subscribe("limits.few.py", start_at="first")
    say(few=[message[0] for message in await few.take(3)])
    await session.publish("limits.small.py", *(letter * 1000 for letter in "abcde"))
    small = await session.subscribe("limits.small.py", start_at="first")
    say(small=[message[1][0] for message in await small.take(3)])
    await session.subscribe("limits.one.py", durable_name="d")
    say(one=await session.tryToSubscribe("limits.one.py"))
    await session.publish("limits.short.py", "x")
    oldest = 1
    while oldest == 1:
        short = await session.subscribe("limits.short.py", start_at="first")
        await session.publish("limits.short.py", "x")
        oldest = (await short.take(1))[0][0]
        await short.sub.close()
        await asyncio.sleep(0.1)
    say(short="gone")
    await session.close()


async def channels(url: str) -> None:
    """Use more channels than the limit."""
    session = await Session("py-channels").open(url)
    await session.publish("settling", "x")
    error = ""
    for number in range(100):
        error = error or await session.tryToPublish(f"py.channels.{number}", "x")
    say(publish=error, subscribe=await session.tryToSubscribe("py.channels.more"))
    await session.publish("settling", "x")
    await session.close()


async def idle(url: str) -> None:
    """Leave a channel unused."""
    session = await Session("py-idle").open(url)
    await session.publish("idle.py", "1", "2")
    listener = await session.subscribe("idle.py", durable_name="d", start_at="first")
    say(got=await listener.take(2))
    await session.close()


async def idleAgain(url: str) -> None:
    """Use a channel again that was deleted."""
    session = await Session("py-idle").open(url)
    await session.publish("idle.py", "new")
    listener = await session.subscribe("idle.py", durable_name="d", start_at="first")
    say(got=await listener.take(1))
    await session.close()


async def heartbeats(url: str) -> None:
    """Stop answering heartbeats with a durable subscription, while another client answers."""
    well, session = await Session("py-well").open(url), await Session("py-hangs").open(url, 1)
    options: dict[str, Any] = {"durable_name": "d", "start_at": "first", "manual_acks": True}
    await session.publish("py.heartbeats", "1", "2")
    listener = await session.subscribe("py.heartbeats", **options)
    got = await listener.messages(2)
    await listener.ack(got[0])
    session.hang()
    await until(lambda: session.lost)
    say(lost=session.lost)
    await session.nats.close()
    await well.publish("py.heartbeats", "3")
    again = await Session("py-hangs").open(url)
    listener = await again.subscribe("py.heartbeats", **options)
    say(resumed=await listener.take(2))
    await again.close()
    await well.close()


def withUser(url: str, user: str) -> str:
    """The URL for a user."""
    return url.replace("//", f"//{user}:secret@")


async def permissions(url: str) -> None:
    """Use channels as two users, one of which has few permissions."""
    boss = await Session("py-boss").open(withUser(url, "boss"))
    shop = await Session("py-shop").open(withUser(url, "shop"))
    say(
        publish=await shop.tryToPublish("orders.py", "1"), violation=await shop.violate("prices.py")
    )
    await boss.publish("prices.py", "p")
    options: dict[str, Any] = {"durable_name": "d", "start_at": "first", "manual_acks": True}
    prices = await shop.subscribe("prices.py", **options)
    say(got=await prices.take(1), subscribe=await shop.tryToSubscribe("secret.py"))
    for how in ("unsubscribe", "close"):
        say(how=how, error=await shop.tryToEnd(prices, how))
    try:
        await Session("py-boss").open(withUser(url, "shop"))
    except StanError as error:
        say(connect=str(error))
    thief = await Session("py-thief").open(withUser(url, "shop"))
    thief.pretend("py-boss")
    say(publish=await thief.tryToPublish("orders.py", "x"))
    say(subscribe=await thief.tryToSubscribe("orders.py"))
    try:
        await thief.close()
    except StanError as error:
        say(close=str(error))
    orders = await shop.subscribe("orders.py", **options)
    (message,) = await orders.messages(1)
    say(event="ready")
    while not await shop.tryToSubscribe("orders.py"):
        await asyncio.sleep(0.05)
    await boss.publish("orders.py", "2")
    say(still=await orders.take(1))
    await orders.ack(message)
    await boss.publish("orders.py", "3")
    say(
        subscribe=await shop.tryToSubscribe("orders.py"),
        got=[delivery.seq for delivery in orders.got],
    )
    shop.errors.clear()
    say(violation=await shop.violate("orders.py"))
    await boss.close()
    await shop.close()


async def shops(url: str) -> None:
    """Use channels of C{examples/channels.py}."""
    users = {"anna": "apple", "warehouse": "walnut", "chief": "cherry"}
    anna, warehouse, chief = [
        await Session(f"py-{user}").open(url.replace("//", f"//{user}:{password}@"))
        for user, password in users.items()
    ]
    say(publish=await anna.tryToPublish("orders.anna", "1"), bob=await anna.violate("orders.bob"))
    say(subscribe=await anna.tryToSubscribe("orders.anna"))
    durable: dict[str, Any] = {"durable_name": "d", "start_at": "first"}
    listener = await warehouse.subscribe("orders.anna", **durable)
    say(got=await listener.take(1), prices=await warehouse.tryToSubscribe("prices"))
    say(unsubscribe=await warehouse.tryToEnd(listener, "unsubscribe"))
    say(close=await warehouse.tryToEnd(listener, "close"))
    say(chief=await chief.tryToPublish("prices", "1"))
    listener = await chief.subscribe("orders.anna", **durable)
    say(got=await listener.take(1), unsubscribe=await chief.tryToEnd(listener, "unsubscribe"))
    for client in (anna, warehouse, chief):
        await client.close()


async def restart(url: str) -> None:
    """Continue subscriptions after two restarts of the server."""
    session = await Session("py-restart").open(url)
    durable: dict[str, Any] = {"durable_name": "d", "start_at": "first", "manual_acks": True}
    await session.publish("py.restart", "1", "2")
    single = await session.subscribe("py.restart", **durable)
    group = await session.subscribe("py.restart", queue="q", **durable)
    say(got=await takeNew(single, 2), group=await takeNew(group, 2))
    say(event="ready")
    await reconnected(session)
    await session.publish("py.restart", "3")
    say(got=await takeNew(single, 1), group=await takeNew(group, 1))
    await session.close()
    again = await Session("py-restart").open(url)
    await again.publish("py.restart", "4")
    say(event="ready")
    await reconnected(again)
    single = await again.subscribe("py.restart", **durable)
    group = await again.subscribe("py.restart", queue="q", **durable)
    say(got=await takeNew(single, 1), group=await takeNew(group, 1))
    await again.close()


async def takeNew(listener: Any, count: int) -> list[Any]:
    """
    Wait for a number of messages that were not delivered before, and acknowledge all that come.

    @return: their sequences, then those of other messages that came.
    """
    new: list[int] = []
    again: set[int] = set()
    while len(new) < count:
        (message,) = await listener.messages(1)
        await listener.ack(message)
        if message.proto.redelivered:
            again.add(message.seq)
        else:
            new.append(message.seq)
    return [*new, *([sorted(again)] if again else [])]


async def reconnected(session: Session) -> None:
    """Wait until the connection was lost and is restored."""
    await until(lambda: not session.nats.is_connected)
    await until(lambda: session.nats.is_connected)
    await session.nats.flush()


async def killed(url: str) -> None:
    """Publish while the server is killed and restarted."""
    session = await Session("py-killed").open(url)
    acked: set[int] = set()
    guids: list[int] = []

    def noting(number: int) -> Callable[[Any], Awaitable[None]]:
        async def noted(ack: Any) -> None:
            assert not ack.error, ack.error
            acked.add(number)

        return noted

    async def send(count: int) -> None:
        for _ in range(count):
            number = len(guids)
            guids.append(number)
            await session.stan.publish(
                "py.killed", str(number).encode(), ack_handler=noting(number)
            )

    while len(acked) < 2000:
        await send(50)
        await asyncio.sleep(0)
    say(event="ready")
    while session.nats.is_connected:
        await send(50)
        await asyncio.sleep(0)
    before = set(acked)
    await until(lambda: session.nats.is_connected)
    await session.nats.flush()
    await session.publish("py.killed", "last")
    listener = await session.subscribe("py.killed", start_at="first", max_inflight=100000)
    await until(lambda: any(message.data == b"last" for message in listener.got))
    got = [message.data.decode() for message in listener.got]
    numbers = [int(text) for text in got if text != "last"]
    say(
        lost=sorted(acked - set(numbers)),
        many=len(before) >= 2000,
        ordered=numbers == sorted(set(numbers)),
        sequences=[message.seq for message in listener.got] == list(range(1, len(got) + 1)),
    )
    await session.close()


SCENARIOS: dict[str, Callable[[str], Awaitable[None]]] = {
    function.__name__: function
    for function in (
        publish, starts, durable, queue, queueLeave, durableQueue, redelivery, inFlight, refused,
        replaced, limits, channels, idle, idleAgain, heartbeats, restart, killed,
        permissions, shops,
    )
}  # fmt: skip


async def run(name: str, url: str) -> None:
    """
    Run one scenario.
    """
    scenario.set(name)
    try:
        await SCENARIOS[name](url)
    except Exception:
        say(failed=traceback.format_exc())


async def main(url: str, *names: str) -> None:
    """Run scenarios at the same time."""
    await asyncio.gather(*(run(name, url) for name in names))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
