"""Whole consumers on a real RabbitMQ and a real Redis."""

from __future__ import annotations

import asyncio
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter as Tally
from urllib.parse import urlsplit

import aiormq
import pika
import pytest
import redis

import strikes.aio_pika
import strikes.pika
from clients import ADAPTERS, Running
from conftest import PATIENCE, ROOT, until
from proxy import Proxy
from strikes import Reject, RetryAfter, RetryAtMost, SettingError, blocking, consuming, keys as k, steps
from strikes.consuming import Refused, UncleanStop
from strikes.errors import Fault, StoreError
from strikes.keys import Message
from strikes.queue import QueueRefused
from strikes.record import parse_record


@pytest.fixture(params=sorted(ADAPTERS))
def start(request, amqp_url, redis_url, prefix):
    """Start consumers; they are stopped at the end, before their queue is deleted."""
    for name in {"queue", "classic"} & set(request.fixturenames):
        request.getfixturevalue(name)
    running = []

    def begin(queue, handler, **settings):
        amqp, store = settings.pop("amqp", amqp_url), settings.pop("redis", redis_url)
        running.append(Running(request.param, queue, handler, amqp, store, settings.pop("prefix", prefix), **settings))
        return running[-1]

    begin.adapter = request.param
    yield begin
    for r in running:
        if not r.ended:
            r.stop()


@pytest.fixture
def record(redis_url, prefix):
    client = redis.Redis.from_url(redis_url)
    yield lambda queue, message_id: parse_record(
        client.get(k.keys(Message(queue.name, message_id), prefix).record) or b""
    )
    client.close()


class Calls:
    """A handler that notes its calls and fails as often as told."""

    def __init__(self, failures=0):
        self.failures, self.seen, self.lock = failures, [], threading.Lock()

    def __call__(self, delivery):
        with self.lock:
            self.seen.append((delivery.id, delivery.attempt.number, delivery.redelivered, delivery.attempt.last))
            n = sum(1 for seen in self.seen if seen[0] == delivery.id)
        if n <= self.failures:
            raise ValueError("no stock")


def drained(queue):
    def empty():
        return queue.depth() == 0
    return empty


def test_first_deliveries_that_succeed_send_no_command(start, queue, redis_url, prefix):
    client = redis.Redis.from_url(redis_url)
    for i in range(50):
        queue.publish(b"x", str(i))
    calls = Calls()
    consumer = start(queue.name, calls)
    until(lambda: len(calls.seen) == 50)
    consumer.stop()
    assert consumer.outcomes() == ["ack"] * 50
    assert [seen[0] for seen in calls.seen] == [str(i) for i in range(50)]
    assert not [key for key in client.scan_iter(prefix + "*", count=1000) if b":r:" in key]
    assert queue.depth() == 0


def test_fails_exactly_n_times_and_is_dead_lettered(start, queue, record):
    calls = Calls(failures=100)
    queue.publish(b"body", "17")
    consumer = start(queue.name, calls, max_retries=3)
    until(lambda: "dead-letter" in consumer.outcomes())
    consumer.stop()
    assert calls.seen == [("17", n, n > 1, 4) for n in range(1, 5)]
    assert consumer.outcomes() == ["retry", "requeue"] * 3 + ["dead-letter"]
    (_, properties, body), = queue.dead_letters()
    assert (properties.message_id, body) == ("17", b"body")
    kept = record(queue, "17")
    assert (kept.state, kept.failures, kept.cause) == ("exhausted", 4, "failed")
    assert kept.reason.startswith(b"ValueError: no stock\nat test_consumer.py:")


def test_a_replayed_message_that_fails(start, queue, strikes, amqp_url, redis_url, prefix):
    queue.publish(b"", "17")
    first = start(queue.name, Calls(failures=1), max_retries=0)
    until(lambda: "dead-letter" in first.outcomes())
    first.stop()
    servers = ["--amqp-url", amqp_url, "--store-url", redis_url, "--prefix", prefix]
    subprocess.run(
        [strikes, "dead", "replay", queue.name, "17", "--yes", "--watch", "0s", "--dlq", queue.dead, *servers],
        check=True, stderr=subprocess.DEVNULL,
    )
    fences = []

    def handler(delivery):
        fences.append(delivery.attempt.fence)
        if len(fences) == 1:
            raise ValueError("no stock")

    again = start(queue.name, handler, max_retries=1)
    until(lambda: again.outcomes()[-1:] == ["ack"])
    again.stop()
    assert again.outcomes() == ["retry", "requeue", "ack"]
    assert 0 < fences[0] < fences[1] and {type(fence) for fence in fences} == {int}


def test_succeeds_after_failures(start, queue, record):
    calls = Calls(failures=2)
    queue.publish(b"", "17")
    consumer = start(queue.name, calls, max_retries=2)
    until(lambda: consumer.outcomes()[-1:] == ["ack"])
    consumer.stop()
    assert [seen[1] for seen in calls.seen] == [1, 2, 3] and queue.dead_letters() == []
    assert (record(queue, "17").state, record(queue, "17").open) == ("done", "")


