"""A session is one channel and the deliveries that came with it. None of them outlives it.

This module does no I/O. begin.py and conclude.py are generators: they yield requests (Send, Sleep, Invoke) and get the
results. A driver carries them out: blocking.py with threads, aio.py with asyncio.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Generator, Iterable
from copy import copy
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, Protocol, TypedDict

from . import decide
from .backoff import default_backoff
from .decide import Isolation, Retry, Step
from .errors import SettingError, StoreError, StrikesError, is_number
from .fingerprint import body_of, fingerprint_of, mark_of
from .generation import FOR_HEADER, Headers
from .handler import Attempt as HandlerAttempt
from .handler import Delivery, Failed
from .isolation import PROCESS
from .isolation import Isolation as ProcessIsolation
from .keys import Message, hash_generation
from .signals import Signal, Tickets
from .steps import Attempt, Call, Cause, Control, Mode, Options, Reply, delay
from .text import id_of

STEP_TIMEOUT = 1.0
"""Seconds for one step on the store."""

LOCKED_TIMEOUT = 0.25
"""Under the isolation lock a step is sent again after this, as every other handler of the process waits."""

LOCKED_PATIENCE = 2.0
ABANDON_AFTER = 2.0
"""Seconds that a handler has to return once it is cancelled. What it does later is ignored."""


class Outcome(str, Enum):
    """What became of a delivery, or of an attempt at it."""

    ACK = "ack"
    RETRY = "retry"  # a failed attempt was counted; the next one may begin after Event.wait
    # The handler raised NotCounted, or no message succeeds (breaker); the next attempt begins here after Event.wait.
    NOT_COUNTED = "not-counted"
    REQUEUE = "requeue"
    DEAD_LETTER = "dead-letter"
    SUPERSEDED = "superseded"  # acked without an attempt that counts: another copy of the message takes its place
    ISOLATE = "isolate"  # the message may have killed a process: its attempt is isolated
    # The store did not answer, or no message succeeds: the delivery is held, or left if it was held too long.
    HOLD = "hold"
    LEAVE = "leave"  # not settled: it returns to the queue when its channel closes
    UNDECODABLE = "undecodable"  # of no delivery: a message that the client cannot decode ended the session


@dataclass(frozen=True)
class Event:
    """One outcome. The id and the error come from messages and handlers: they may hold control characters."""

    outcome: Outcome
    queue: str
    id: str | bytes = ""
    token: str = ""
    redelivered: bool = False
    attempt: int = 0
    limit: int = 0
    failures: int = 0
    crashes: int = 0
    elapsed: float = 0.0  # seconds since this process received the delivery
    ran: float = 0.0  # seconds that the handler ran
    wait: float = 0.0  # RETRY, NOT_COUNTED: seconds until the next attempt
    cause: str = ""  # of a RETRY; of a DEAD_LETTER, that of the last counted attempt
    error: BaseException | None = None


class WaitedTooLong(StrikesError):
    """The store was out of reach for half the consumer timeout.

    Nothing was counted; the delivery returns with its channel.
    """


class SettlementError(StrikesError):
    """An ack or nack could not be sent: the channel is closed.

    A failed attempt that was counted takes effect when the message comes back.
    """


@dataclass
class Settings:
    """How a queue is consumed. Times are seconds."""

    queue: str
    vhost: str = "/"
    max_retries: int = 3  # after the first failed attempt; 0 to 1000. An operator may override it in the store
    # Seconds; a message that fails later than this after its first failed attempt is dead-lettered; 0: none.
    # An operator may override it.
    max_age: float = 0.0
    retry: Retry = Retry.REQUEUE
    isolation: Isolation = Isolation.SUSPECTS
    backoff: Callable[[int], float] = default_backoff  # after so many failed attempts
    handler_timeout: float | None = 300.0  # of one attempt, at most half the consumer timeout; None: no timeout
    # The broker's delivery acknowledgement timeout; no delivery is held for more than half of it.
    consumer_timeout: float = 1800.0
    key: Callable[[Delivery], str | bytes | int | None] | None = None  # identifies a message; None: its message id
    name: str = ""  # names this process to operators; empty: host and process id
    observer: Callable[[Event], object] | None = None  # gets every outcome; many threads may call it
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("strikes"))
    _foreign_from: float = field(default=float("-inf"), init=False, repr=False, compare=False)  # log them again then

    @classmethod
    def of(cls, queue: str, given: dict[str, Any], others: Iterable[str] = ()) -> Settings:
        """Return the settings that a program gave by name; `others` are the names that the caller takes itself."""
        options = {f.name for f in fields(cls) if f.init}
        for name in given.keys() - options:
            similar = get_close_matches(name, options | set(others), 1)
            hint = f" (did you mean {similar[0]}?)" if similar else ""
            raise SettingError(name, given[name], f"left out: there is no such option{hint}")
        return cls(queue, **given)

    def __post_init__(self) -> None:
        for name, choices in (("retry", Retry), ("isolation", Isolation)):
            value, known = getattr(self, name), [choice.value for choice in choices]
            if value not in known:
                raise SettingError(name, value, " or ".join(known))
            setattr(self, name, choices(value))
        self.name = self.name or PROCESS.name
        if not isinstance(self.name, str):
            raise SettingError("name", self.name, "a text")
        if not self.queue:
            raise SettingError("queue", self.queue, "the name of the queue to consume")
        if not isinstance(self.max_retries, int) or not 0 <= self.max_retries <= 1000:
            raise SettingError("max_retries", self.max_retries, "a whole number, 0 to 1000")
        if not is_number(self.max_age) or not 0 <= self.max_age < float("inf"):
            raise SettingError("max_age", self.max_age, "seconds, 0 at least")
        if not callable(self.backoff):
            want = "a function that returns seconds, of the number of failed attempts"
            raise SettingError("backoff", self.backoff, want)
        for name, value in (("key", self.key), ("observer", self.observer)):
            if value is not None and not callable(value):
                raise SettingError(name, value, "a function")
        for name, value in (("key", self.key), ("observer", self.observer), ("backoff", self.backoff)):
            if inspect.iscoroutinefunction(value):
                raise SettingError(name, value, "a function that is not async, because nothing awaits its coroutine")
        if not is_number(self.consumer_timeout) or not self.consumer_timeout >= 60:
            raise SettingError("consumer_timeout", self.consumer_timeout, "that of the broker, 60 at least")
        if self.handler_timeout is not None and not (
            is_number(self.handler_timeout) and 0 < self.handler_timeout <= self.consumer_timeout / 2
        ):
            raise SettingError(
                "handler_timeout",
                self.handler_timeout,
                f"at most {self.consumer_timeout / 2}, half the consumer timeout",
            )

    def check_ttl(self, options: Options) -> None:
        """Refuse a TTL that can pass while a message is handled or held."""
        least = self._longest + self.consumer_timeout * 3 / 4 + 60
        if options.ttl < least:
            raise SettingError(
                "ttl", options.ttl, f"{least} at least: the handler timeout + 3/4 of the consumer timeout + 60"
            )

    def log_foreign(self, message_id: str | bytes, now: float) -> None:
        """Log once a minute that a message carries headers of another one."""
        if now < self._foreign_from:
            return
        self._foreign_from = now + 60
        self.logger.warning(
            "message %r of queue %s carries headers of strikes that were written for another message or queue; "
            "they count as absent. "
            "A program that copies the headers of a message it received must leave out those that begin with "
            "x-strikes-; a tool that replays dead letters must set %s", message_id, self.queue, FOR_HEADER,
        )

    @property
    def _longest(self) -> float:
        return self.consumer_timeout if self.handler_timeout is None else self.handler_timeout

    @property
    def lease(self) -> float:
        """How long an open attempt at a copy counts as running."""
        return self._longest + 30

    @property
    def limit(self) -> int:
        return self.max_retries + 1


class SettlerOptions(TypedDict, total=False):
    """The fields of Settings that a program may give by name, for type checkers."""

    vhost: str
    max_retries: int
    max_age: float
    retry: Retry | Literal["requeue", "in-place"]
    isolation: Isolation | Literal["suspects", "off"]
    backoff: Callable[[int], float]
    handler_timeout: float | None
    consumer_timeout: float
    key: Callable[[Delivery], str | bytes | int | None] | None
    name: str
    observer: Callable[[Event], object] | None
    logger: logging.Logger


@dataclass(frozen=True)
class Send:
    """Send a step. Its result is a Reply or a StoreError."""

    call: Call
    timeout: float


@dataclass(frozen=True)
class Sleep:
    """Wait for so many seconds (None: without end), or until a signal fires."""

    seconds: float | None
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class Invoke:
    """Call the handler. Its result is a Failed, or None if it returned."""

    progress: Progress


Effect = Send | Sleep | Invoke
Steps = Generator[Effect, Any, Any]


class Port(Protocol):
    """The adapter's side of a session."""

    def settle(self, progress: Progress, step: Step) -> None:
        """Send the ack or nack soon, then call Session.settled. It must not block."""

    def done(self, progress: Progress) -> None:
        """Nothing more is to be done with a delivery."""

    def flushed(self) -> Signal:
        """Return the signal that fires once all settlements until now have been sent."""


