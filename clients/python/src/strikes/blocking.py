"""The driver for threads: it carries out the effects of the generators of begin.py, conclude.py and late.py."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .counter import Counter
from .errors import StoreError
from .handler import Abandoned, Delivery, Failed, failure_of, refuse_unfinished
from .session import ABANDON_AFTER, Effect, Invoke, Progress, Send, Session, Sleep, Steps
from .steps import Cause

Handler = Callable[[Delivery], object]


class Threads:
    """Daemon threads that are kept for the next job. A handler that hangs must not keep the process from ending."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[_Worker] = deque()

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job in a thread that has none."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self._keep)
            worker.start()
        worker.give(job)

    def _keep(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def renew(self) -> None:
        """Forget the threads of the parent: a fork has none of them."""
        self._lock, self._idle = threading.Lock(), deque()


class _Worker(threading.Thread):
    def __init__(self, keep: Callable[[_Worker], None]) -> None:
        super().__init__(name="strikes", daemon=True)
        self._keep = keep
        self._job: Callable[[], None] | None = None
        self._turn = threading.Lock()
        self._turn.acquire()

    def give(self, job: Callable[[], None]) -> None:
        self._job = job
        self._turn.release()

    def run(self) -> None:
        while True:
            self._turn.acquire()
            if job := self._job:
                job()
            job = self._job = None
            self._keep(self)


THREADS = Threads()
os.register_at_fork(after_in_child=THREADS.renew)


def sleep(effect: Sleep) -> None:
    """Wait as an effect asks."""
    woken = threading.Event()
    for signal in effect.signals:
        signal.add(woken.set)
    woken.wait(effect.seconds if effect.seconds is None or effect.seconds < threading.TIMEOUT_MAX else None)
    for signal in effect.signals:
        signal.remove(woken.set)


class _Run:
    """One call of a handler, as the watchdog knows it."""

    __slots__ = ("began", "cancelled", "progress", "steps")

    def __init__(self, progress: Progress, steps: Steps, began: float) -> None:
        self.progress, self.steps, self.began = progress, steps, began
        self.cancelled: float | None = None  # when the watchdog saw that it should end


class Driver:
    """Drives the deliveries of one session, each in a thread of its own while it is under way."""

    def __init__(
        self, counter: Counter, handler: Handler, session: Session, stuck: Callable[[], None] = lambda: None
    ) -> None:
        self._counter, self._handler, self._session, self._stuck = counter, handler, session, stuck
        self._runs: dict[_Run, None] = {}
        self._over = threading.Event()
        self._cancelled_at: float | None = None
        session.live.add(self._cancelled)

    def _cancelled(self) -> None:
        self._cancelled_at = time.monotonic()

    def watch(self) -> None:
        """Abandon handlers that do not return when they are cancelled, until `close`."""
        THREADS.submit(self._watch)

    def close(self) -> None:
        self._over.set()

    def drive(self, steps: Steps, result: Any = None) -> None:
        """Drive a delivery until it is settled or left, or its handler was abandoned: then another thread goes on."""
        try:
            effect = steps.send(result)
            while True:
                try:
                    mine, result = self._do(effect, steps)
                except Exception as err:
                    effect = steps.throw(err)
                    continue
                if not mine:
                    return
                effect = steps.send(result)
        except StopIteration:
            pass

    def _do(self, effect: Effect, steps: Steps) -> tuple[bool, Any]:
        """Carry out an effect of a delivery. Return whether this thread goes on with it, and the result."""
        if isinstance(effect, Invoke):
            return self._invoke(effect.progress, steps)
        if isinstance(effect, Send):
            return True, send(self._counter, effect)
        sleep(effect)
        return True, None

    def _invoke(self, d: Progress, steps: Steps) -> tuple[bool, Failed | None]:
        began = time.monotonic()
        run = _Run(d, steps, began)
        delivery = self._session.shown(d, began)
        self._runs[run] = None
        error: BaseException | None = None
        try:
            refuse_unfinished(self._handler(delivery))
        except BaseException as raised:
            error = raised
        now = time.monotonic()
        if self._runs.pop(run, run) is run:  # the watchdog took it
            self._session.isolation.abandon(-1)
            return False, None
        d.ran = now - began
        return True, failure_of(error, self._late(began, now)) if error is not None else None

    def _late(self, began: float, now: float) -> bool:
        timeout = self._session.settings.handler_timeout
        return timeout is not None and now >= began + timeout

    def _watch(self) -> None:
        while not self._over.wait(0.1) or self._runs:
            now = time.monotonic()
            for run in list(self._runs):
                if run.cancelled is None and self._due(run, now):
                    run.cancelled = now  # after a stall of the process it still has ABANDON_AFTER
                elif run.cancelled is not None and now >= run.cancelled + ABANDON_AFTER:
                    if self._runs.pop(run, run) is None:
                        self._abandon(run, now)

    def _due(self, run: _Run, now: float) -> bool:
        return (
            self._late(run.began, now) or self._cancelled_at is not None and now >= max(run.began, self._cancelled_at)
        )

    def _abandon(self, run: _Run, now: float) -> None:
        self._session.isolation.abandon(1)
        run.progress.ran = now - run.began
        text = "the handler did not return after it was cancelled, and was abandoned"
        failed = Failed(Abandoned(text), Cause.TIMED_OUT if self._late(run.began, now) else Cause.FAILED, text)
        self._stuck()
        THREADS.submit(lambda: self.drive(run.steps, failed))


def send(counter: Counter, effect: Send) -> Any:
    """Send a step, and return its reply or its error. The timeouts of the counter's client bound it."""
    try:
        return counter.run(effect.call)
    except StoreError as err:
        return err


def drive_late(counter: Counter, steps: Steps) -> None:
    """Drive a late step to its end."""
    result: Any = None
    try:
        while True:
            effect = steps.send(result)
            result = None
            if isinstance(effect, Send):
                try:
                    result = send(counter, effect)
                except Exception as error:  # else the step would be lost with its generator
                    result = error
            elif isinstance(effect, Sleep):
                sleep(effect)
    except StopIteration:
        pass