def test_in_place_keeps_the_delivery(start, queue):
    calls = Calls(failures=2)
    queue.publish(b"", "17")
    consumer = start(queue.name, calls, max_retries=2, retry="in-place")
    until(lambda: consumer.outcomes()[-1:] == ["ack"])
    consumer.stop()
    assert [seen[1:3] for seen in calls.seen] == [(1, False), (2, False), (3, False)]


def test_reject_retry_after_and_exits(start, queue, record):
    waits = []

    def handler(delivery):
        if delivery.id == "reject":
            raise Reject("malformed")
        if delivery.id == "exit":
            raise SystemExit(3)
        waits.append(time.monotonic())
        if len(waits) == 1:
            raise RetryAfter(0.5, "busy")

    for message_id in ("reject", "exit", "wait"):
        queue.publish(b"", message_id)
    consumer = start(queue.name, handler, max_retries=0)
    until(lambda: consumer.outcomes().count("dead-letter") == 3)
    consumer.stop()
    causes = {message_id: record(queue, message_id).cause for message_id in ("reject", "exit", "wait")}
    assert causes == {"reject": "rejected", "exit": "panicked", "wait": "failed"}
    assert record(queue, "reject").reason == b"malformed"


def test_retry_after_waits(start, classic):
    times = []

    def handler(delivery):
        times.append(time.monotonic())
        if len(times) == 1:
            raise RetryAfter(0.7, "busy")

    classic.publish(b"", "17")
    start(classic.name, handler)
    until(lambda: len(times) == 2)
    assert times[1] - times[0] >= 0.7


def test_kinds_of_failures_and_ages(start, queue, record):
    calls = []

    def handler(delivery):
        calls.append(delivery.id)
        raise RetryAtMost(1, "gone", after=0.1) if delivery.id == "kind" else ValueError("slow")

    for message_id in ("kind", "old"):
        queue.publish(b"", message_id)
    consumer = start(queue.name, handler, max_retries=9, max_age=5, backoff=lambda n: 1)
    until(lambda: consumer.outcomes().count("dead-letter") == 2)
    consumer.stop()
    assert calls.count("kind") == 2 and 3 <= calls.count("old") < 10
    kind = record(queue, "kind")
    assert (kind.cause, kind.limit, kind.reason) == ("failed", 2, b"gone")
    assert (record(queue, "old").cause, record(queue, "old").limit) == ("too-old", 10)
    causes = {e.id: e.cause for e in consumer.events if e.outcome == "dead-letter"}
    assert causes == {"kind": "failed", "old": "too-old"}


def test_a_message_without_an_id_gets_one_attempt(start, queue):
    calls = Calls(failures=100)
    queue.publish(b"none")
    consumer = start(queue.name, calls)
    until(lambda: "dead-letter" in consumer.outcomes())
    consumer.stop()
    assert len(calls.seen) == 1 and len(queue.dead_letters()) == 1


def test_a_key_names_messages_without_an_id(start, classic):
    calls = Calls(failures=1)
    classic.publish(b"order 17")
    consumer = start(classic.name, calls, key=lambda delivery: delivery.body)
    until(lambda: "ack" in consumer.outcomes())
    assert len(calls.seen) == 2


@pytest.mark.parametrize(
    "message_id", [b"x" * 255, b"\xff\xfe\x00", "ü" * 100, b"caf\xe9"], ids=["255", "binary", "unicode", "latin"]
)
def test_ids_of_any_bytes(start, classic, record, message_id):
    calls = Calls(failures=1)
    classic.publish(b"", message_id)
    consumer = start(classic.name, calls)
    until(lambda: consumer.outcomes()[-1:] == ["ack"])
    consumer.stop()
    assert [seen[1] for seen in calls.seen] == [1, 2]
    assert record(classic, message_id).id == (message_id.encode() if isinstance(message_id, str) else message_id)


class Raw(pika.BasicProperties):
    """Properties whose headers are the bytes of a table: pika does not write every type."""

    def __init__(self, message_id, table):
        super().__init__(message_id=message_id, headers={}, delivery_mode=2)
        self.table = table

    def encode(self):
        encoded = b"".join(super().encode())
        return [encoded[:2], struct.pack(">I", len(self.table)), self.table, encoded[6:]]


FIELDS = {
    "t": b"\x01", "b": b"\xff", "B": b"\xff", "s": b"\xff\xff", "u": b"\xff\xff", "I": b"\xff" * 4, "i": b"\xff" * 4,
    "l": b"\xff" * 8, "f": struct.pack(">f", 1.5), "d": struct.pack(">d", 1.5), "D": b"\x01\0\0\0\x0f",
    "S": b"\0\0\0\2\xc3\xbc", "x": b"\0\0\0\1\xff", "A": b"\0\0\0\2t\x01", "T": struct.pack(">Q", 1777863721),
    "F": b"\0\0\0\4\1at\x01", "V": b"",
}


def test_headers_of_every_type_and_a_large_body(start, classic):
    seen = []

    def handler(delivery):
        seen.append(delivery)
        if len(seen) == 1:
            raise ValueError("again")

    body = bytes(range(256)) * 65536
    table = b"".join(b"\x01" + kind.encode() + kind.encode() + data for kind, data in FIELDS.items())
    classic.publish(body, properties=Raw("17", table + b"\4text" + b"S\0\0\0\1\xff"))
    consumer = start(classic.name, handler)
    until(lambda: consumer.outcomes()[-1:] == ["ack"])
    assert [d.body == body for d in seen] == [True, True]
    assert set(seen[1].headers) == {*FIELDS, "text"}
    assert seen[1].headers["A"] == [True] and seen[1].headers["F"] == {"a": True} and seen[1].headers["S"] == "ü"


