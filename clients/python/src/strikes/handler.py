"""The arguments of a handler, and the ways in which it steers the end of its message."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import SettingError, StrikesError
from .steps import Cause


class Reject(Exception):
    """Raised by a handler: the message is dead-lettered now, whatever its count."""


class RetryAfter(Exception):
    """Raised by a handler: the next attempt waits for `seconds` instead of the backoff.

    It is counted like any other failure. The delivery waits unacked, so use it for seconds or minutes. If `seconds` is
    no number, the backoff is kept.
    """

    def __init__(self, seconds: float, *args: object) -> None:
        super().__init__(*args)
        self.seconds = seconds

    def __str__(self) -> str:
        return " ".join(str(a) for a in self.args) or f"retry after {self.seconds} s"


class RetryAtMost(Exception):
    """Raised by a handler: the message is retried at most `retries` times after a failure of this kind.

    It is dead-lettered if it has more than `retries` failed attempts of any kind, this one included. RetryAtMost lowers
    the limit for this failure alone, and never raises it. A limit that an operator gave the message replaces it. A
    negative number is treated as 0. If `retries` is no number, the limit is kept. `after` is the wait in seconds
    instead of the backoff, as with RetryAfter; None: the backoff.
    """

    def __init__(self, retries: int, *args: object, after: float | None = None) -> None:
        super().__init__(*args)
        self.retries = retries
        self.after = after

    def __str__(self) -> str:
        return " ".join(str(a) for a in self.args) or f"retry at most {self.retries} times"


class NotCounted(Exception):
    """Raised by a handler that could not work, for a reason other than the message: the attempt is not counted.

    The delivery waits unacked, and the handler is called again in this process, whatever `retry` says. It waits for the
    backoff, which grows with the attempts in a row that were not counted, or for `after` seconds. It waits at least
    0.1 s. A delivery that waited for half the consumer timeout returns to the queue. A message without an id gets
    another attempt too.
    """

    def __init__(self, *args: object, after: float | None = None) -> None:
        super().__init__(*args)
        self.after = after


def check(handler: Any, awaits: bool) -> None:
    """Refuse a handler whose calls would do nothing. `awaits` says that the caller awaits what it returns."""
    kinds: list[Callable[[Any], bool]] = [inspect.isasyncgenfunction, _is_generator_function]
    want = "a coroutine function without yield"
    if not awaits:
        kinds += [inspect.iscoroutinefunction, inspect.isgeneratorfunction]
        want = "a plain function without yield (strikes.aio_pika and AsyncSettler take coroutine functions)"
    if not callable(handler) or any(kind(f) for kind in kinds for f in (handler, handler.__call__)):
        raise SettingError("handler", handler, want)


def _is_generator_function(f: Any) -> bool:
    """Whether f is a generator function whose generators cannot be awaited, as those of types.coroutine can."""
    code = getattr(f, "__code__", None)
    return inspect.isgeneratorfunction(f) and not (code and code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def refuse_unfinished(result: object) -> None:
    """Raise a TypeError if a handler returned a coroutine or a generator.

    Its work would not be done, and the message would be acked.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            f"the handler returned an object of type {type(result).__name__}, and its work is not done: "
            "do the work before returning (strikes.aio_pika awaits a coroutine function)"
        )


async def awaited(result: Any) -> None:
    """Await what a handler returned. Raise an error if that is not possible, or its work would never be done."""
    if not inspect.isawaitable(result):
        raise TypeError(
            f"the handler returned an object of type {type(result).__name__}, which cannot be awaited: "
            "declare it with async def, without yield, or use strikes.pika with a plain function"
        )
    refuse_unfinished(await result)


class Abandoned(StrikesError):
    """The error of an attempt whose handler did not return after it was cancelled."""


_STEERING = (RetryAfter, RetryAtMost, NotCounted)
"""Exceptions that may ask for a wait."""


