"""The common part of pika.py and aio_pika.py: their options, and how one session follows the other. No I/O."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from . import decide
from .backoff import doubled, jitter
from .breaker import check as check_breaker
from .errors import SettingError, StoreError, StrikesError, is_number
from .queue import QueueRefused
from .session import Session, SettlerOptions

HEARTBEAT = 10
"""Seconds, as in Go and Node.js. With that of the broker, 60 s, a frozen process keeps its messages for minutes."""

CLOSE_TIMEOUT = 5.0
OPEN_TIMEOUT = 10.0
SETTLE_TIMEOUT = 2.0 + 2 * 1.0 + CLOSE_TIMEOUT
PENDING_ACKS = 30
"""How many acks a clean close of the channel keeps on a quorum queue.

With a larger prefetch the consumer is cancelled before.
"""

STEADY = 10.0
"""How long a session has to last before the next one is tried without delay."""

MOST_STUCK = 10
"""How many abandoned handlers may run in the process for each handler of the concurrency."""

ELECTING, STARTING = 3.0, 10.0
"""How long dead letters are held after a reconnect, and after the last attempt to consume that failed.

A broker that has just started drops the messages that a classic queue dead-letters to a quorum queue, until that queue
has a leader.
"""

TELL_AGAIN = 60.0
"""Seconds between two logs that there is still no connection."""

CARE_FOR = 10.0
"""How long one message is prefetched after an undecodable one, if no other session meets it."""


class SessionLost(StrikesError):
    """The session ended: another follows."""


NOT_ALLOWED = 530
"""The code with which RabbitMQ closes a connection that has too many consumers on a channel."""

UNCONVERTED = 541
"""The code with which RabbitMQ 4 closes a connection after an internal error.

It cannot convert a message to AMQP 0.9.1, for example.
"""


class Unreadable(SessionLost):
    """The broker closed the connection when it was asked how the queue was declared: the next session does not ask."""

    def __init__(self) -> None:
        super().__init__("the broker closed the connection (541) when it was asked how the queue was declared")


class Undecodable(SessionLost):
    """A message ended the session.

    The AMQP client cannot decode it, or (unconverted) the broker cannot convert it to AMQP 0.9.1.
    """

    def __init__(self, text: str, unconverted: bool = False) -> None:
        if unconverted:
            text += (
                "; the broker closes with 541 when it cannot convert a message published over AMQP 1.0, "
                "for example one with a property of type uuid"
            )
        super().__init__(text)
        self.unconverted = unconverted

    def certain(self, prefetch: int) -> bool:
        """Whether a message is to blame.

        A 541 proves that only in a session that prefetches one, so the next session reports it.
        """
        return not self.unconverted or prefetch == 1


class Passed(SessionLost):
    """The undecodable message did not come again: prefetching again."""


class UncleanStop(StrikesError):
    """A stop came before a lost session had ended.

    The last acks may be lost: their messages are handled again.
    """


class Stuck(StrikesError):
    """Too many handlers passed their deadline and still run.

    Restart the process: their resources cannot be reclaimed.
    """


class Refused(StrikesError):
    """The broker, the store or a check refused, and another session would not help. The text says what to change."""


def check_url(amqp: str) -> None:
    """Refuse a URL that is not the broker's. The error shows its scheme only, because the rest may hold a password."""
    scheme = urlsplit(amqp).scheme
    if scheme not in ("amqp", "amqps"):
        raise SettingError("the scheme of the broker's URL", scheme[:20], "amqp or amqps")


def lanes_refusal(queue: str, held: int) -> Refused | None:
    """Return the refusal of a queue with blocked lanes: only a consumer in Go holds them."""
    if not held:
        return None
    return Refused(
        f"queue {queue!r}: {held} of its lanes are blocked, and their new messages would overtake the dead letters: "
        f"consume it with a Go consumer that has HoldLanes, or release the lanes (strikes lane list {queue})"
    )


def position(session: Session, prefetch: int) -> str:
    """Say where in the queue the message is that ended a session."""
    if session.received:
        return f"it came after message {session.last!r}" if session.last else "it came after a message without an id"
    return "it is at the head of the queue" if prefetch == 1 else f"it is among the first {prefetch} of the queue"


def check_stuck(session: Session, concurrency: int) -> None:
    """End a session with Stuck if too many handlers were abandoned."""
    n, queue = session.isolation.abandoned, session.settings.queue
    if n >= MOST_STUCK * concurrency:
        text = f"{n} handlers were abandoned at their deadlines and still run; restart the process"
        session.fail(Stuck(f"queue {queue}: {text}"))


