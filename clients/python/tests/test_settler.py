"""One delivery at a time, on a real Redis."""

from __future__ import annotations

import asyncio
import threading

import pytest

from strikes import AsyncCounter, Counter, Delivery, NotCounted, Outcome, Reject, SettingError
from strikes.session import SettlementError
from strikes.settler import AsyncSettler, Settler


def failing(error):
    def handler(delivery):
        raise error
    return handler


@pytest.fixture(params=["sync", "asyncio"])
def handle(request, redis_url, prefix):
    """Handle one delivery with each kind of settler; returns the outcome and the settlements."""

    def with_threads(delivery, handler, settle=None, **settings):
        sent = []
        settler = Settler(
            "orders", Counter.from_url(redis_url, prefix=prefix), **{"backoff": lambda n: 0.01, **settings}
        )
        return settler.handle(delivery, handler, settle or sent.append), sent

    def with_asyncio(delivery, handler, settle=None, **settings):
        sent = []

        async def main():
            counter = AsyncCounter.from_url(redis_url, prefix=prefix)
            settler = AsyncSettler("orders", counter, **{"backoff": lambda n: 0.01, **settings})
            try:
                return await settler.handle(delivery, lambda d: asyncio.to_thread(handler, d), settle or sent.append)
            finally:
                await counter.close()

        return asyncio.run(main()), sent

    return with_threads if request.param == "sync" else with_asyncio


def test_outcomes(handle):
    ok = lambda delivery: None
    assert handle(Delivery(b"", "1"), ok) == (Outcome.ACK, [Outcome.ACK])
    assert handle(Delivery(b"", "2"), failing(ValueError("x"))) == (Outcome.REQUEUE, [Outcome.REQUEUE])
    assert handle(Delivery(b"", "2", redelivered=True), ok)[0] is Outcome.ACK
    assert handle(Delivery(b"", "3"), failing(ValueError("x")), max_retries=0)[0] is Outcome.DEAD_LETTER
    assert handle(Delivery(b"", "4"), failing(Reject("x")))[0] is Outcome.DEAD_LETTER
    assert handle(Delivery(b""), failing(ValueError("x")))[0] is Outcome.DEAD_LETTER
    assert handle(Delivery(b"", redelivered=True), ok)[0] is Outcome.DEAD_LETTER
    assert (
        handle(Delivery(b"", "5"), failing(ValueError("x")), retry="in-place", max_retries=2)[0] is Outcome.DEAD_LETTER
    )


def test_attempts_that_are_not_counted(handle, redis_url, prefix):
    """The backoff grows with them; the failure that follows is the first one."""
    raises = [NotCounted("away"), NotCounted("away"), NotCounted(after=0.2), ValueError("x")]
    events, asked = [], []

    def backoff(n):
        asked.append(n)
        return 0.5 + n / 64

    def handler(delivery):
        raise raises[len(events)]

    assert handle(Delivery(b"", "6"), handler, observer=events.append, backoff=backoff)[0] is Outcome.REQUEUE
    assert [(e.outcome.value, e.failures, e.wait) for e in events[:3]] == [
        ("not-counted", 0, 0.5 + 1 / 64), ("not-counted", 0, 0.5 + 2 / 64), ("not-counted", 0, 0.2)
    ]
    assert (
        events[3].outcome is Outcome.RETRY
        and events[3].failures == 1
        and asked == [1, 2, 1]
        and str(events[0].error) == "away"
    )


def test_a_settlement_that_cannot_be_sent(handle):
    def closed(outcome):
        raise OSError("the channel is closed")

    with pytest.raises(SettlementError):
        handle(Delivery(b"", "1"), lambda delivery: None, closed)


def test_a_stop_leaves_the_delivery(redis_url, prefix):
    settler = Settler("orders", Counter.from_url(redis_url, prefix=prefix), backoff=lambda n: 60)
    threading.Timer(0.3, settler.stop).start()
    assert settler.handle(Delivery(b"", "1"), failing(ValueError("x")), lambda outcome: None) is Outcome.LEAVE


