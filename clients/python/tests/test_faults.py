"""Faults of the user's code and of the drivers: no delivery hangs, and none keeps the isolation lock.

They need no servers.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import deque
from functools import partial
from types import SimpleNamespace

import pytest
import redis.exceptions as rx

import simulated
from conftest import PATIENCE, until
from strikes import (
    AsyncCounter, Delivery, NotCounted, Outcome, Reject, RetryAfter, RetryAtMost, SettingError, aio, aio_pika,
    blocking, control, pika,
)
from strikes.errors import StoreError, StrikesError
from strikes.handler import Failed, failure_of
from strikes.isolation import EVERYTHING, PROCESS
from strikes.session import ControlView, Settings
from strikes.settler import AsyncSettler, Settler
from strikes.signals import Signal
from strikes.steps import Cause, Options, Reply, ReplyCode, lanes
from strikes.text import MAX_MILLIS

REPLIES = {
    "start": Reply(ReplyCode.RUN), "begun": Reply(ReplyCode.BEGUN),
    "fail": Reply(ReplyCode.REQUEUE, failures=1, limit=4), "end": Reply(ReplyCode.ENDED),
}


class Stub:
    """A counter with fixed replies. It notes the calls."""

    def __init__(self, **replies):
        self.options, self.sent, self.ended = Options(), [], threading.Event()
        self.replies = REPLIES | replies

    def run(self, call):
        self.sent.append(call)
        if call.name == "end":
            self.ended.set()
        reply = self.replies[call.name]
        if isinstance(reply, list):
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def args(self, name):
        return next(list(call.args[7:]) for call in self.sent if call.name == name)


def suspect(stub=Stub, **replies):
    """A counter that found an attempt open: the next one runs isolated."""
    return stub(start=[Reply(ReplyCode.SUSPECT), Reply(ReplyCode.RUN)], **replies)


SUSPECT = Delivery(b"", "1", redelivered=True)


class AsyncStub(Stub):
    async def run(self, call):
        return super().run(call)


def with_threads(stub, delivery, handler, **settings):
    got = []

    def handle():
        try:
            got.append(Settler("orders", stub, **settings).handle(delivery, handler, lambda outcome: None))
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert got, "handle hangs"
    return got[0]


def with_asyncio(stub, delivery, handler, **settings):
    other = AsyncStub()
    other.__dict__ = stub.__dict__

    async def call(delivery):
        handler(delivery)

    async def main():
        try:
            return await asyncio.wait_for(
                AsyncSettler("orders", other, **settings).handle(delivery, call, lambda outcome: None), PATIENCE
            )
        except TimeoutError:
            pytest.fail("handle hangs")
        except Exception as error:
            return error
        finally:
            await asyncio.sleep(0.2)  # for requests that are sent late

    return asyncio.run(main())


@pytest.fixture(params=[with_threads, with_asyncio], ids=["sync", "asyncio"])
def handle(request):
    yield request.param
    free()


def free():
    """Check that the process holds no locks, and release those that it holds, for the tests that follow."""
    isolation = PROCESS.isolation
    try:
        assert (
            isolation.lock.try_take(EVERYTHING) and isolation.undecided.try_take() and isolation.gate.opened() is None
        )
    finally:
        PROCESS.renew()


def failing(error):
    def handler(delivery):
        raise error
    return handler


@pytest.mark.parametrize(("new", "delivery"), [(Stub, Delivery(b"", "1")), (suspect, SUSPECT)])
def test_a_reason_that_is_no_text(handle, new, delivery):
    stub = new()
    assert handle(stub, delivery, failing(ValueError("a\ud800\udcffb"))) is Outcome.REQUEUE
    assert stub.args("fail")[2].startswith(b"ValueError: a??b")


class Base(BaseException):
    """As the timeouts of gevent and the exits of test frameworks."""


@pytest.mark.parametrize(("new", "delivery"), [(Stub, Delivery(b"", "1")), (suspect, SUSPECT)])
@pytest.mark.parametrize("error", [Base("x"), SystemExit(1), GeneratorExit()])
def test_an_error_that_is_no_exception_is_counted(handle, new, delivery, error):
    stub = new()
    assert handle(stub, delivery, failing(error)) is Outcome.REQUEUE
    assert stub.args("fail")[1] == "panicked"


@pytest.mark.parametrize(
    ("seconds", "millis"),
    [
        ("30", 30000), (2, 2000), (None, 5000), ("soon", 5000), (10**400, 5000), (float("nan"), 5000),
        (float("inf"), MAX_MILLIS),
    ],
)
def test_a_wait_that_is_no_number(handle, seconds, millis):
    stub = suspect()
    assert handle(stub, SUSPECT, failing(RetryAfter(seconds)), backoff=lambda n: 5) is Outcome.REQUEUE
    assert stub.args("fail")[0] == millis


def test_a_wait_that_would_not_end(handle):
    """Neither the handler's nor the backoff's is waited for without end."""
    events, waits = [], [float("nan"), None]

    def handler(delivery):
        if waits:
            raise NotCounted("away", after=waits.pop(0))

    backoffs = [5 / 64, float("nan")]
    outcome = handle(Stub(), Delivery(b"", "1"), handler, backoff=lambda n: backoffs.pop(0), observer=events.append)
    first, second, last = (e.wait for e in events)
    assert outcome is Outcome.ACK and (first, last) == (0.1, 0.0) and 0.1 <= second <= 0.2


@pytest.mark.parametrize(
    ("retries", "at_most"),
    [(0, 1), (-3, 1), (2, 3), (1.5, 2), (10**400, 1001), (None, 0), ("two", 0), (float("nan"), 0)],
)
def test_retries_that_are_no_number(handle, retries, at_most):
    stub = suspect()
    assert handle(stub, SUSPECT, failing(RetryAtMost(retries, after=2))) is Outcome.REQUEUE
    assert stub.args("fail")[0] == 2000 and stub.args("fail")[5] == at_most


def test_an_exception_that_steers_may_be_in_a_group_or_a_cause():
    """A TaskGroup raises a group."""
    group = ExceptionGroup("two tasks", [ValueError("x"), ExceptionGroup("one", [RetryAfter(7, "later")])])
    group.__cause__ = RetryAtMost(2, "gone", after=9)
    failed = failure_of(group, False)
    assert (failed.cause, failed.wait, failed.at_most, failed.uncounted) == (Cause.FAILED, 9, 3, False)
    assert failed.text == "ValueError: x; later"
    assert failure_of(ExceptionGroup("one", [NotCounted("away"), RetryAtMost(0)]), False).uncounted
    rejected = failure_of(BaseExceptionGroup("two", [Reject("no order"), SystemExit(1)]), False)
    assert (rejected.cause, rejected.text) == (Cause.REJECTED, "no order; SystemExit: 1")
    loop = ValueError("x")
    loop.__cause__ = ValueError("y")
    loop.__cause__.__cause__ = loop
    assert failure_of(loop, False).wait is None


class _Unreadable(Exception):
    def __str__(self):
        raise SystemExit(1)


class _Closed(Exception):
    def __getattribute__(self, name):
        raise RuntimeError(name)


def _deep():
    group = ExceptionGroup("deep", [ValueError("no stock")])
    for _ in range(1000):
        group = ExceptionGroup("deep", [group])
    return group


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (_Unreadable, "the exception cannot be read"), (_Closed, "the exception cannot be read"),
        (_deep, "deep (1 sub-exception)"), (lambda: ValueError("\ud800"), "ValueError: \ud800"),
    ],
)
def test_an_exception_that_is_hard_to_read_is_counted(make, text):
    failed = failure_of(make(), False)
    assert (failed.cause, failed.text) == (Cause.FAILED, text)


async def coroutine(delivery):
    pass


def generator(delivery):
    yield


async def async_generator(delivery):
    yield


class Called:
    async def __call__(self, delivery):
        pass


CONSUMERS = [
    (pika.Consumer, Stub, [coroutine, generator, async_generator, partial(coroutine), Called(), None]),
    (aio_pika.Consumer, AsyncStub, [generator, async_generator, None]),
]


@pytest.mark.parametrize(
    ("consumer", "stub", "handler"), [(consumer, stub, h) for consumer, stub, refused in CONSUMERS for h in refused]
)
def test_a_handler_whose_calls_would_do_nothing_is_refused(consumer, stub, handler):
    with pytest.raises(SettingError, match="^handler must be a (plain|coroutine) function without yield"):
        consumer("orders", handler, amqp="amqp://127.0.0.1:1", counter=stub())
    if consumer is pika.Consumer:
        with pytest.raises(SettingError, match="^handler must be a plain function"):
            Settler("orders", stub()).handle(Delivery(b"", "1"), handler, lambda outcome: None)
    else:
        with pytest.raises(SettingError, match="^handler must be a coroutine function"):
            asyncio.run(AsyncSettler("orders", stub()).handle(Delivery(b"", "1"), handler, lambda outcome: None))


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("returns", [coroutine, generator, async_generator])
def test_work_that_a_handler_returns_undone_is_a_failure(returns):
    stub = Stub()
    assert with_threads(stub, Delivery(b"", "1"), lambda delivery: returns(delivery)) is Outcome.REQUEUE
    reason = stub.args("fail")[2]
    assert reason.startswith(b"TypeError: the handler returned ") and b"strikes.aio_pika awaits" in reason


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("returns", "says"),
    [
        (lambda delivery: None, b"NoneType, which cannot be awaited"),
        (lambda delivery: generator(delivery), b"generator, which cannot be awaited"),
        (lambda delivery: async_generator(delivery), b"async_generator, which cannot be awaited"),
        (lambda delivery: asyncio.to_thread(coroutine, delivery), b"coroutine, and its work is not done"),
    ],
)
def test_what_cannot_be_awaited_is_a_failure(returns, says):
    stub = AsyncStub()
    handled = AsyncSettler("orders", stub).handle(Delivery(b"", "1"), returns, lambda outcome: None)
    assert asyncio.run(handled) is Outcome.REQUEUE
    assert says in stub.args("fail")[2]


@pytest.mark.parametrize(
    ("key", "want"), [(7, b"7"), (b"\xff", b"\xff"), (None, b""), (True, b""), (object(), b""), ("\ud800", b"")]
)
def test_a_key_that_is_no_text(handle, key, want):
    stub = Stub()
    outcome = handle(stub, Delivery(b"", "1"), failing(ValueError("x")), key=lambda delivery: key)
    assert outcome is (Outcome.REQUEUE if want else Outcome.DEAD_LETTER)
    assert [call.args[2] for call in stub.sent] == [want] * bool(want)


def leaves(*_):
    raise SystemExit("a callback does not end the process")


@pytest.mark.parametrize(("new", "delivery"), [(Stub, Delivery(b"", "1")), (suspect, SUSPECT)])
@pytest.mark.parametrize("name", ["backoff", "observer", "key"])
def test_a_callback_that_wants_to_exit(handle, new, delivery, name):
    """A thread that it ended would keep the delivery and the isolation lock, without a word."""
    want = Outcome.DEAD_LETTER if name == "key" else Outcome.REQUEUE  # without an id it gets one attempt
    assert handle(new(), delivery, failing(ValueError("no")), **{name: leaves}) is want


@pytest.mark.parametrize("backoff", [lambda failed: 1 / 0, lambda failed: "soon", lambda failed: float("nan")])
def test_a_backoff_that_gives_no_number_is_replaced_by_the_default_one(handle, backoff):
    stub = Stub(start=Reply(ReplyCode.RUN, failures=9))
    assert handle(stub, SUSPECT, failing(ValueError("x")), backoff=backoff) is Outcome.REQUEUE
    assert stub.args("fail")[0] >= 15_000


def test_a_store_that_raises_anything(handle):
    stub = suspect(fail=RuntimeError("a fault"))
    got = handle(stub, SUSPECT, failing(ValueError("x")))
    assert isinstance(got, RuntimeError) and str(got) == "a fault"
    assert stub.ended.wait(PATIENCE) and stub.args("end")[0] == 0


@pytest.mark.parametrize("isolated", [False, True])
def test_a_fault_within_a_delivery(monkeypatch, isolated):
    """The virtual clock: the delivery is left, its attempt closed, and the session ends."""
    monkeypatch.setattr(simulated, "result_of", lambda *_: Failed(ValueError("x"), Cause.FAILED, 5))
    world = simulated.World(
        {
            "settings": {}, "until": 60000, "deliveries": [{"at": 0, "id": "1", "redelivered": isolated}],
            "handlers": {"1": [{"fail": "x"}]}, "replies": {"1": {"START": [{"code": "SUSPECT"}, {"code": "RUN"}]}},
        }
    )
    done = [entry["do"] for entry in world.play()]
    assert done == (["START", "START", "BEGUN", "handler", "close", "END"] if isolated else ["handler", "close"])
    assert world.tasks == 0 and isinstance(world.session.error, AttributeError)
    assert world.session.isolation.lock.try_take(EVERYTHING) and world.session.isolation.undecided.try_take()


def cancelled(again):
    """Cancel a caller of AsyncSettler.handle while its isolated handler runs."""
    stub, seen = suspect(AsyncStub), []

    async def main():
        began = asyncio.Event()

        async def handler(delivery):
            began.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        settler = AsyncSettler("orders", stub)
        task = asyncio.ensure_future(settler.handle(SUSPECT, handler, seen.append))
        await asyncio.wait_for(began.wait(), PATIENCE)
        task.cancel()
        if again:
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        if again:
            await asyncio.sleep(0.5)
        assert (
            seen == ["cancelled"]
            and [call.name for call in stub.sent] == ["start", "start", "begun", "end"]
            and stub.args("end")[0] == 0
        )

    try:
        asyncio.run(main())
    finally:
        free()


def test_a_cancelled_caller():
    cancelled(again=False)


def test_a_caller_that_is_cancelled_twice():
    cancelled(again=True)


def test_a_loop_that_is_closed_keeps_no_unit_of_the_lock():
    loop, running = asyncio.new_event_loop(), []

    async def handler(delivery):
        running.append(delivery.id)
        if len(running) == 2:
            loop.stop()
        await asyncio.sleep(PATIENCE)

    for message_id in ("1", "2"):
        settled = AsyncSettler("orders", AsyncStub()).handle(Delivery(b"", message_id), handler, lambda outcome: None)
        loop.create_task(settled)
    del settled
    loop.run_forever()
    loop.close()
    assert running == ["1", "2"]
    del loop, handler
    gc.collect()
    free()


@pytest.mark.parametrize("lock", ["lock", "undecided"])
def test_a_loop_that_is_closed_waits_for_no_lock(lock):
    units = EVERYTHING if lock == "lock" else 1
    tickets = getattr(PROCESS.isolation, lock)
    assert tickets.try_take(units)
    loop, stub = asyncio.new_event_loop(), suspect(AsyncStub)

    async def waiting():
        while not tickets._line:
            await asyncio.sleep(0.001)

    async def handler(delivery):
        raise AssertionError

    task = loop.create_task(AsyncSettler("orders", stub).handle(SUSPECT, handler, lambda outcome: None))
    loop.run_until_complete(asyncio.wait_for(waiting(), PATIENCE))
    loop.close()
    del loop, task, waiting, handler
    tickets.give(units)
    gc.collect()
    free()


def test_a_loop_that_is_collected_while_its_lock_is_taken():
    class Collecting(deque):
        def __len__(self):
            gc.collect()
            return super().__len__()

    loop, tickets = asyncio.new_event_loop(), PROCESS.isolation.lock

    async def handler(delivery):
        loop.stop()
        await asyncio.sleep(PATIENCE)

    settled = AsyncSettler("orders", AsyncStub()).handle(Delivery(b"", "1"), handler, lambda outcome: None)
    loop.create_task(settled)
    del settled
    gc.disable()
    try:
        loop.run_forever()
        loop.close()
        del loop, handler
        tickets._line = Collecting()
        giver = threading.Thread(target=tickets.give, args=(0,), daemon=True)
        giver.start()
        giver.join(PATIENCE)
        assert not giver.is_alive()
    finally:
        gc.enable()
    free()


def test_a_stop_while_acks_are_awaited_begins_no_attempt(monkeypatch):
    stub = suspect()
    settler = Settler("orders", stub)

    def flushed(port):
        threading.Timer(0.01, settler.stop).start()
        return Signal()

    monkeypatch.setattr("strikes.settler._One.flushed", flushed)
    assert settler.handle(SUSPECT, failing(ValueError()), lambda outcome: None) is Outcome.LEAVE
    assert [call.name for call in stub.sent] == ["start"]
    free()


def test_a_handler_is_cancelled_before_it_is_abandoned(monkeypatch):
    """The event loop stalls beyond the deadline, for longer than a handler has to return."""
    monkeypatch.setattr(aio, "ABANDON_AFTER", 0.3)
    stub, abandoned = AsyncStub(), []

    async def handler(delivery):
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            abandoned.append(PROCESS.isolation.abandoned)

    async def main():
        settler = AsyncSettler("orders", stub, handler_timeout=0.05)
        handled = asyncio.ensure_future(settler.handle(Delivery(b"", "1"), handler, lambda outcome: None))
        await asyncio.sleep(0.01)
        time.sleep(0.5)
        return await asyncio.wait_for(handled, PATIENCE)

    assert asyncio.run(main()) is Outcome.REQUEUE and abandoned == [0]
    assert stub.args("fail")[1:3] == ["timed-out", b"TimeoutError: the handler was cancelled at its deadline"]


def test_a_thread_has_time_to_return_after_its_process_stalled(monkeypatch):
    stalled = [0]
    monkeypatch.setattr(blocking, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + stalled[0]))

    def handler(delivery):
        stalled[0] = 10
        time.sleep(0.5)

    assert with_threads(Stub(), Delivery(b"", "1"), handler, handler_timeout=1) is Outcome.ACK


def test_an_abandoned_handler_stays_cancelled_beside_the_next_attempt(monkeypatch):
    monkeypatch.setattr(blocking, "ABANDON_AFTER", 0.2)
    stub, next_began, seen = Stub(start=Reply(ReplyCode.RUN)), threading.Event(), []
    returned = threading.Event()

    def handler(delivery):
        token = delivery.attempt.token
        if seen:
            next_began.set()
            returned.wait(PATIENCE)
            return
        seen.append(token)
        next_began.wait(PATIENCE)
        seen.append((delivery.attempt.token == token, delivery.attempt.cancelled))
        returned.set()

    assert with_threads(stub, Delivery(b"", "1"), handler, handler_timeout=0.1, retry="in-place") is Outcome.ACK
    assert seen[1] == (True, True)


def test_the_late_error_of_a_step_is_not_reported_as_lost():
    """The store answers with an error after the step was given up."""
    reported = []

    async def answer(*words):
        await asyncio.sleep(0.05)
        raise rx.TimeoutError("Timeout reading")

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
        counter = AsyncCounter(SimpleNamespace(execute_command=answer))
        assert isinstance(await aio.run(counter, lanes("/", "orders", Options()), 0.01), StoreError)
        await asyncio.sleep(0.1)
        gc.collect()

    asyncio.run(main())
    assert reported == []


class Reader(Stub):
    """Its first read of the pause fails in a way that no store should; then the queue is paused."""

    def run(self, call):
        self.sent.append(call)
        if len(self.sent) == 1:
            raise AttributeError("a fault")
        return 0 if call.name == "ZCARD" else [b"1", b"ann", b"0", b""]


class AsyncReader(Reader):
    async def run(self, call):
        return super().run(call)


@pytest.mark.parametrize(
    "drive",
    [
        lambda reads: blocking.drive_late(Reader(), reads),
        lambda reads: asyncio.run(aio.drive_late(AsyncReader(), reads)),
    ],
    ids=["sync", "asyncio"],
)
def test_any_error_of_a_read_of_the_pause_is_followed_by_the_next_read(monkeypatch, drive):
    monkeypatch.setattr(control, "CONTROL_EVERY", 0.01)
    reader = control.Control(Settings("orders"), Options(), breaker=False)
    thread = threading.Thread(target=drive, args=(reader.run(),))
    thread.start()
    until(lambda: reader.view.reply.paused)
    reader.over.fire()
    thread.join(PATIENCE)
    assert reader.ended.fired


def receiving(cls):
    session = cls.__new__(cls)
    session.c = SimpleNamespace(_stopping=False)
    session.control = SimpleNamespace(view=ControlView())
    session.session = SimpleNamespace(error=ValueError("a fault"), stop=Signal())
    session.careful, session.fetches = False, False
    session._check_lost, session._turn, session._tell = lambda: None, lambda seconds: None, lambda consuming: None
    return session


def test_any_error_of_a_delivery_ends_the_session_only():
    with pytest.raises(StrikesError, match="a fault"):
        receiving(pika._Session)._receive()
    with pytest.raises(StrikesError, match="a fault"):
        asyncio.run(receiving(aio_pika._Session)._receive())