class ControlView:
    """The last Control that was read, for those that wait."""

    def __init__(self) -> None:
        self.reply = Control()
        self.lanes = 0  # that dead letters hold
        self.lanes_error: StoreError | None = None  # of the last read of their number
        self.changed = Signal()
        self._waiting: dict[Progress, tuple[float, float, str]] = {}  # see postpone

    def postpone(self, d: Progress, now: float, why: str) -> None:
        """Note a delivery that waits because its attempt is not counted: no record shows it to operators."""
        since = self._waiting[d][0] if d in self._waiting else now
        self._waiting[d] = (since, now, why)

    def counted(self, d: Progress) -> None:
        """Forget a delivery of which an attempt was counted, or that is settled."""
        self._waiting.pop(d, None)

    def waiting(self, now: float) -> tuple[int, float, str]:
        """Return how many deliveries wait so, for how many seconds, and the newest reason."""
        noted = list(self._waiting.values())
        if not noted:
            return 0, 0.0, ""
        return len(noted), now - min(since for since, _, _ in noted), max(noted, key=lambda n: n[1])[2]

    def ends_sessions(self) -> bool:
        """Whether the queue must not be consumed: it is paused, or lanes are blocked."""
        return self.reply.paused or self.lanes > 0

    def take(self, reply: Control) -> None:
        """Store a reply and wake those that wait for a change."""
        if reply != self.reply:
            changed, self.changed = self.changed, Signal()
            self.reply = reply
            changed.fire()


