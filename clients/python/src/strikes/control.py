"""What operators want of the consumers of a queue: a pause, and messages to skip. A process reads it once a second."""

from __future__ import annotations

import time
from typing import Any

from . import steps
from .errors import Fault, StoreError
from .isolation import PROCESS
from .session import ControlView, Send, Settings, Sleep, Steps
from .signals import Signal
from .steps import Call, Options

CONTROL_EVERY = 1.0
"""Seconds between two reads: a pause is in force within two."""

TIMEOUT = 0.5
"""Seconds for the reply to a read, with asyncio. With threads, the timeout of the counter's client bounds it."""


class Control:
    """Reads the requests of operators for one consumer. A driver of late steps drives it."""

    def __init__(self, settings: Settings, options: Options, breaker: bool) -> None:
        self.view = ControlView()
        self.stopped = True  # the process holds no delivery of the queue
        self.first_error: StoreError | None = None
        self.first, self.over, self.ended = Signal(), Signal(), Signal()  # after a read; ends `run`; after its end
        self._settings, self._options = settings, options
        self._consuming = "breaker" if breaker else "consuming"
        self._reader = PROCESS.token()
        self._again = Signal()  # read now

    def run(self) -> Steps:
        """Read once a second until `over` fires. Then report that this process has left, if the store replies."""
        error: StoreError | None = None
        try:
            while not self.over.fired:
                self._again = Signal()
                error = yield from self._read(error is None)
                if not self.first.fired:
                    self.first_error = error
                    self.first.fire()
                yield Sleep(CONTROL_EVERY, (self._again, self.over))
            if error is None:
                yield self._send(self._call("left"))
        finally:
            self.ended.fire()

    def read_now(self) -> None:
        self._again.fire()

    def _read(self, reached: bool) -> Steps:
        """Read once, and return the error.

        Log whether the store replies if that has changed. After an error the last reply stands.
        """
        s = self._settings
        state = "stopped" if self.stopped and self.view.reply.paused else self._consuming
        reply = yield self._send(self._call(state))
        try:
            self.view.take(steps.parse_control(_answer(reply)))
        except StoreError as error:
            if reached:
                s.logger.warning(
                    "reading whether queue %s is paused: the store does not reply; its last reply stands: %s", s.queue,
                    error,
                )
            return error
        if not reached:
            s.logger.info("the store replies again, queue %s", s.queue)
        messages, seconds, why = self.view.waiting(time.monotonic())
        if messages:  # after an error the next read reports it again
            yield self._send(steps.waiting(s.vhost, s.queue, self._reader, messages, seconds, why, self._options))
        yield from self.read_lanes()
        return None

    def read_lanes(self) -> Steps:
        """Read how many lanes are blocked now: the last read may be a second old.

        After an error the last number stands; the first one in a row is logged.
        """
        s, view = self._settings, self.view
        reply = yield self._send(steps.lanes(s.vhost, s.queue, self._options))
        unknown, view.lanes_error = view.lanes_error, None
        try:
            view.lanes = steps.parse_lanes(_answer(reply))
        except StoreError as error:
            view.lanes_error = error
            if not unknown:
                s.logger.warning(
                    "reading how many lanes of queue %s are blocked: %s; the last number stands: %d", s.queue, error,
                    view.lanes,
                )

    def _call(self, state: str) -> Call:
        s = self._settings
        return steps.control(s.vhost, s.queue, self._reader, s.name, state, self._options)

    def _send(self, call: Call) -> Send:
        return Send(call, TIMEOUT)


def _answer(result: Any) -> Any:
    """Return a reply, or raise its error.

    Any error counts as one of the store. Else the reads would end, and the consumer would obey no later pause.
    """
    if not isinstance(result, Exception):
        return result
    raise result if isinstance(result, StoreError) else StoreError(Fault.OTHER, repr(result))
