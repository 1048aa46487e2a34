"""The driver for asyncio: it carries out the effects of the generators of begin.py, conclude.py and late.py."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .counter import AsyncCounter
from .errors import Fault, StoreError, StrikesError
from .handler import Abandoned, Delivery, Failed, awaited, failure_of
from .session import ABANDON_AFTER, Effect, Invoke, Progress, Send, Session, Sleep, Steps
from .steps import Call, Cause

AsyncHandler = Callable[[Delivery], Awaitable[object]]


class Tasks:
    """Background tasks, kept referenced until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def sleep(effect: Sleep) -> None:
    """Wait as an effect asks. Its signals may fire in other threads."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(woken.set)

    for signal in effect.signals:
        signal.add(wake)
    timer = None if effect.seconds is None or effect.seconds > 1e8 else loop.call_later(effect.seconds, woken.set)
    try:
        await woken.wait()
    finally:
        if timer:
            timer.cancel()
        for signal in effect.signals:
            signal.remove(wake)


async def run(counter: AsyncCounter, call: Call, timeout: float) -> Any:
    """Send a call, and return its reply or its error."""
    try:
        async with asyncio.timeout(timeout):
            return await counter.run(call)
    except TimeoutError:
        return StoreError(Fault.SLOW, f"{call.name}: no reply within {timeout} s")
    except StoreError as err:
        return err


async def drive_late(counter: AsyncCounter, steps: Steps) -> None:
    """Drive a late step to its end."""
    result: Any = None
    try:
        while True:
            effect = steps.send(result)
            result = None
            if isinstance(effect, Send):
                try:
                    result = await run(counter, effect.call, effect.timeout)
                except Exception as error:  # else the step would be lost with its generator
                    result = error
            elif isinstance(effect, Sleep):
                await sleep(effect)
    except StopIteration:
        pass


class _Run:
    """One call of a handler, as the watchdog knows it."""

    def __init__(self, task: asyncio.Task[BaseException | None], began: float) -> None:
        self.task, self.began = task, began
        self.cancelled: float | None = None  # when it was cancelled; None: it was not
        self.over = asyncio.Event()
        task.add_done_callback(lambda _: self.over.set())


class AsyncDriver:
    """Drives the deliveries of one session, each in a task of its own."""

    def __init__(
        self, counter: AsyncCounter, handler: AsyncHandler, session: Session, stuck: Callable[[], None] = lambda: None
    ) -> None:
        self._counter, self._handler, self._session, self._stuck = counter, handler, session, stuck
        self._runs: set[_Run] = set()
        self._tasks = Tasks()
        self._closed = False
        self._cancelled_at: float | None = None
        session.live.add(self._cancelled)

    def _cancelled(self) -> None:
        self._cancelled_at = time.monotonic()

    def watch(self) -> None:
        """Cancel and abandon handlers at their deadline, until `close`."""
        self._tasks.spawn(self._watch())

    def close(self) -> None:
        self._closed = True

    async def drive(self, steps: Steps) -> None:
        """Drive a delivery until it is settled or left. If its task is cancelled, it is left."""
        try:
            effect = steps.send(None)
            while True:
                try:
                    result = await self._do(effect)
                except asyncio.CancelledError:
                    with contextlib.suppress(StopIteration):
                        steps.throw(StrikesError("the task of a delivery was cancelled"))
                    raise
                except Exception as err:
                    effect = steps.throw(err)
                else:
                    effect = steps.send(result)
        except StopIteration:
            pass

    async def _do(self, effect: Effect) -> Any:
        """Carry out an effect of a delivery, and return the result."""
        if isinstance(effect, Invoke):
            return await self._invoke(effect.progress)
        if isinstance(effect, Send):
            return await run(self._counter, effect.call, effect.timeout)
        await sleep(effect)
        return None

    async def _invoke(self, d: Progress) -> Failed | None:
        began = time.monotonic()
        task = self._tasks.spawn(self._call(self._session.shown(d, began)))
        run = _Run(task, began)
        self._runs.add(run)
        await run.over.wait()
        self._runs.discard(run)
        now = time.monotonic()
        d.ran = now - began
        if not task.done():
            self._session.isolation.abandon(1)
            task.add_done_callback(lambda _: self._session.isolation.abandon(-1))
            self._stuck()
            text = "the handler did not return after it was cancelled, and was abandoned"
            return Failed(Abandoned(text), Cause.TIMED_OUT if self._late(began, now) else Cause.FAILED, text)
        error = asyncio.CancelledError() if task.cancelled() else task.result()
        if error is None:
            return None
        if run.cancelled is not None and isinstance(error, asyncio.CancelledError):
            error = TimeoutError("the handler was cancelled at its deadline")
        return failure_of(error, self._late(began, now))

    async def _call(self, delivery: Delivery) -> BaseException | None:
        try:
            await awaited(self._handler(delivery))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as raised:  # asyncio ends its loop with a SystemExit of a task
            return raised
        return None

    def _late(self, began: float, now: float) -> bool:
        timeout = self._session.settings.handler_timeout
        return timeout is not None and now >= began + timeout

    async def _watch(self) -> None:
        while not self._closed or self._runs:
            await asyncio.sleep(0.1)
            now = time.monotonic()
            for run in list(self._runs):
                if run.cancelled is None and self._due(run, now):
                    run.cancelled = now
                    run.task.cancel()
                elif run.cancelled is not None and now >= run.cancelled + ABANDON_AFTER:
                    run.over.set()

    def _due(self, run: _Run, now: float) -> bool:
        return (
            self._late(run.began, now) or self._cancelled_at is not None and now >= max(run.began, self._cancelled_at)
        )