def test_concurrency_is_bounded(start, classic):
    running, most, lock = [0], [0], threading.Lock()

    def handler(delivery):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    for i in range(40):
        classic.publish(b"", str(i))
    consumer = start(classic.name, handler, concurrency=4)
    until(lambda: len(consumer.events) == 40)
    assert most[0] == 4


def test_a_stop_waits_for_handlers_and_counts_nothing(start, queue, record):
    entered, leave = threading.Event(), threading.Event()

    def handler(delivery):
        entered.set()
        leave.wait(PATIENCE)
        raise ValueError("stopped")

    queue.publish(b"", "17")
    consumer = start(queue.name, handler)
    assert entered.wait(PATIENCE)
    consumer.consumer.stop()
    time.sleep(0.3)
    assert not consumer.ended
    leave.set()
    consumer.stop()
    assert consumer.outcomes() == ["leave"] and record(queue, "17") is None
    until(lambda: queue.depth() == 1)
    again = start(queue.name, Calls())
    until(lambda: again.outcomes() == ["ack"])


def test_a_handler_that_hangs_is_abandoned_and_counted(start, classic, record):
    hang = threading.Event()
    cancelled = []

    def handler(delivery):
        hang.wait(PATIENCE)
        cancelled.append(delivery.attempt.cancelled)

    classic.publish(b"", "17")
    consumer = start(classic.name, handler, max_retries=0, handler_timeout=0.5)
    until(lambda: "dead-letter" in consumer.outcomes())
    hang.set()
    consumer.stop()
    assert record(classic, "17").cause == "timed-out"


def test_a_connection_that_is_cut(start, queue, amqp_url):
    proxy = Proxy(amqp_url)
    calls = Calls()
    consumer = start(queue.name, calls, amqp=proxy.url)
    for i in range(300):
        queue.publish(b"", str(i))
        if i == 0:  # cuts before it has ever consumed may end the consumer, as refused credentials do
            until(lambda: calls.seen)
        if i % 60 == 30:
            proxy.cut()
    until(lambda: len({seen[0] for seen in calls.seen}) == 300 and queue.depth() == 0)
    consumer.stop()
    proxy.close()
    assert queue.depth() == 0 and queue.dead_letters() == []
    assert all(seen[1] == 1 for seen in calls.seen), "a lost connection was counted"


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"path": "/no-such-host"}, "NOT_ALLOWED - vhost no-such-host not found"), ({"netloc": ""}, "ACCESS_REFUSED")],
    ids=["virtual host", "password"],
)
def test_refused_credentials(start, amqp_url, changed, says):
    url = urlsplit(amqp_url)
    if "netloc" in changed:
        changed = {"netloc": f"guest:wrong@{url.hostname}:{url.port}"}
    consumer = start("orders", Calls(), amqp=url._replace(**changed).geturl())
    until(lambda: consumer.ended)
    with pytest.raises(Exception, match=says):
        consumer.stop()


@pytest.mark.parametrize(("query", "want"), [("", 10), ("?heartbeat=30", 30), ("?heartbeat=0", 0)])
def test_the_heartbeat(start, classic, amqp_url, query, want):
    sent = []

    def change(data):
        sent.append(data)
        return data

    proxy = Proxy(amqp_url, change=lambda: change)
    consumer = start(classic.name, Calls(), amqp=proxy.url + query)
    tune_ok = re.compile(rb"\0\x0a\0\x1f.{6}(..)", re.DOTALL)
    until(lambda: (found := tune_ok.search(b"".join(sent))) and struct.unpack(">H", found[1]) == (want,))
    consumer.stop()


def test_a_network_that_fails_silently(start, classic, amqp_url):
    proxy, calls = Proxy(amqp_url), Calls()
    start(classic.name, calls, amqp=proxy.url + "?heartbeat=1")
    classic.publish(b"", "1")
    until(lambda: calls.seen)
    proxy.silence()
    classic.publish(b"", "2")
    until(lambda: calls.seen[-1][0] == "2")


@pytest.mark.parametrize(("query", "want"), [
    ("", (10, 9)), ("?heartbeat=0", (0, 10**6)), ("?timeout=5", (10, 5)), ("?heartbeat=2&name=a", (2, 1)),
])
def test_how_long_aiormq_waits_for_a_heartbeat(query, want):
    async def connection():
        return aiormq.Connection(strikes.aio_pika.with_heartbeat("amqp://localhost/%2F" + query))

    made = asyncio.run(connection())
    assert (made.heartbeat_timeout, made.timeout, made.vhost) == (*want, "/")


