"""A dependency that is away, on a real RabbitMQ and a real Redis."""

from __future__ import annotations

import importlib
import itertools
import re
import threading
import time
from collections import Counter as Tally
from types import SimpleNamespace

import pytest
import redis

from clients import ADAPTERS, Running
from conftest import until
from proxy import Proxy
from strikes import NotCounted, SettingError, backoff, keys as k
from strikes.breaker import DOUBT_LASTS, IDLE, Breaker, Waiting, check
from strikes.errors import Fault, StoreError
from strikes.record import parse_record
from strikes.session import Settings
from strikes.steps import Cause, Options, Reply, ReplyCode, State

GOOD, POISON = 60, 12


@pytest.mark.parametrize(("why", "counts", "later"), [
    ("a message succeeded in this process: it goes on", None, 0),
    ("an operator wants every failure counted: this process goes on", State(now=1, count=2), 0),
    ("no message succeeds in other processes either: this process goes on, and its failures count", State(), IDLE),
])
def test_the_end_of_a_stop_of_one_process_is_a_warning(caplog, why, counts, later):
    now = [0.0]
    breaker = Breaker(2, 0, Settings("orders"), Options(), now=lambda: now[0])
    for _ in range(2):
        breaker.failed(SimpleNamespace(
            reply=Reply(ReplyCode.REQUEUE, failures=1), reports=(None, None), cause=Cause.FAILED, counted=1, uncounted=0
        ))
    now[0] = DOUBT_LASTS
    breaker._stop_alone()
    assert breaker.shut
    if counts:
        breaker._state = counts
        now[0] += later
        breaker._stop_alone()
    else:
        breaker.succeeded(SimpleNamespace(began=now[0], ran=0))
    assert not breaker.shut
    lines = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert lines[1:] == [("WARNING", f"{why}, queue orders")], lines


def test_permits_go_around():
    """A process asks up to 0.2 s after the next permit is due."""
    breaker = Breaker(2, 0, Settings("orders"), Options())
    waits = set()
    for _ in range(20):
        breaker._take([0, 1000, 0, 1, 1, 3000, 0, 8, 12, b"refused"], (None, None), False)
        waits.add(breaker._due - breaker._heard - 2)
    assert len(waits) > 10
    assert -0.01 < min(waits) <= max(waits) < 0.21, waits


def test_the_reason_of_an_outage_is_logged_on_one_line(caplog):
    """Any handler of the fleet has given it, perhaps with a part of a message."""
    breaker = Breaker(2, 0, Settings("orders"), Options())
    breaker._take([0, 1000, 0, 1, 1, 3000, 0, 8, 12, b"\x1b[2J\n"], (None, None), False)
    assert [r.getMessage().isprintable() for r in caplog.records] == [True], caplog.records


@pytest.mark.parametrize(("adapter", "queue"), [("pika", "classic"), ("aio-pika", "quorum")], indirect=["queue"])
def test_an_outage(adapter, queue, amqp_url, redis_url, prefix):
    """Poison fills the prefetch of two consumers, and the dependency is away.

    No good message is dead-lettered, all go on once it is back, and poison has exactly four counted attempts.
    """
    back, done, lock = threading.Event(), set(), threading.Lock()

    def handle(delivery):
        if delivery.id.startswith("poison") or not back.is_set():
            raise ConnectionError("connection refused")
        with lock:
            done.add(delivery.id)

    for i in range(POISON):
        queue.publish(message_id=f"poison{i}")
    for i in range(GOOD):
        queue.publish(message_id=f"good{i}")
    fleet = [
        Running(adapter, queue.name, handle, amqp_url, redis_url, prefix, breaker=8, prefetch=5, concurrency=2)
        for _ in range(2)
    ]
    client = redis.Redis.from_url(redis_url)
    try:
        breaker = k.queue_key("/", queue.name, prefix) + b"breaker"
        until(lambda: int((client.get(breaker) or b"0 0 0").split(b" ")[2]), "the breaker opens")
        until(lambda: int(client.get(breaker).split(b" ")[5]) >= 2, "two permits")
        assert not done  # poison may be dead: the first five messages of a process alone open no breaker of eight
        consumers = k.queue_key("/", queue.name, prefix) + b"consumers"
        until(
            lambda: [r[:2] for r in client.zrange(consumers, 0, -1)] == [b"2 "] * 2,
            "operators see that both have a breaker",
        )
        back.set()
        until(lambda: len(done) == GOOD, "all good messages are handled")
        published = itertools.count(GOOD)

        def dead() -> bool:
            queue.publish(message_id=f"good{next(published)}")  # of poison alone the breaker would open again
            return queue.depth(queue.dead) >= POISON

        until(dead, "poison is dead-lettered")
    finally:
        for running in fleet:
            running.stop()
    letters = [properties.message_id for _, properties, _ in queue.dead_letters()]
    assert Tally(letters) == Tally(f"poison{i}" for i in range(POISON))
    for i in range(POISON):
        record = parse_record(client.get(k.keys(k.Message(queue.name, f"poison{i}"), prefix).record))
        assert (record.state, record.failures, record.crashes) == ("exhausted", 4, 0)