def transported_id(delivery: Delivery) -> str | bytes:
    """Return a message's id as the broker transported it; empty if a program gave something else."""
    try:
        return id_of(delivery.id)
    except (TypeError, ValueError):
        return b""


Successes = tuple[float | None, float | None]
"""The latest begin and end of the successes that a step reports; None: it reports none."""


class Progress:
    """One message on its way from the channel to its settlement. One thread or task at a time has it."""

    def __init__(self, delivery: Delivery, tag: int, settings: Settings, now: float) -> None:
        self.delivery, self.tag, self.received = delivery, tag, now
        self.held_until = now + settings.consumer_timeout / 2
        self.headers = Headers(delivery.headers, settings.queue, transported_id(delivery), body_of(delivery))
        self.message = Message(settings.queue, delivery.id, self.headers.generation, settings.vhost)
        self.copy_number = 0  # the number of this copy; 0: it is none
        self.delay = ""  # how START and FAIL name it
        self.asks_first = False
        # The present attempt.
        self.token = ""
        self.mode = Mode.SHARED
        self.open = False  # START let it begin, or may have: its reply was lost
        self.doubt = False  # a START was not answered and may yet arrive: only END makes sure that it opens nothing
        self.number = 0  # 0 if its handler was not called
        self.began: float | None = None  # when its handler was called
        self.ran = 0.0
        self.failed: Failed | None = None
        self.cause: Cause | str = ""
        self.failure: BaseException | None = None  # the handler's, or why none was called
        # All attempts.
        self.again = False  # a counted attempt in place came before
        self.uncounted = 0  # attempts in a row that were not counted
        self.reply: Reply | None = None
        self.fence: int | None = None  # None: no handler was called yet
        self.unanswered = 0  # steps in a row that the store did not take
        self.skipped = False  # its backoff was cut short
        self.probes = 0  # attempts that the breaker permitted
        self.reports: Successes = (None, None)  # of its last step
        # What it holds.
        self.worker = False
        self.slot = False
        self.lock = 0  # units of the isolation lock
        self.undecided = False
        self.succeeded = False  # the breaker has heard that its handler returned
        self.unrecorded = False  # dead-lettered before the store has counted its failure
        self.settled_as: Step | None = None
        self.superseded = False  # acked because another copy takes its place
        self.over = False  # nothing more is to be done with it
        self.outcome: Outcome | None = None
        self.error: Exception | None = None

    def fresh(self, mode: Mode) -> None:
        """Begin a new attempt."""
        self.token, self.mode = PROCESS.token(), mode
        self.open = self.doubt = False
        self.began = None
        self.number, self.ran, self.failed, self.failure, self.cause = 0, 0.0, None, None, ""

    @property
    def first(self) -> bool:
        """Whether this is the first attempt at a delivery that is neither redelivered nor a copy."""
        return not self.again and not self.delivery.redelivered and not self.copy_number

    @property
    def counted(self) -> int:
        return self.reply.counted if self.reply else 0