@pytest.mark.parametrize("sent", [b"PLAIN", b"\x00\x0a\x00\x28"], ids=["credentials", "virtual host"])
def test_a_handshake_that_is_cut_is_no_refusal(start, classic, amqp_url, sent):
    """A broker that is restarted while a consumer starts cuts it."""
    left = [1, 2, 3]

    def change(data):
        if sent in data and left:
            left.pop()
            raise OSError
        return data

    proxy, calls = Proxy(amqp_url, change=lambda: change), Calls()
    classic.publish(b"", "1")
    start(classic.name, calls, amqp=proxy.url)
    until(lambda: calls.seen)
    assert left == []


def test_a_broker_that_is_away_is_logged_once_a_minute(start, monkeypatch, caplog):
    monkeypatch.setattr(consuming, "TELL_AGAIN", 1.0)

    def told():
        return [r.created for r in caplog.records if r.name == "strikes"]

    consumer = start("q", Calls(), amqp="amqp://127.0.0.1:1/")
    until(lambda: len(told()) > 1)
    consumer.stop()
    assert told()[1] - told()[0] > 0.9, caplog.text


def test_a_deleted_queue_ends_the_session_and_not_the_consumer(start, amqp_url, classic):
    calls = Calls()
    consumer = start(classic.name, calls)
    classic.publish(b"", "1")
    until(lambda: len(calls.seen) == 1)
    classic.channel.queue_delete(classic.name)
    time.sleep(1)
    assert not consumer.ended
    classic.channel.queue_declare(
        classic.name, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": classic.dead}
    )
    classic.publish(b"", "2")
    until(lambda: len(calls.seen) == 2)


def test_lost_replies_count_once(start, classic, redis_url, record):
    """Every fourth reply of the store is lost after the store has taken the step."""
    proxy = Proxy(redis_url, lose_every=4)
    calls = Calls(failures=100)
    for i in range(20):
        classic.publish(b"", str(i))
    consumer = start(classic.name, calls, redis=proxy.url, max_retries=2, concurrency=4)
    until(lambda: consumer.outcomes().count("dead-letter") == 20)
    consumer.stop()
    proxy.close()
    assert Tally(seen[0] for seen in calls.seen) == {str(i): 3 for i in range(20)}
    assert all(record(classic, str(i)).failures == 3 for i in range(20))


def test_a_slow_store_counts(start, classic, redis_url, record):
    """Each step takes 0.4 s, and a consumer waits for a second."""
    def change(data):
        time.sleep(0.4)
        return data

    proxy = Proxy(redis_url, change=lambda: change)
    classic.publish(b"", "1")
    consumer = start(classic.name, Calls(failures=100), redis=proxy.url, max_retries=1)
    until(lambda: "dead-letter" in consumer.outcomes())
    consumer.stop()
    proxy.close()
    assert consumer.outcomes() == ["retry", "requeue", "dead-letter"] and record(classic, "1").failures == 2


def test_an_outage_of_the_store_decides_nothing(start, classic, own_redis):
    calls = Calls()
    fail = {"1"}

    def handler(delivery):
        calls(delivery)
        if delivery.id in fail:
            raise ValueError("no stock")

    own_redis.stop()
    classic.publish(b"", "1")
    classic.publish(b"", "2")
    consumer = start(classic.name, handler, redis=own_redis.url, max_retries=1)
    until(lambda: consumer.outcomes().count("hold") == 1 and consumer.outcomes().count("ack") == 1)
    time.sleep(1)
    assert consumer.outcomes().count("hold") == 1 and len(calls.seen) == 2, "something was decided during the outage"
    own_redis.start()
    until(lambda: "dead-letter" in consumer.outcomes())
    assert Tally(seen[0] for seen in calls.seen) == {"1": 2, "2": 1}


def test_pause_resume_and_skip(start, classic, redis_url, prefix, caplog):
    client = redis.Redis.from_url(redis_url)
    calls = Calls(failures=1)
    states = []
    consumer = start(classic.name, calls, consuming=states.append, backoff=lambda failed: 600)
    until(lambda: states == [True])
    classic.publish(b"", "slow")
    until(lambda: "retry" in consumer.outcomes())
    pause, consumers, skips = k.control_keys("/", classic.name, prefix)
    client.zadd(skips, {k.member("slow", ""): 4e12})
    until(lambda: consumer.outcomes()[-1:] == ["requeue"] or "requeue" in consumer.outcomes())
    client.hset(pause, mapping={"paused": 1, "by": "ann", "at": 1, "why": "stock"})
    until(lambda: states == [True, False])
    until(lambda: any(m.startswith(b"1 ") for m in client.zrange(consumers, 0, -1)))
    late = start(classic.name, calls)
    until(lambda: [m[:2] for m in client.zrange(consumers, 0, -1)] == [b"1 "] * 2, "both hold no delivery")
    classic.publish(b"", "new")
    time.sleep(1.2)
    assert all(seen[0] != "new" for seen in calls.seen)
    client.hset(pause, mapping={"paused": 0})
    until(lambda: any(seen[0] == "new" for seen in calls.seen))

    def warned(text):
        return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"].count(text)

    until(lambda: warned(f"resumed, queue {classic.name}") == 2)
    consumer.stop()
    late.stop()
    client.hset(pause, mapping={"paused": 1})
    third = start(classic.name, calls)
    until(lambda: warned(f"paused, queue {classic.name}, by b'ann': b'stock'") == 3)
    third.stop()
    assert client.zrange(consumers, 0, -1) == []
    assert warned(f"resumed, queue {classic.name}") == 2, "a stop does not end the pause"