def test_without_messages_beyond_the_prefetch_permits_go_to_failed_ones_at_once():
    breaker, waiting = Breaker(2, 0, Settings("orders"), Options(), now=lambda: 0.0), Waiting(0, 1, False)
    breaker.attach(lambda: pytest.fail("it fetches"))
    breaker.fetch_none()
    breaker.shut = True
    breaker._join(waiting)
    breaker._permit()
    assert waiting.permitted and waiting.over.fired


def test_the_permit_in_a_lost_reply_is_taken_with_the_next_and_a_process_that_hears_nothing_asks_for_none(monkeypatch):
    monkeypatch.setattr(backoff, "draw", lambda: 0.0)
    breaker, waiting = Breaker(2, 0, Settings("orders"), Options(), now=lambda: 0.0), Waiting(0, 1, False)
    breaker.attach(lambda: pytest.fail("it fetches"))
    breaker.fetch_none()
    wanted = []
    for permits in (4, None, 4, None, None, 5):  # None: the reply is lost
        asking = breaker._ask()
        wanted.append(next(asking).call.args[2])
        lost = StoreError(Fault.SLOW, "away")
        with pytest.raises(StopIteration):
            asking.send([0, 1, 0, 1, 1, 1, 0, 2, permits, b"refused"] if permits else lost)
        if not breaker._waiting and not waiting.over.fired:
            breaker._join(waiting)
    assert wanted == [0, 1, 0, 1, 0, 0]
    assert waiting.permitted


def same_tag():
    """Return a function that gives all consumers of a connection the tag of the first."""
    tags = []

    def change(data: bytes) -> bytes:
        tags.extend(re.findall(rb"ctag\d+\.[0-9a-f]{32}", data))
        for tag in tags[1:]:
            data = data.replace(tag, tags[0])
        return data

    return change


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_a_broker_that_allows_one_consumer_on_a_channel(adapter, classic, amqp_url, redis_url, prefix, caplog):
    """It is asked once for messages beyond the prefetch. Consumers with the same tag are refused with 530 too."""
    back, states = threading.Event(), []

    def handle(delivery):
        if not back.is_set():
            raise ConnectionError("connection refused")

    for i in range(4):
        classic.publish(message_id=f"m{i}")
    proxy = Proxy(amqp_url, change=same_tag)
    running = Running(
        adapter, classic.name, handle, proxy.url, redis_url, prefix, breaker=2, consuming=states.append
    )
    client = redis.Redis.from_url(redis_url)
    try:
        breaker = k.queue_key("/", classic.name, prefix) + b"breaker"
        until(lambda: int((client.get(breaker) or b"0 0 0 0 0 0").split(b" ")[5]) >= 3, "three permits")
        assert states == [True, False, True]
        assert sum("consumer_max_per_channel" in r.getMessage() for r in caplog.records) == 1
        back.set()
        until(lambda: running.outcomes().count("ack") == 4, "all are handled")
    finally:
        running.stop()
        proxy.close()


