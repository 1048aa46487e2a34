"""Settle one delivery at a time, for programs with their own loop over the deliveries of a channel.

Most programs want the Consumer of strikes.pika or strikes.aio_pika.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Unpack

from .aio import AsyncDriver, AsyncHandler, Tasks
from .aio import drive_late as drive_late_async
from .blocking import THREADS, Driver, Handler, drive_late
from .conclude import carry, settled
from .counter import AsyncCounter, Counter
from .decide import Step
from .handler import Delivery, check
from .late import Late
from .session import Outcome, Progress, Session, Settings, SettlerOptions
from .signals import Signal

Settle = Callable[[Outcome], Any]

_OUTCOMES = {Step.ACK: Outcome.ACK, Step.REQUEUE: Outcome.REQUEUE, Step.DEAD_LETTER: Outcome.DEAD_LETTER}


class _One:
    """The Port of a session with one delivery."""

    def __init__(self, settle: Settle, over: Callable[[], None]) -> None:
        self.session: Session
        self._settle, self._over = settle, over

    def settle(self, progress: Progress, step: Step) -> None:
        error: Exception | None = None
        try:
            self._settle(_OUTCOMES[step])
        except Exception as err:  # the channel is closed: the delivery returns to the queue
            error = err
        settled(self.session, progress, error)

    def done(self, progress: Progress) -> None:
        self._over()

    def flushed(self) -> Signal:
        signal = Signal()
        signal.fire()  # earlier settlements are the caller's
        return signal


def _session(settings: Settings, counter: Any, port: _One, late: Late, stop: Signal) -> Session:
    session = Session(settings, counter.options, port, late)
    port.session = session
    stop.add(session.stop.fire)
    stop.add(session.live.fire)
    return session


def _forget(session: Session, stop: Signal) -> None:
    stop.remove(session.stop.fire)
    stop.remove(session.live.fire)


class Settler:
    """Counts and settles one delivery at a time.

    Many threads may call handle. The further arguments are the fields of Settings.
    """

    def __init__(self, queue: str, counter: Counter, **settings: Unpack[SettlerOptions]) -> None:
        self._settings, self._counter, self._stop = Settings.of(queue, {**settings}), counter, Signal()
        self._late = Late(lambda steps: THREADS.submit(lambda: drive_late(counter, steps)), owned=False)

    def handle(self, delivery: Delivery, handler: Handler, settle: Settle) -> Outcome:
        """Make attempts at a delivery, count the failed ones, and settle it.

        Call it once for each delivery of an open channel.

        It calls settle with ACK, REQUEUE (basic.nack with requeue) or DEAD_LETTER (basic.nack without), in this thread
        unless the handler was abandoned. LEAVE means that the delivery was not settled: close its channel, which
        returns it. It raises the reason, unless that was `stop`.
        """
        check(handler, awaits=False)
        over = threading.Event()
        port = _One(settle, over.set)
        session = _session(self._settings, self._counter, port, self._late, self._stop)
        driver = Driver(self._counter, handler, session)
        d = session.take(delivery, 1)
        d.worker = session.workers.try_take() if not d.asks_first else False
        driver.watch()
        try:
            driver.drive(carry(session, d))
            over.wait()
        finally:
            driver.close()
            _forget(session, self._stop)
        if d.error:
            raise d.error
        return d.outcome or Outcome.LEAVE

    def stop(self) -> None:
        """End the calls of handle: handlers are cancelled, and nothing more is counted.

        The deliveries return with their channel.
        """
        self._stop.fire()


class AsyncSettler:
    """As Settler, for asyncio. The handler is a coroutine function; settle is a function that does not block."""

    def __init__(self, queue: str, counter: AsyncCounter, **settings: Unpack[SettlerOptions]) -> None:
        self._settings, self._counter, self._stop = Settings.of(queue, {**settings}), counter, Signal()
        self._tasks = Tasks()
        self._late = Late(self._spawn, owned=False)

    def _spawn(self, steps: Any) -> None:
        self._tasks.spawn(drive_late_async(self._counter, steps))

    async def handle(self, delivery: Delivery, handler: AsyncHandler, settle: Settle) -> Outcome:
        """As Settler.handle.

        If the caller is cancelled, the handler is cancelled and nothing is counted, as at a stop.
        """
        check(handler, awaits=True)
        over = asyncio.Event()
        port = _One(settle, over.set)
        session = _session(self._settings, self._counter, port, self._late, self._stop)
        driver = AsyncDriver(self._counter, handler, session)
        d = session.take(delivery, 1)
        d.worker = session.workers.try_take() if not d.asks_first else False
        driver.watch()

        async def drive() -> None:
            try:
                await driver.drive(carry(session, d))
                await over.wait()
            finally:
                driver.close()
                _forget(session, self._stop)

        driving = self._tasks.spawn(drive())
        try:
            await asyncio.shield(driving)
        except asyncio.CancelledError:
            session.stop.fire()
            session.live.fire()
            await asyncio.wait({driving})  # it gives back its locks, even if this is cancelled too
            raise
        if d.error:
            raise d.error
        return d.outcome or Outcome.LEAVE

    def stop(self) -> None:
        """As Settler.stop."""
        self._stop.fire()