def test_a_stop_on_a_slow_broker_is_clean(start, classic, amqp_url):
    """The broker has 5 s to cancel the consumer, so that no ack under way is lost."""
    slow = threading.Event()

    def change(data):
        if slow.is_set():
            time.sleep(1.5)
        return data

    proxy = Proxy(amqp_url, change=lambda: change)
    states = []
    consumer = start(classic.name, Calls(), amqp=proxy.url, prefetch=31, consuming=states.append)
    until(lambda: states == [True])
    slow.set()
    consumer.stop()
    proxy.close()


@pytest.mark.parametrize("lost", ["connection", "queue"])
def test_a_session_that_is_lost_while_it_drains_cancels_handlers(start, classic, amqp_url, lost):
    """Their messages have returned, and run elsewhere. The broker cancels the consumer of a deleted queue."""
    began, cancelled = threading.Event(), threading.Event()

    def handler(delivery):
        began.set()
        while not delivery.attempt.cancelled:
            time.sleep(0.01)
        cancelled.set()

    proxy = Proxy(amqp_url)
    states = []
    consumer = start(classic.name, handler, amqp=proxy.url, drain_timeout=600, consuming=states.append)
    classic.publish(b"", "1")
    until(began.is_set)
    consumer.consumer.stop()
    until(lambda: states == [True, False])
    if lost == "queue":
        classic.channel.queue_delete(classic.name)
    else:
        proxy.cut()
    until(cancelled.is_set, "the handler is cancelled")
    with pytest.raises(UncleanStop):
        consumer.stop()
    proxy.close()
    assert consumer.outcomes() == ["leave"]


def test_a_stop_on_a_frozen_broker_is_unclean(start, classic, amqp_url):
    """The last ack may be lost: its message may be handled again."""
    frozen = threading.Event()
    proxy = Proxy(amqp_url, change=lambda: lambda data: b"" if frozen.is_set() else data)
    states = []
    consumer = start(classic.name, lambda delivery: frozen.set(), amqp=proxy.url, consuming=states.append)
    until(lambda: states == [True])
    classic.publish(b"", "1")
    until(lambda: "ack" in consumer.outcomes())
    with pytest.raises(UncleanStop, match="the broker did not answer"):
        consumer.stop()
    proxy.close()


def test_a_thread_that_cannot_be_started_is_no_undecodable_message(classic, amqp_url, redis_url, prefix, monkeypatch):
    """Each delivery that waits has a thread, and the system bounds their number."""
    submit, states, refused = blocking.THREADS.submit, [], []

    def full(job):
        if states == [True] and not refused:
            refused.append(job)
            raise RuntimeError("can't start new thread")
        submit(job)

    monkeypatch.setattr(blocking.THREADS, "submit", full)
    consumer = Running("pika", classic.name, Calls(), amqp_url, redis_url, prefix, consuming=states.append)
    until(lambda: states == [True])
    classic.publish(b"", "1")
    until(lambda: "ack" in consumer.outcomes())
    consumer.stop()
    assert states == [True, False, True, False] and consumer.outcomes() == ["ack"]


def test_blocked_lanes(start, classic, redis_url, prefix):
    """A queue with blocked lanes is refused.

    A session ends once a lane is blocked, and another follows once it is released.
    """
    client = redis.Redis.from_url(redis_url)
    lanes = k.lanes_key("/", classic.name, prefix)
    calls, states = Calls(), []
    start(classic.name, calls, consuming=states.append)
    until(lambda: states == [True])
    client.zadd(lanes, {"0" * 32: 1})
    until(lambda: states == [True, False])
    classic.publish(b"", "new")
    refused = start(classic.name, calls)
    until(lambda: refused.ended)
    assert isinstance(refused.error, Refused) and "1 of its lanes are blocked" in str(refused.error)
    refused.error = None
    assert calls.seen == []
    client.delete(lanes)
    until(lambda: any(seen[0] == "new" for seen in calls.seen))


def test_blocked_lanes_drain(start, classic, redis_url, prefix):
    """A session that ends because a lane is blocked lets its handlers finish."""
    client = redis.Redis.from_url(redis_url)
    lanes = k.lanes_key("/", classic.name, prefix)
    seen, states = [], []

    def handle(delivery):
        seen.append(delivery.id)
        until(lambda: states[:2] == [True, False])

    consumer = start(classic.name, handle, consuming=states.append)
    classic.publish(b"", "slow")
    until(lambda: seen)
    client.zadd(lanes, {"0" * 32: 1})
    until(consumer.outcomes)
    assert consumer.outcomes() == ["ack"]
    client.delete(lanes)
    classic.publish(b"", "next")
    until(lambda: len(seen) > 1)
    assert seen == ["slow", "next"]