async def coroutine(_):
    """A key or an observer of this kind would do nothing, and no message would have an id."""


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": coroutine}, {"observer": coroutine}, {"backoff": coroutine},
        {"max_retries": -1}, {"max_retries": 1001}, {"max_retries": 2.5}, {"max_age": -1}, {"max_age": float("nan")},
        {"consumer_timeout": 5}, {"handler_timeout": 0}, {"handler_timeout": 901}, {"name": 17},
        {"max_age": "60"}, {"consumer_timeout": "60"}, {"handler_timeout": "60"}, {"retry": "in_place"},
    ],
)
def test_refused_settings(redis_url, wrong):
    with pytest.raises(SettingError):
        Settler("orders", Counter.from_url(redis_url), **wrong)


@pytest.mark.parametrize("counter", [Counter, AsyncCounter])
def test_a_store_that_is_no_redis(counter):
    with pytest.raises(SettingError, match="must be redis, rediss or unix, .* strikes consume.* got 'postgres'$"):
        counter.from_url("postgres://root:secret@127.0.0.1/counts")


def test_a_ttl_that_can_pass_while_a_message_is_held(redis_url):
    settler = Settler("orders", Counter.from_url(redis_url, ttl=600))
    with pytest.raises(SettingError, match="ttl"):
        settler.handle(Delivery(b"", "1"), lambda d: None, lambda outcome: None)


@pytest.mark.parametrize(("wrong", "says"), [
    ({"max_retry": 2}, "max_retry must be left out: there is no such option (did you mean max_retries?), got 2"),
    ({"concurrency": 2}, "concurrency must be left out: there is no such option, got 2"),
    ({"_foreign_from": 2}, "_foreign_from must be left out: there is no such option, got 2"),
    ({"backoff": 30}, "backoff must be a function that returns seconds, of the number of failed attempts, got 30"),
    ({"key": "id"}, "key must be a function, got 'id'"),
    ({"isolation": "on"}, "isolation must be suspects or off, got 'on'"),
])
def test_a_refused_option_is_named(redis_url, wrong, says):
    with pytest.raises(SettingError) as refused:
        Settler("orders", Counter.from_url(redis_url), **wrong)
    assert str(refused.value) == says


def test_a_consumer_names_an_unknown_option():
    from strikes.pika import Consumer

    counter = Counter.from_url("redis://127.0.0.1:1")
    with pytest.raises(SettingError, match=r"^prefetsh must be left out: .*\(did you mean prefetch\?\), got 2$"):
        Consumer("orders", print, amqp="amqp://127.0.0.1:1", counter=counter, prefetsh=2)
    Consumer("orders", print, amqp="amqp://127.0.0.1:1", counter=counter, prefetch=2, max_retries=1)


@pytest.mark.parametrize(("name", "value"), [
    ("concurrency", 1.5), ("prefetch", 10.5), ("drain_timeout", float("nan")), ("drain_timeout", "25"),
])
def test_a_consumer_refuses_numbers_that_are_none(name, value):
    from strikes.pika import Consumer

    counter = Counter.from_url("redis://127.0.0.1:1")
    with pytest.raises(SettingError, match=f"^{name} must be "):
        Consumer("orders", print, amqp="amqp://127.0.0.1:1", counter=counter, **{name: value})


def test_the_logger_gets_dead_letters_and_retries(handle, caplog):
    caplog.set_level("DEBUG", "strikes")
    handle(Delivery(b"", "9"), failing(ValueError("x")), max_retries=1)
    handle(Delivery(b"", "9", redelivered=True), failing(ValueError("x")), max_retries=1)
    handle(Delivery(b""), failing(ValueError("x")), max_retries=1)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records]
    retry, dead, nameless = [line for line in lines if "attempt" in line[1] or "dead" in line[1]]
    assert retry[0] == "DEBUG" and "message '9' of queue orders failed; it is retried" in retry[1]
    assert dead[0] == "WARNING" and "message '9' of queue orders: attempt 2 of 2, failed: ValueError('x')" in dead[1]
    assert nameless[0] == "WARNING" and "without an id, queue orders" in nameless[1]
    assert "fp:799c55d702ef: no-id: ValueError" in nameless[1]