_WITH_CAUSE = (Outcome.RETRY, Outcome.DEAD_LETTER)

_LEVELS = {Outcome.DEAD_LETTER: logging.WARNING, Outcome.RETRY: logging.DEBUG}
"""Outcomes that the logger gets."""


def _line(d: Progress, e: Event) -> tuple[Any, ...]:
    """Return the log line of a dead letter or a retry.

    A message without an id has no record. Its line shows the fingerprint by which `strikes dead list --read` names it.
    """
    if e.outcome is Outcome.RETRY:
        text = "an attempt at message %r of queue %s failed; it is retried in %.1f s; attempt %d of %d, %s: %r"
        return text, e.id, e.queue, e.wait, e.attempt, e.limit, e.cause, e.error
    if not e.id:
        text = "dead-lettered a message without an id, queue %s: the store has no record of it: %s: %s: %r"
        return text, e.queue, fingerprint_of(d.delivery), e.cause, e.error
    text = "dead-lettered message %r of queue %s: attempt %d of %d, %s: %r"
    return text, e.id, e.queue, e.attempt, e.limit, e.cause, e.error


class Session:
    """What the deliveries of one channel share. An adapter makes one for each channel."""

    def __init__(
        self, settings: Settings, options: Options, port: Port, late: Any, concurrency: int = 1,
        control: ControlView | None = None, isolation: ProcessIsolation | None = None,
        now: Callable[[], float] = time.monotonic, breaker: Any = None,
    ) -> None:
        settings.check_ttl(options)
        self.settings, self.options, self.port, self.late, self.now = settings, options, port, late, now
        self.isolation = isolation or PROCESS.isolation
        self.control = control or ControlView()
        self.breaker = breaker  # of breaker.py; None: there is none
        self.workers, self.slots = Tickets(concurrency), Tickets(2 * concurrency)
        self.stop = Signal()  # nothing new begins, and nothing is counted that was not
        self.live = Signal()  # fired: handlers are cancelled
        self.dead_letters_from = 0.0  # dead letters are held until then
        self.error: Exception | None = None  # ends the session from within
        self.received = 0
        self.last: str | bytes = ""  # id of the last delivery

    @property
    def limit(self) -> int:
        return self.settings.limit

    def take(self, delivery: Delivery, tag: int) -> Progress:
        """Receive a delivery. Its worker, or its wait for one, begins with `admit`."""
        d = Progress(delivery, tag, self.settings, self.now())
        key = self.settings.key
        found = self.guard("key", lambda: id_of(key(delivery) if key else delivery.id)) or ""
        d.message = Message(self.settings.queue, found, d.message.generation, self.settings.vhost)
        d.copy_number = d.headers.copy_number if found else 0
        if d.copy_number:
            d.delay = delay(d.copy_number, self.settings.lease, mark_of(delivery))
        if d.headers.foreign:
            self.settings.log_foreign(found, self.now())
        self.received, self.last = self.received + 1, d.message.id
        d.asks_first = self.decide_received(d) is not Step.RUN
        return d

    def admit(self, d: Progress, begin: Callable[[], None]) -> None:
        """Call begin once the delivery has a worker. One that asks the store first needs none yet."""
        if d.asks_first:
            begin()
            return
        d.worker = True
        if self.workers.try_take():
            begin()
        else:
            self.workers.ask().add(begin)

    def decide_received(self, d: Progress) -> Step:
        has_id = bool(d.message.id)
        return decide.received(has_id, d.first and (d.fence is None or not has_id))

    def attempt(self, d: Progress) -> Attempt:
        """Return the attempt as the store counts it."""
        age = -1
        if d.first:
            age = max(0, -int(-(self.now() - d.received) * 1000 // 1))
        progress, d.reports = self.breaker.progress(d.began) if self.breaker else ("", d.reports)
        return Attempt(
            d.message, d.token, self.settings.name, age, d.headers.fence, self.settings.max_age, progress, d.delay
        )

    def shown(self, d: Progress, began: float) -> Delivery:
        """Return the delivery as the handler gets it, for an attempt that begins now."""
        d.number, d.began = d.counted + 1, began
        if d.fence is None:
            d.fence = d.reply.fence if d.open and d.reply else d.headers.fence
        timeout = self.settings.handler_timeout

        def cancelled() -> bool:
            return self.live.fired or timeout is not None and self.now() >= began + timeout

        last = d.reply.limit if d.reply and d.reply.limit else self.limit
        generation = hash_generation(d.message.generation).decode()
        delivery = copy(d.delivery)  # an abandoned handler keeps its own attempt, which stays cancelled
        delivery.attempt = HandlerAttempt(d.number, last, d.token, d.fence, d.message.id, generation, cancelled)
        return delivery

    def guard(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a function of the user's. A message that makes it fail must not end every process that receives it."""
        try:
            return call()
        except (Exception, SystemExit, GeneratorExit):  # these would end a worker thread, or the event loop
            self.settings.logger.exception("%s failed, queue %s", name, self.settings.queue)
            return None

    def observe(self, d: Progress, outcome: Outcome, wait: float = 0.0, error: BaseException | None = None) -> None:
        observer = self.settings.observer
        level = _LEVELS.get(outcome)
        logs = level is not None and self.settings.logger.isEnabledFor(level)
        if observer is None and not logs:
            return
        r = d.reply
        with_cause, with_error = outcome in _WITH_CAUSE, outcome in (*_WITH_CAUSE, Outcome.NOT_COUNTED)
        event = Event(
            outcome, self.settings.queue, d.message.id, d.token, d.delivery.redelivered, d.number,
            (r.limit if r else 0) or self.limit, r.failures if r else 0, r.crashes if r else 0,
            self.now() - d.received, d.ran, wait, str(getattr(d.cause, "value", d.cause)) if with_cause else "",
            error or (d.failure if with_error else None),
        )
        if level is not None and logs:
            self.guard("logger", lambda: self.settings.logger.log(level, *_line(d, event)))
        if observer is not None:
            self.guard("observer", lambda: observer(event))

    def fail(self, error: Exception) -> None:
        """End the session, unless something else ends it already."""
        self.error = self.error or error