def test_blocked_lanes_drain_stop(start, classic, redis_url, prefix):
    """A lane that is released while the session drains refuses nothing, and neither does a stop."""
    client = redis.Redis.from_url(redis_url)
    lanes = k.lanes_key("/", classic.name, prefix)
    started, states, finish = [], [], threading.Semaphore(0)

    def handle(delivery):
        started.append(delivery.id)
        finish.acquire(timeout=PATIENCE)

    consumer = start(classic.name, handle, consuming=states.append)
    for sessions, name in enumerate(("released", "stopped"), 1):
        classic.publish(b"", name)
        until(lambda: len(started) == sessions)
        client.zadd(lanes, {"0" * 32: 1})
        until(lambda: len(states) == 2 * sessions)
        if name == "stopped":
            stopping = threading.Thread(target=consumer.stop)
            stopping.start()
        client.delete(lanes)
        finish.release()
    stopping.join()
    assert consumer.ended and consumer.error is None
    assert started == ["released", "stopped"]


def test_unreadable_lanes(start, classic, redis_url, caplog):
    """A store that may not read the blocked lanes is refused before the first session.

    Later the last number stands, and one warning says so.
    """
    client = redis.Redis.from_url(redis_url)
    user = f"lanes-{classic.name}"
    host = redis_url.partition("://")[2]
    limited = f"redis://{user}:secret@{host}"
    calls = Calls()
    try:
        client.execute_command("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", "-zcard")
        for late in (0, 1000):  # ms in which scripts have no reply: the first read of the pause fails as well
            if late:
                client.execute_command("CLIENT", "PAUSE", late, "WRITE")
            refused = start(classic.name, calls, redis=limited)
            until(lambda refused=refused: refused.ended)
            assert (
                isinstance(refused.error, StoreError)
                and refused.error.fault is Fault.DENIED
                and "ZCARD" in str(refused.error)
            )
            refused.error = None
        client.execute_command("CLIENT", "UNPAUSE")
        client.execute_command("ACL", "SETUSER", user, "+zcard")
        consumer = start(classic.name, calls, redis=limited)
        classic.publish(b"", "before")
        until(lambda: len(calls.seen) == 1)
        caplog.clear()
        client.execute_command("ACL", "SETUSER", user, "-zcard")
        until(lambda: "are blocked" in caplog.text)
        time.sleep(2.2)  # two more reads
        assert caplog.text.count("are blocked") == 1
        classic.publish(b"", "after")
        until(lambda: len(calls.seen) == 2)
        consumer.stop()
    finally:
        client.execute_command("ACL", "DELUSER", user)


def test_refused_queues(start, amqp_url, classic):
    missing = start("py-missing", Calls())
    until(lambda: missing.ended)
    assert isinstance(missing.error, Refused) and "strikes declare" in str(missing.error)
    missing.error = None
    name = classic.name + ".plain"
    classic.channel.queue_declare(name, durable=True)
    try:
        plain = start(name, Calls())
        until(lambda: plain.ended)
        assert isinstance(plain.error, QueueRefused) and "x-dead-letter-exchange" in str(plain.error)
        plain.error = None
        start(name, Calls(), allow_drop=True).stop()
    finally:
        classic.channel.queue_delete(name)


@pytest.mark.parametrize(("url", "got"), [
    ("", "''"), ("localhost", "''"), ("127.0.0.1:5672", "''"), ("redis://:hush@127.0.0.1/", "'redis'"),
])
def test_a_url_that_is_not_the_brokers(redis_url, url, got):
    for adapter in ADAPTERS.values():
        with pytest.raises(SettingError) as refused:
            adapter("orders", print, url, redis_url, "test", {})
        assert str(refused.value) == f"the scheme of the broker's URL must be amqp or amqps, got {got}"


def test_a_queue_of_any_name(start, classic):
    name = classic.name + " w/é"
    classic.channel.queue_declare(name, durable=True)
    try:
        classic.channel.basic_publish("", name, b"", pika.BasicProperties(message_id="17"), mandatory=True)
        if start.adapter == "aio-pika":
            with pytest.raises(SettingError, match="queue must be a name that aio-pika can send, .*strikes.pika"):
                start(name, Calls(), allow_drop=True)
        else:
            consumer = start(name, Calls(failures=1), allow_drop=True)
            until(lambda: consumer.outcomes()[-1:] == ["ack"])
            consumer.stop()
    finally:
        classic.channel.queue_delete(name)


LONG = "production.billing.invoices.generate-monthly-statement"


@pytest.mark.parametrize(
    ("name", "exchange", "says"),
    [
        (LONG, "", None),
        ("x" * 200, "", None),
        (LONG, LONG + ".rejected", "x-dead-letter-exchange was cut at 255 bytes"),
        ("請求書", "", None),
        ("請求書" * 6, "", "not ASCII"),
        ("py", "請求書" * 15, "541|cut at 255 bytes"),  # RabbitMQ 4 closes the connection instead of an answer
        ("", "", "amq."),
    ],
    ids=["long", "very long", "another exchange", "not ASCII", "long, not ASCII", "exchange not ASCII", "denied"],
)
def test_an_unknown_declaration(start, amqp_url, name, exchange, says, caplog):
    """A queue is consumed whether AMQP reports its declaration or not. A warning tells why not."""
    if start.adapter == "aio-pika" and not name.isascii():
        pytest.skip("it cannot send the name")
    suffix = "-" + uuid.uuid4().hex[:12]
    exchange = exchange and exchange + suffix or name + suffix + ".dlx"
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        channel = connection.channel()
        channel.exchange_declare(exchange, "fanout")
        queue = channel.queue_declare(
            name and name + suffix, durable=True, arguments={"x-dead-letter-exchange": exchange}
        ).method.queue
        try:
            channel.basic_publish("", queue, b"", pika.BasicProperties(message_id="17"))
            consumer = start(queue, Calls())
            until(lambda: "ack" in consumer.outcomes())
            consumer.stop()
        finally:
            channel.queue_delete(queue)
            channel.exchange_delete(exchange)
    found = [r.getMessage() for r in caplog.records if "strikes doctor" in r.getMessage()]
    assert len(found) == bool(says) and (not says or re.search(says, found[0])), found