def test_handlers_that_could_not_work(classic, amqp_url, redis_url, prefix):
    """They open the breaker too, and none of their attempts is counted."""
    back = threading.Event()

    def handle(delivery):
        if not back.is_set():
            raise NotCounted("the database is away")

    for i in range(4):
        classic.publish(message_id=f"m{i}")
    running = Running("pika", classic.name, handle, amqp_url, redis_url, prefix, breaker=2)
    client = redis.Redis.from_url(redis_url)
    try:
        breaker = k.queue_key("/", classic.name, prefix) + b"breaker"
        until(lambda: int((client.get(breaker) or b"0 0 0 0 0 0").split(b" ")[5]), "a permit")
        back.set()
        until(lambda: running.outcomes().count("ack") == 4, "all are handled")
        assert all(e.failures == 0 for e in running.events) and "not-counted" in running.outcomes()
    finally:
        running.stop()


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_waiting_messages_are_reported(adapter, classic, amqp_url, redis_url, prefix):
    """Operators see how many messages wait because their attempts are not counted, and why."""
    back = threading.Event()

    def handle(delivery):
        if not back.is_set():
            raise NotCounted("the database is away")

    for i in range(2):
        classic.publish(message_id=f"m{i}")
    running = Running(adapter, classic.name, handle, amqp_url, redis_url, prefix)
    client = redis.Redis.from_url(redis_url)

    def report() -> bytes:
        names = client.keys(k.queue_key("/", classic.name, prefix) + b"waiting:*")
        return b"".join(client.get(name) or b"" for name in names)

    try:
        until(lambda: re.fullmatch(rb"2 \d+ .*the database is away", report()), "both are reported")
        back.set()
        until(lambda: running.outcomes().count("ack") == 2, "both are handled")
        until(lambda: not report(), "the report expires")
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("breaker", "patience"), [(1, 0), (-2, 0), (101, 0), ("8", 0), (8, -1), (8, float("inf")), (8, "30"), (0, 5)]
)
def test_refused_settings(breaker, patience):
    with pytest.raises(SettingError, match="breaker|patience"):
        check(breaker, patience)


@pytest.mark.parametrize("away", [False, True])
def test_the_last_success_is_reported(away):
    """No read follows a success that comes just before the end. A store that has not replied is not asked again."""
    breaker = Breaker(8, 0, Settings("orders"), Options(), now=lambda: 10.0)
    run = breaker.run()
    assert next(run).call.args[1].endswith(" -1 -1 -1 0")
    breaker.succeeded(SimpleNamespace(began=9.0, ran=0.5))
    breaker.over.fire()
    reply = [0, 0, 0, 0, 0, 0, 0, 0, 0, b""]
    if away:
        with pytest.raises(StopIteration):
            run.send(StoreError(Fault.SLOW, "away"))
    else:
        assert run.send(reply).call.args[1].endswith(" 1000 500 -1 0")
        with pytest.raises(StopIteration):
            run.send(reply)
    assert breaker.ended.fired


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_run_ends_once_the_store_knows_the_last_success(adapter, amqp_url, redis_url, prefix, monkeypatch):
    module = importlib.import_module(f"strikes.{adapter.replace('-', '_')}")
    seen = []

    def connection(consumer, _sequence, _late, _control, breaker):
        seen.append(breaker)
        breaker.succeeded(SimpleNamespace(began=time.monotonic(), ran=0))
        consumer.stop()

    async def connection_async(*args):
        connection(*args)

    replaced = connection if adapter == "pika" else connection_async
    monkeypatch.setattr(module.Consumer, "_connection", replaced)
    running = Running(adapter, "orders", print, amqp_url, redis_url, prefix, breaker=8)
    until(lambda: running.ended, "it ends")
    (breaker,) = seen
    assert running.error is None and breaker.ended.fired and breaker.progress(None)[1] == (None, None)
