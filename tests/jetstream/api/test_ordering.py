"""Tests for L{natsbroker.jetstream.api.ordering}."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from natsbroker.jetstream.api.ordering import RequestOrder, RequestTurn


def test_oneAfterTheOther() -> None:
    """Requests pass one at a time, in the order of their arrival."""
    order = RequestOrder()
    assert order.isIdle
    passed = [order.acquire() for _ in range(3)]
    assert [deferred.called for deferred in passed] == [True, False, False]
    order.release()
    assert [deferred.called for deferred in passed] == [True, True, False]
    order.release()
    order.release()
    assert order.isIdle


def test_many() -> None:
    """Thousands of waiting requests can pass one after the other without nested calls."""
    order, passed = RequestOrder(), []

    async def work(number: int) -> None:
        await order.acquire()
        try:
            passed.append(number)
        finally:
            order.release()

    held = order.acquire()
    running = [ensureDeferred(work(number)) for number in range(20_000)]
    assert held.called
    order.release()
    assert passed == list(range(20_000))
    assert all(deferred.called for deferred in running)


def test_cancelled() -> None:
    """A request that is cancelled is passed over."""
    order = RequestOrder()
    order.acquire()
    cancelled: Deferred[None] = order.acquire()
    last = order.acquire()
    cancelled.cancel()
    cancelled.addErrback(lambda why: why.trap(CancelledError))
    order.release()
    assert last.called
    order.release()
    assert order.isIdle


def test_beside() -> None:
    """
    Requests about other consumers pass a running one. A request about the same consumer waits for
    it.
    """
    order = RequestOrder()
    order.acquire()
    others = [order.acquire(), order.acquire()]
    order.goOn("a")
    assert [other.called for other in others] == [True, False]
    assert order.wait("b").called
    order.goOn("b")
    assert [other.called for other in others] == [True, True]
    passed: list[None] = []
    order.wait("a").addCallback(passed.append)
    order.ended("b")
    assert passed == []
    order.ended("a")
    assert passed == [None]
    order.release()
    assert order.isIdle


def test_alone() -> None:
    """A request about the whole stream waits for all running ones, and later ones wait for it."""
    order, turn = RequestOrder(), RequestTurn()
    order.acquire()
    order.goOn("a")
    passed: list[str] = []
    ensureDeferred(turn.begin(order)).addCallback(lambda _: passed.append("alone"))
    order.acquire().addCallback(lambda _: passed.append("behind"))
    assert passed == []
    order.ended("a")
    assert passed == ["alone"]
    turn.end(order)
    assert passed == ["alone", "behind"]


def test_cancelledWait() -> None:
    """A waiting request that is cancelled lets the next one pass."""
    order, turn = RequestOrder(), RequestTurn()
    order.acquire()
    order.goOn("a")
    alone = ensureDeferred(turn.begin(order))
    alone.addErrback(lambda why: why.trap(CancelledError))
    behind = order.acquire()
    alone.cancel()
    assert behind.called
    order.ended("a")
    order.release()
    assert order.isIdle