def test_partitions_are_refused(start, strikes, amqp_url):
    name = "py-" + uuid.uuid4().hex[:12]
    subprocess.run(
        [strikes, "declare", name, "--partitions", "3", "--amqp-url", amqp_url], check=True, stdout=subprocess.DEVNULL
    )
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    channel = connection.channel()
    try:
        for queue in (name, f"{name}.2"):
            refused = start(queue, Calls())
            until(lambda: refused.ended)
            assert isinstance(refused.error, QueueRefused)
            assert (
                f"{name!r} has 3 partitions" in str(refused.error)
                and "strikes consume" in str(refused.error)
                and "push mode" in str(refused.error)
            )
            refused.error = None
        channel.queue_declare(f"{name}.7", durable=True)  # its name is like that of a partition
        start(f"{name}.7", Calls(), allow_drop=True).stop()
    finally:
        for queue in (f"{name}.{i}" for i in (0, 1, 2, 7, "dlq")):
            channel.queue_delete(queue)
        for exchange in (name, f"{name}.hash3", f"{name}.dlx"):
            channel.exchange_delete(exchange)
        connection.close()


KILLER = """
import os, signal, sys
sys.path[:0] = {path!r}
from clients import Running
def handler(delivery):
    if delivery.id == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
running = Running(
    {adapter!r}, {queue!r}, handler, {amqp!r}, {redis!r}, {prefix!r}, max_retries={retries}, concurrency=2
)
running._thread.join()
"""


def test_a_message_that_kills_every_process(start, queue, amqp_url, redis_url, prefix, record):
    queue.publish(b"", "killer")
    for i in range(30):
        queue.publish(b"", str(i))
    path = [str(ROOT / "src"), str(ROOT / "tests")]
    program = KILLER.format(
        path=path, adapter=start.adapter, queue=queue.name, amqp=amqp_url, redis=redis_url, prefix=prefix, retries=2
    )
    deaths = 0
    while not (dead := queue.depth(queue.dead)):
        child = subprocess.Popen([sys.executable, "-c", program])
        until(lambda: child.poll() is not None or queue.depth(queue.dead), "the death of the child or of the message")
        if child.poll() == -signal.SIGKILL:
            deaths += 1
        else:
            child.terminate()
            child.wait(PATIENCE)
        assert deaths <= 5
    assert dead == 1 and 3 <= deaths <= 5, f"{deaths} deaths, want at most max_retries+3"
    kept = record(queue, "killer")
    assert (kept.state, kept.crashes, kept.cause) == ("exhausted", 3, "crashed")
    last = start(queue.name, Calls())
    until(lambda: queue.depth() == 0)
    last.stop()
    (_, properties, _), = queue.dead_letters()
    assert properties.message_id == "killer"


def test_two_consumers_and_a_go_consumer_share_one_count(start, queue, amqp_url, redis_url, strikes, tmp_path):
    """The Go command counts under its own prefix, so all of them do."""
    prefix = "strikes:1"
    log = tmp_path / "calls"
    program = f'echo "$STRIKES_MESSAGE_ID" >>{log}; case "$STRIKES_MESSAGE_ID" in f*) exit 1;; esac'
    theirs = subprocess.Popen(
        [
            strikes, "consume", queue.name, "--max-retries", "3", "--backoff", "20ms", "--concurrency", "2", "--",
            "sh", "-c", program,
        ],
        env={"PATH": "/usr/bin:/bin", "STRIKES_AMQP_URL": amqp_url, "STRIKES_STORE_URL": redis_url},
        stderr=subprocess.PIPE,
    )
    calls = [Calls(failures=0), Calls(failures=0)]

    def handler(mine):
        def handle(delivery):
            mine(delivery)
            time.sleep(0.005)
            if delivery.id.startswith("f"):
                raise ValueError("no stock")
        return handle

    consumers = [start(queue.name, handler(mine), max_retries=3, prefix=prefix, concurrency=2) for mine in calls]
    ids = [("f" if i % 5 == 0 else "s") + f"{i}-{queue.name}" for i in range(200)]
    for message_id in ids:
        queue.publish(b"", message_id)
    until(lambda: queue.depth(queue.dead) == 40, "40 dead letters")
    until(lambda: queue.depth() == 0)
    for consumer in consumers:
        consumer.stop()
    theirs.send_signal(signal.SIGTERM)
    assert theirs.wait(PATIENCE) == 0, theirs.stderr.read()
    theirs.stderr.close()
    tally = Tally(log.read_text().split()) + Tally(seen[0] for mine in calls for seen in mine.seen)
    assert tally == {message_id: 4 if message_id[0] == "f" else 1 for message_id in ids}
    assert log.read_text() and all(mine.seen for mine in calls), "one of the three handled nothing"
    assert sorted(p.message_id for _, p, _ in queue.dead_letters()) == sorted(i for i in ids if i[0] == "f")


