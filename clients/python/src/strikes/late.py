"""Steps that the store did not take while their delivery was there.

They are the END of an attempt after its session, and a FAIL after its nack.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .backoff import store_backoff
from .errors import StoreError
from .session import STEP_TIMEOUT, Send, Sleep, Steps
from .signals import Signal
from .steps import Call

_logger = logging.getLogger("strikes")

LATE_FOR = 60.0
"""Seconds for which a late step is offered to the store."""

LATE_MOST = 1000
"""Late steps at the same time; more are dropped."""


class Late:
    """Repeats steps until the store takes them: they are harmless to repeat, and better late than never.

    A step with `over` is repeated for as long as its consumer runs, if `owned`.
    """

    def __init__(
        self, spawn: Callable[[Steps], None], owned: bool = True, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._spawn, self._owned, self._now = spawn, owned, now
        self._lock = threading.RLock()
        self._closing = Signal()
        self._under_way = 0
        self.idle = Signal()  # fires after close, once no step is under way

    def add(self, call: Callable[[], Call], over: Callable[[], None] | None = None) -> None:
        """Repeat the step that call returns, until the store takes it or it is given up. Then call over.

        call makes the step again for each sending, because a step carries times that are counted back from now.
        """
        with self._lock:
            taken = self._under_way < LATE_MOST and not self._closing.fired
            self._under_way += taken
        if taken:
            forever = over is not None and self._owned
            self._spawn(self._repeat(call, over, float("inf") if forever else self._now() + LATE_FOR))
        elif over:
            over()

    def close(self) -> None:
        """Have each step sent once more."""
        self._closing.fire()
        self._check()

    def _repeat(self, call: Callable[[], Call], over: Callable[[], None] | None, until: float) -> Steps:
        try:
            sent = 0
            while self._now() < until:
                sent += 1
                yield Sleep(store_backoff(sent), (self._closing,))
                last = self._closing.fired
                reply = yield Send(call(), STEP_TIMEOUT)
                if isinstance(reply, Exception) and not isinstance(reply, StoreError) and sent == 1:
                    _logger.error("a late step failed and is sent again", exc_info=reply)
                if not isinstance(reply, Exception) or last:
                    return
        finally:
            if over:
                over()
            with self._lock:
                self._under_way -= 1
            self._check()

    def _check(self) -> None:
        if self._closing.fired and self._under_way == 0:
            self.idle.fire()
