"""What operators want of the consumers of a queue: a pause, and messages to skip. A process reads it once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import steps
from .errors import Fault, StoreError
from .session import ControlView, Settings
from .steps import Call, Options

CONTROL_EVERY = 1.0
"""Seconds between two reads: a pause is in force within two."""


def call(settings: Settings, options: Options, reader: str, state: str) -> Call:
    return steps.control(settings.vhost, settings.queue, reader, settings.name, state, options)


def take(view: ControlView, settings: Settings, reached: bool, reply: Any) -> StoreError | None:
    """Take a reply or an error, and log whether the store replies if that has changed.

    After an error the last reply stands.
    """
    if not isinstance(reply, StoreError):
        try:
            view.take(steps.parse_control(reply))
        except StoreError as err:
            reply = err
    if isinstance(reply, StoreError):
        if reached:
            settings.logger.warning(
                "reading whether queue %s is paused: the store does not reply; its last reply stands: %s",
                settings.queue,
                reply,
            )
        return reply
    if not reached:
        settings.logger.info("the store replies again, queue %s", settings.queue)
    return None


def waiting_call(view: ControlView, settings: Settings, options: Options, reader: str) -> Call | None:
    """Return the report of the messages that wait because their attempts are not counted; None if there are none."""
    messages, seconds, why = view.waiting(time.monotonic())
    if not messages:
        return None
    return steps.waiting(settings.vhost, settings.queue, reader, messages, seconds, why, options)


def lanes_call(settings: Settings, options: Options) -> Call:
    return steps.lanes(settings.vhost, settings.queue, options)


def take_lanes(view: ControlView, settings: Settings, reply: Any) -> None:
    """Take the number of blocked lanes, or an error.

    After an error the last number stands; the first one in a row is logged.
    """
    unknown, view.lanes_error = view.lanes_error, None
    try:
        if isinstance(reply, StoreError):
            raise reply
        view.lanes = steps.parse_lanes(reply)
    except StoreError as err:
        view.lanes_error = err
        if not unknown:
            settings.logger.warning(
                "reading how many lanes of queue %s are blocked: %s; the last number stands: %d", settings.queue, err,
                view.lanes,
            )


def read(view: ControlView, settings: Settings, reached: bool, run: Callable[[Call], Any], reader: str, state: str,
         options: Options | None = None) -> StoreError | None:
    """Read once, and return the error."""
    options = options or Options()
    error = take(view, settings, reached, _ask(run, call(settings, options, reader, state)))
    if error is None:
        if state != "left" and (report := waiting_call(view, settings, options, reader)):
            _ask(run, report)  # after an error the next read reports it again
        read_lanes(view, settings, run, options)
    return error


def read_lanes(view: ControlView, settings: Settings, run: Callable[[Call], Any], options: Options) -> None:
    """Read how many lanes are blocked."""
    take_lanes(view, settings, _ask(run, lanes_call(settings, options)))


def _ask(run: Callable[[Call], Any], what: Call) -> Any:
    try:
        return run(what)
    except Exception as err:
        return store_error(err)


def store_error(error: Exception) -> StoreError:
    """Return any error of a read as one of the store: the reads must go on, or no pause would be obeyed any more."""
    return error if isinstance(error, StoreError) else StoreError(Fault.OTHER, repr(error))
