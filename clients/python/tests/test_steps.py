"""The steps on a real Redis, with both counters."""

from __future__ import annotations

import asyncio
import inspect
import time
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from proxy import Proxy
from strikes import keys as k
from strikes import steps
from strikes.counter import AsyncCounter, Counter
from strikes.errors import Fault, ForeignError, ReplyError, SettingError, StoreError, fault_of
from strikes.keys import Message
from strikes.record import parse_record
from strikes.steps import Attempt, Cause, Failure, Mode, ReplyCode


class Blocking:
    """An AsyncCounter with the methods of a Counter."""

    def __init__(self, url, **options):
        self.loop = asyncio.new_event_loop()
        self.counter = AsyncCounter.from_url(url, **options)

    def __getattr__(self, name):
        found = getattr(self.counter, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args: self.loop.run_until_complete(found(*args))


@pytest.fixture(params=[Counter.from_url, Blocking], ids=["sync", "asyncio"])
def dial(request, monkeypatch):
    # a test sends a step once, and a busy machine is no outage
    for name in ("CONNECT_TIMEOUT", "MOST_TIMEOUT"):
        monkeypatch.setattr(f"strikes.counter.{name}", 60.0)
    return request.param


@pytest.fixture
def counter(dial, redis_url, prefix):
    made = dial(redis_url, prefix=prefix)
    yield made
    made.close()


@pytest.fixture
def store(redis_url):
    client = redis.Redis.from_url(redis_url)
    yield client
    client.close()


def attempt(token="t1", message_id="17", **fields):
    return Attempt(Message("orders", message_id), token, "test", **fields)


def record_of(store, prefix, message_id="17"):
    return parse_record(store.get(k.keys(Message("orders", message_id), prefix).record) or b"")


def test_a_failure_is_counted_once(counter, store, prefix):
    failure = Failure(limit=2, wait=0.05, reason="no stock", ran=0.5)
    first = counter.fail(attempt(), failure)
    again = counter.fail(attempt(), failure)
    assert (first.code, first.failures, first.limit) == (ReplyCode.REQUEUE, 1, 2)
    assert again.failures == 1
    last = counter.fail(attempt("t2"), Failure(limit=2, cause=Cause.PANICKED, reason="ü" * 600))
    assert (last.code, last.failures, last.cause) == (ReplyCode.EXHAUSTED, 2, "panicked")
    record = record_of(store, prefix)
    assert (record.state, record.failures, record.tokens) == ("exhausted", 2, {"t1": "f", "t2": "f"})
    assert record.reason == ("ü" * 512).encode()
    assert (record.id, record.consumer, record.limit, record.counted) == (b"17", b"test", 2, 2)
    assert 0 < store.pttl(k.keys(Message("orders", "17"), prefix).record) <= steps.DEFAULT_TTL * 1000


def test_start_waits_runs_and_ends(counter, store, prefix):
    counter.fail(attempt(), Failure(limit=3, wait=2))
    waiting = counter.start(attempt("t2"), Mode.SHARED, 3)
    assert waiting.code is ReplyCode.WAIT and 0 < waiting.wait <= 2
    time.sleep(waiting.wait)
    ran = counter.start(attempt("t2", fence=7), Mode.SHARED, 3)
    assert ran.code is ReplyCode.RUN and ran.fence > 7 and ran.counted == 1
    assert counter.start(attempt("t2"), Mode.SHARED, 3).fence == ran.fence
    assert record_of(store, prefix).open == "t2"
    assert counter.end(attempt("t2"), True).code is ReplyCode.ENDED
    record = record_of(store, prefix)
    assert (record.state, record.open, record.tokens) == ("done", "", {"t1": "f", "t2": "e"})


def test_a_suspect_is_isolated_and_its_crash_counted(counter):
    counter.start(attempt("a"), Mode.SHARED, 4)
    assert counter.start(attempt("b"), Mode.SHARED, 4).code is ReplyCode.SUSPECT
    assert counter.start(attempt("b"), Mode.ISOLATED, 4).code is ReplyCode.RUN
    assert counter.begun(attempt("b")).code is ReplyCode.BEGUN
    crashed = counter.start(attempt("c"), Mode.ISOLATED, 4)
    assert (crashed.code, crashed.crashes) == (ReplyCode.RUN, 1)
    assert counter.end(attempt("b"), False).crashes == 0


def test_ids_of_any_bytes(counter, store, prefix):
    for message_id in (b"\xff\xfe", b"x" * 255, b"\x00", "ü{}:%"):
        reply = counter.fail(attempt(message_id=message_id), Failure(limit=5))
        assert reply.failures == 1
        want = message_id if isinstance(message_id, bytes) else message_id.encode()
        assert record_of(store, prefix, message_id).id == want
    counter.fail(attempt(message_id="y" * 600), Failure(limit=5))
    assert record_of(store, prefix, "y" * 600).id == b"y" * 512


def test_an_error_may_be_one_element(counter, store, prefix):
    store.set(k.keys(Message("orders", "17"), prefix).record, "not mine")
    with pytest.raises(ForeignError, match="redis-cli TYPE"):
        counter.fail(attempt(), Failure(limit=5))
    store.set(k.keys(Message("orders", "18"), prefix).index, "a string")
    with pytest.raises(ForeignError):
        counter.fail(attempt(message_id="18"), Failure(limit=5))


def test_the_server_forgets_its_scripts(counter, store):
    counter.fail(attempt(), Failure(limit=5))
    store.script_flush()
    assert counter.fail(attempt("t2"), Failure(limit=5)).failures == 2


def test_control(counter, store, prefix):
    read = lambda state="consuming": counter.control("/", "orders", "me", "test", state)
    assert read() == steps.Control()
    pause, consumers, skips = k.control_keys("/", "orders", prefix)
    store.hset(pause, mapping={"paused": 1, "by": "ann", "at": 5, "why": "stock"})
    store.zadd(skips, {k.member("17", ""): 4e12})
    got = read("stopped")
    assert (got.paused, got.by, got.at, got.why) == (True, b"ann", 5, b"stock")
    assert got.skips(Message("orders", "17")) and not got.skips(Message("orders", "18"))
    assert store.zrange(consumers, 0, -1) == [b"1 me test"]
    read("left")
    assert store.zrange(consumers, 0, -1) == []


def server(url):
    return {"host": urlsplit(url).hostname, "port": urlsplit(url).port, "socket_timeout": 1}


def test_refused_arguments(counter, redis_url):
    for call in (
        lambda: counter.start(attempt(), Mode.SHARED, 0),
        lambda: counter.fail(attempt("no spaces"), Failure(limit=1)),
        lambda: counter.fail(attempt(message_id=""), Failure(limit=1)),
        lambda: counter.fail(attempt(), Failure(limit=1, cause=Cause.SKIPPED)),
        lambda: counter.start(attempt(fence=-1), Mode.SHARED, 1),
        lambda: Counter.from_url(redis_url, prefix="a{b"),
        lambda: Counter.from_url(redis_url, ttl=1),
        lambda: Counter.from_url("amqp://x"),
        lambda: Counter(redis.Redis(decode_responses=True, socket_timeout=1)),
        lambda: Counter(redis.Redis()),
        lambda: Counter(redis.Redis(socket_timeout=1, retry_on_timeout=True)),
        lambda: Counter(redis.Redis(socket_timeout=1, retry=Retry(NoBackoff(), 3))),
        lambda: Counter(redis.Redis(**server(redis_url), single_connection_client=True)),
        lambda: Counter(redis.asyncio.Redis(socket_timeout=1)),
        lambda: AsyncCounter(redis.Redis(socket_timeout=1)),
    ):
        with pytest.raises(SettingError):
            call()


class Cluster(redis.RedisCluster):
    def __init__(self):
        """It dials nothing."""

    def __del__(self):
        pass


def test_a_client_that_would_hold_the_isolation_lock_is_refused():
    with pytest.raises(SettingError, match="^socket_timeout must be seconds, 1.0 at most, got 5$"):
        Counter(redis.Redis(socket_timeout=5))


@pytest.mark.parametrize("made", [
    lambda: Counter(Cluster()), lambda: AsyncCounter(redis.asyncio.RedisCluster(host="127.0.0.1", port=1)),
])
def test_a_client_of_a_cluster_is_refused(made):
    """With one node frozen, redis-py held a step for 7 s, and so the isolation lock."""
    want = "^client must be a client of one server or of Sentinel: .* got '.*Cluster'$"
    with pytest.raises(SettingError, match=want):
        made()


def test_a_store_that_is_away(own_redis):
    counter = Counter.from_url(own_redis.url.replace("//", "//:secret@"))
    with pytest.raises(StoreError) as refused:
        counter.fail(attempt(), Failure(limit=1))
    assert refused.value.fault is Fault.DENIED and refused.value.not_taken and "secret" not in str(refused.value)
    own_redis.stop()
    with pytest.raises(StoreError) as gone:
        Counter.from_url(own_redis.url).fail(attempt(), Failure(limit=1))
    assert gone.value.fault is Fault.UNREACHABLE and not gone.value.not_taken


@pytest.mark.parametrize(
    "reply", [None, [], [b"RUN"], [b"NEW", 0, 0, 0, 0, 0, None, None, 0], [b"RUN", -1, 0, 0, 0, 0, None, None, 0]]
)
def test_replies_that_are_none(reply):
    with pytest.raises(ReplyError):
        steps.parse_reply(reply)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("READONLY You can't write", Fault.READ_ONLY), ("OOM command not allowed", Fault.OUT_OF_SPACE),
        ("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't", Fault.READ_ONLY),
        ("unknown command 'EVALSHA'", Fault.OTHER_KIND), ("ERR something", Fault.OTHER), ("NOPERM no", Fault.DENIED),
        ("DB index is out of range", Fault.NOT_SET_UP), ("ERR SELECT is not allowed in cluster mode", Fault.NOT_SET_UP),
    ],
)
def test_fault_of(text, want):
    assert fault_of(text) is want


@pytest.mark.parametrize(
    "text", [b"", b"x", b"1 2\n", b"0 " * 24 + b"x\n", b" ".join([b"0"] * 20 + [b"9"] * 5) + b"\nshort"]
)
def test_texts_that_are_no_record(text):
    assert parse_record(text) is None


def test_a_failover_behind_one_address(dial, own_redis, redis_url, prefix):
    """The old server is a replica then. It keeps its connections, and takes no step."""
    proxy = Proxy(own_redis.url)
    counter = dial(proxy.url, prefix=prefix)
    counter.fail(attempt("t1"), Failure(4))
    with redis.Redis.from_url(own_redis.url) as old:
        old.replicaof("127.0.0.1", 1)
    proxy.move(redis_url)
    with pytest.raises(StoreError) as refused:
        counter.fail(attempt("t2"), Failure(4))
    assert refused.value.fault is Fault.READ_ONLY
    assert counter.fail(attempt("t2"), Failure(4)).code is ReplyCode.REQUEUE
    counter.close()
    proxy.close()