def session_error(error: Exception) -> StrikesError:
    """Return the error with which a session ends. A fault of any kind ends the session only, not the consumer."""
    if isinstance(error, StrikesError):
        return error
    lost = SessionLost(f"a delivery failed: {error!r}")
    lost.__cause__ = error
    return lost


@dataclass
class Flow:
    """How a consumer takes deliveries. Times are seconds."""

    concurrency: int = 1  # handlers at the same time
    prefetch: int = 0  # deliveries given out unsettled; 0: twice the concurrency, 10 at least
    drain_timeout: float = 25.0  # how long handlers may go on after a stop before they are cancelled
    allow_drop: bool = False  # accept a queue whose dead letters are lost
    dead_letter_policy: bool = False  # a policy sets the dead-letter exchange, which AMQP cannot see
    breaker: int = 0  # messages that fail, with no success since, at which failures count no more; 0: none
    patience: float = 0.0  # a last attempt does not count for so long without a success of another message

    def __post_init__(self) -> None:
        if not isinstance(self.concurrency, int) or not 1 <= self.concurrency <= 65535:
            raise SettingError("concurrency", self.concurrency, "a whole number, 1 to 65535")
        if not isinstance(self.prefetch, int) or not 0 <= self.prefetch <= 65535:
            raise SettingError("prefetch", self.prefetch, "a whole number, 1 to 65535, or 0 for the default")
        if not is_number(self.drain_timeout) or not self.drain_timeout >= 0:
            raise SettingError("drain_timeout", self.drain_timeout, "0 or more seconds")
        check_breaker(self.breaker, self.patience)
        self.prefetch = self.prefetch or min(max(2 * self.concurrency, 10), 65535)


class ConsumerOptions(SettlerOptions, total=False):
    """The fields of Settings and Flow that a program may give by name, for type checkers."""

    concurrency: int
    prefetch: int
    drain_timeout: float
    allow_drop: bool
    dead_letter_policy: bool
    breaker: int
    patience: float


@dataclass
class Sequence:
    """The state on which the next session of a consumer depends."""

    number: int = 0
    consumed: bool = False  # a session has consumed: from then on only a stop ends the consumer
    serving: bool = False  # a session consumes or ends
    careful: bool = False  # prefetch one: an undecodable message may be in the queue
    denied: bool = False  # the last session ended with refused credentials
    unread: str = ""  # why the broker is not asked how the queue was declared
    delays: int = 0
    failed: float = -STARTING  # the last attempt that did not consume
    connected: bool = False  # a connection could be made
    told: float = -math.inf  # when it was last logged that none could be made
    broker: str = ""  # host and port

    def dead_letters_from(self, now: float) -> float:
        """Return when a session that begins now may send dead letters."""
        return max(now + ELECTING, self.failed + STARTING) if self.number > 1 else 0.0

    def refuse(self, *errors: StoreError | None) -> None:
        """Before the first session, raise an error of the store that waiting does not fix."""
        for error in errors:
            if error and error.not_taken and not self.consumed:
                raise error

    def tell(self, logger: logging.Logger, queue: str, delay: float, error: Exception) -> None:
        """Log the end of a session: at once, then once a minute while no connection can be made."""
        connected, self.connected = self.connected, False
        if connected:
            self.told = -math.inf
            logger.warning("session ended; another follows in %.1f s, queue %s: %r", delay, queue, error)
        elif time.monotonic() - self.told > TELL_AGAIN:
            self.told = time.monotonic()
            remedy = "correct user, password and virtual host" if self.denied else "start it, or correct host and port"
            logger.warning(
                "no connection to the broker at %s; dialling goes on, queue %s: %r; %s",
                self.broker, queue, error, remedy,
            )

    def after(self, error: Exception, lasted: float, denied: bool, stopping: bool = False) -> float:
        """Take the error of a session, and return the wait before the next one.

        It raises the error if another session would not help.

        Credentials count as refused after two sessions in a row.
        A connection limit passes: the broker counts a lost connection until it misses its heartbeats.
        """
        denied = denied and "connection limit (" not in str(error)
        serving, self.serving = self.serving, False
        if not serving:
            self.failed = time.monotonic()
        if stopping and serving and not isinstance(error, (Stuck, Refused, Passed)):
            raise UncleanStop(str(error)) from error
        refused = (
            isinstance(error, (Refused, QueueRefused, SettingError))
            or isinstance(error, StoreError)
            and error.not_taken
        )
        if isinstance(error, Stuck) or not self.consumed and (refused or denied and self.denied):
            raise error
        self.denied = denied
        if isinstance(error, Unreadable):
            self.unread = str(error)
        self.careful = decide.careful(self.careful, isinstance(error, Undecodable), isinstance(error, Passed))
        self.delays = 1 if lasted > STEADY else self.delays + 1
        return jitter(doubled(0.1, 2.0, self.delays))