@dataclass(frozen=True)
class Attempt:
    """Which attempt at the message this is."""

    number: int  # one more than the failed attempts that were counted so far
    last: int  # the number after whose failure the message is dead-lettered, as far as it is known
    token: str  # unique to this attempt in all processes
    fence: int  # orders the deliveries of a message: a system behind the handler may refuse lower ones than it has seen
    id: str | bytes = ""  # identifies the message: the result of `key`, or its message id
    generation: str = "0"  # distinguishes one use of the id from the next: a retry keeps it, and a replay changes it
    _cancelled: Callable[[], bool] = field(default=lambda: False, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end now: its deadline has passed, or its session is lost or over.

        A thread cannot be interrupted, so a handler that takes long asks. An asyncio handler is cancelled instead.
        """
        return self._cancelled()


@dataclass
class Delivery:
    """One message, as a handler gets it. The handler does not settle it: it returns, or raises an exception."""

    body: bytes
    id: str | bytes = ""  # bytes if it is not UTF-8; empty if the message has none
    headers: Mapping[str, Any] = field(default_factory=dict)
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    properties: Any = None  # those of the AMQP client
    attempt: Attempt = Attempt(1, 1, "", 0)


@dataclass(frozen=True)
class Failed:
    """How a handler failed."""

    error: BaseException
    cause: Cause
    text: str  # for the record
    wait: float | None = None  # that the handler asked for
    at_most: int = 0  # failed attempts that RetryAtMost allows; 0: it was not raised
    uncounted: bool = False  # NotCounted was raised


def failure_of(error: BaseException, timed_out: bool) -> Failed:
    """Judge the error of a handler. An exception that is no Exception, such as SystemExit, counts as a panic.

    Of several waits the first counts, of several limits the lowest.
    """
    cause = Cause.TIMED_OUT if timed_out else Cause.FAILED
    try:
        steering, text = steering_of(error), text_of(error)
    except (Exception, SystemExit, GeneratorExit):  # raised by methods of the exception
        return Failed(error, cause, "the exception cannot be read")
    if any(isinstance(e, Reject) for e in steering):
        return Failed(error, Cause.REJECTED, text)
    if not isinstance(error, Exception):
        return Failed(error, Cause.PANICKED, text)
    waits = (wait for e in steering if (wait := wait_of(e)) is not None)
    at_most = min((most for e in steering if (most := at_most_of(e))), default=0)
    uncounted = any(isinstance(e, NotCounted) for e in steering)
    return Failed(error, cause, text, next(waits, None), at_most, uncounted)


def steering_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions that steer the end of a message: the error, those of a group, and their causes."""
    return [e for e in tree_of(error, causes=True) if isinstance(e, (Reject, *_STEERING))]


def tree_of(error: BaseException, causes: bool) -> list[BaseException]:
    """Return an exception, those in its groups, and with `causes` also their causes.

    About 100 exceptions are enough: groups may be deep, and a cause may lead back.
    """
    tree = [error]
    for e in tree:
        if len(tree) < 100:
            tree += e.exceptions if isinstance(e, BaseExceptionGroup) else ()
            tree += [e.__cause__] if causes and e.__cause__ else ()
    return tree


def wait_of(error: BaseException) -> float | None:
    """Return the seconds that an exception asks for; None, which is the backoff, if they are no number."""
    if not isinstance(error, _STEERING):
        return None
    try:
        seconds: Any = error.seconds if isinstance(error, RetryAfter) else error.after
        return None if seconds is None else number(seconds)
    except Exception:  # whatever the user's code gave
        return None


def number(seconds: Any) -> float:
    """Return a wait that the user's code gave. It raises an error if that is no number."""
    wait = float(seconds)
    if math.isnan(wait):
        raise ValueError("the seconds to wait must be a number, got NaN")
    return wait


def at_most_of(error: BaseException) -> int:
    """Return the failed attempts that a RetryAtMost allows; 0, which is no limit of its own, if they are no number."""
    if not isinstance(error, RetryAtMost):
        return 0
    try:
        return int(min(max(error.retries, 0), 1000)) + 1
    except Exception:  # whatever the user's code gave
        return 0


def text_of(error: BaseException) -> str:
    """Return the text of an exception for the record: its type, its text, and where it was raised."""
    if isinstance(error, BaseExceptionGroup):
        leaves = [e for e in tree_of(error, causes=False) if not isinstance(e, BaseExceptionGroup)]
        return "; ".join(text_of(e) for e in leaves) or str(error)
    try:
        said = str(error)
    except Exception:  # its __str__ is the user's code
        said = "(its text cannot be read)"
    name = "" if isinstance(error, (Reject, Abandoned, *_STEERING)) else type(error).__name__
    text = ": ".join(part for part in (name, said) if part)
    frames = list(traceback.walk_tb(error.__traceback__))
    if frames and not isinstance(error, (Reject, *_STEERING)):
        code = frames[-1][0].f_code
        text += f"\nat {code.co_filename.rpartition('/')[2]}:{frames[-1][1]} in {code.co_name}"
    return text
