"""Tests for L{natsbroker.jetstream.api.ordering}."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from natsbroker.jetstream.api.ordering import RequestOrder


def test_oneAfterTheOther() -> None:
    """The first request passes first, and only one passes at a time."""
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
    """Any number may pass at once, without a call from within another."""
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