def test_a_message_that_the_client_cannot_decode(start, classic, redis_url, prefix):
    client = redis.Redis.from_url(redis_url)
    calls = Calls()  # Python's time ends with the year 9999
    consumer = start(classic.name, calls)
    classic.publish(b"", "before")
    until(lambda: len(calls.seen) == 1)
    classic.publish(properties=Raw("bad", b"\1tT\x7f" + b"\xff" * 7))
    classic.publish(b"", "after")
    until(lambda: "undecodable" in consumer.outcomes())
    until(lambda: client.get(k.undecodable_key("/", classic.name, prefix)))
    time.sleep(0.5)
    assert not consumer.ended
    bad = pika.BlockingConnection(pika.URLParameters(classic.url))
    channel, purged = bad.channel(), []

    def purge():  # it misses a message that a session has at that moment
        purged.append(channel.queue_purge(classic.name).method.message_count)
        return sum(purged) == 2

    until(purge)
    bad.close()
    classic.publish(b"", "later")
    until(lambda: any(seen[0] == "later" for seen in calls.seen))


def test_a_stop_counts_nothing_while_consuming_is_told(classic, amqp_url, redis_url, prefix, record):
    """The callback may take long. A handler that fails meanwhile fails during the stop."""
    told, begun = threading.Event(), threading.Event()

    def handle(_):
        begun.set()
        told.wait(60)
        time.sleep(0.2)
        raise ValueError("no stock")

    def consuming(yes):
        if not yes:
            told.set()
            time.sleep(1)

    classic.publish(b"x", "17")
    consumer = Running("pika", classic.name, handle, amqp_url, redis_url, prefix, consuming=consuming)
    assert begun.wait(60)
    consumer.stop()
    assert consumer.outcomes() == ["leave"]
    assert record(classic, "17") == parse_record(b"")


def test_a_cancelled_stop(classic, amqp_url, redis_url, prefix, record):
    """A program that gives up waiting for a stop cancels run: its handler must not go on beside the next attempt."""
    seen = []

    async def main():
        begun, draining = asyncio.Event(), asyncio.Event()

        async def handle(delivery):
            begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        counter = strikes.AsyncCounter.from_url(redis_url, prefix=prefix)
        consumer = strikes.aio_pika.Consumer(
            classic.name, handle, amqp=amqp_url, counter=counter, observer=lambda e: seen.append(e.outcome.value),
            consuming=lambda yes: None if yes else draining.set(),
        )
        running = asyncio.create_task(consumer.run())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        consumer.stop()
        await asyncio.wait_for(draining.wait(), PATIENCE)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE)
        assert seen == ["cancelled", "leave"]
        async with asyncio.timeout(PATIENCE):
            while len(asyncio.all_tasks()) > 1:  # no task stays for as long as the program runs
                await asyncio.sleep(0.02)
        await counter.close()

    classic.publish(b"", "1")
    asyncio.run(main())
    until(lambda: classic.depth() == 1)
    assert record(classic, "1") == parse_record(b"")


def test_a_step_that_outlives_its_session(start, classic, amqp_url, redis_url, prefix, monkeypatch):
    """The store fails late, such as a resolver without a network: the gate of the isolated attempt must open again."""
    states, released, calls = [], threading.Event(), []
    sync, asynchronous = strikes.Counter.run, strikes.AsyncCounter.run

    def fails(call):
        return call.name == "end" and not released.is_set()

    def run(self, call):
        if fails(call):
            released.wait(PATIENCE)
            raise StoreError(Fault.UNREACHABLE, "the name of the store is not known")
        return sync(self, call)

    async def run_async(self, call):
        if fails(call):
            await asyncio.to_thread(released.wait, PATIENCE)
        return await asynchronous(self, call)

    def handler(delivery):
        calls.append(delivery.attempt.number)
        if len(calls) == 1:
            proxy.cut()

    def consuming(yes):
        states.append(yes)
        if states.count(True) == 2:
            released.set()

    classic.publish(b"", "1")
    tag = classic.channel.basic_get(classic.name)[0].delivery_tag
    classic.channel.basic_nack(tag)
    counter = strikes.Counter.from_url(redis_url, prefix=prefix)
    counter.start(steps.Attempt(Message(classic.name, "1"), "of-a-process-that-died"), steps.Mode.SHARED, 4)
    counter.close()
    monkeypatch.setattr(strikes.Counter, "run", run)
    monkeypatch.setattr(strikes.AsyncCounter, "run", run_async)
    for module in (strikes.pika, strikes.aio_pika):
        monkeypatch.setattr(module, "SETTLE_TIMEOUT", 0.1)
    monkeypatch.setattr(strikes.begin, "LOCKED_PATIENCE", 0.1)
    proxy = Proxy(amqp_url)
    consumer = start(classic.name, handler, amqp=proxy.url, consuming=consuming)
    until(lambda: len(calls) == 2, "the message came back, and its next attempt")
    consumer.stop()
    proxy.close()
