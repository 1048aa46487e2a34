"""Pure functions that decide the next step of a delivery.

Each takes the last event and returns the step that follows. Together they are the whole state table. begin.py and
conclude.py take the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from .steps import Mode, ReplyCode


class Retry(str, Enum):
    """Where a failed message waits for its next attempt."""

    # Held unacked for the backoff, then returned to its original position: any consumer may take it.
    REQUEUE = "requeue"
    IN_PLACE = "in-place"  # kept unacked by this process, which runs it again after the backoff


class Isolation(str, Enum):
    """How messages are treated that may have killed a process."""

    SUSPECTS = "suspects"  # a message runs isolated after an attempt at it was found open
    OFF = "off"  # crashes are not counted


class Step(Enum):
    START = auto()  # ask the store whether the attempt may begin
    ISOLATE = auto()  # the same, with no other handler beside it
    RUN = auto()  # call the handler
    AGAIN = auto()  # begin another attempt at this delivery
    FAIL = auto()  # count the failed attempt
    END = auto()  # close an attempt that succeeded
    WAIT = auto()  # hold the delivery for its backoff
    RETRACT = auto()  # close an attempt that did not run
    UNCOUNT = auto()  # close an attempt that is not counted; another one follows here after a wait
    UNCOUNTED = auto()  # the failure was reported and is not counted; another attempt follows here after a wait
    OVERDUE = auto()  # the delivery was held for as long as it may be
    ACK = auto()
    SUPERSEDED = auto()  # ack: another copy takes the place of this one
    REQUEUE = auto()
    DEAD_LETTER = auto()
    LEAVE = auto()  # the delivery returns with its session; nothing is counted
    GIVE_UP = auto()  # the same, and the session ends: the delivery was held for too long


@dataclass(frozen=True)
class Ended:
    """How an attempt ended."""

    ok: bool  # the handler returned
    rejected: bool = False  # it asked for the dead-letter queue
    uncounted: bool = False  # it said that the attempt is not counted
    stopped: bool = False  # it was cancelled, or was about to be: the failure may be no fault of the message's
    has_id: bool = True
    open: bool = False  # START let it begin


def received(has_id: bool, first: bool) -> Step:
    """The step for a new attempt: at a delivery that has just arrived, or at one that is tried again in place."""
    if not has_id:
        return Step.RUN if first else Step.DEAD_LETTER
    return Step.RUN if first else Step.START


_STARTED = {
    ReplyCode.RUN: Step.RUN, ReplyCode.SUSPECT: Step.ISOLATE, ReplyCode.EXHAUSTED: Step.DEAD_LETTER,
    ReplyCode.WAIT: Step.WAIT, ReplyCode.SUPERSEDED: Step.SUPERSEDED,
}
_FAILED = {
    ReplyCode.EXHAUSTED: Step.DEAD_LETTER, ReplyCode.REQUEUE: Step.WAIT, ReplyCode.UNCOUNTED: Step.UNCOUNTED,
    ReplyCode.SUPERSEDED: Step.SUPERSEDED,
}
_MODES = {Isolation.SUSPECTS: Mode.SHARED, Isolation.OFF: Mode.UNTRACKED}


def started(code: ReplyCode) -> Step | None:
    """The step for the store's reply to START; None for one that START does not have."""
    return _STARTED.get(code)


def failed(code: ReplyCode) -> Step | None:
    """The step for the store's reply to FAIL; None for one that FAIL does not have."""
    return _FAILED.get(code)


def start_mode(isolation: Isolation) -> Mode:
    """The mode of a START that is not sent under the isolation lock."""
    return _MODES[isolation]


def mode(abandoned: int) -> Mode:
    """The mode of START for an isolated attempt. An abandoned handler may kill the process too."""
    return Mode.BESIDE_ABANDONED if abandoned > 0 else Mode.ISOLATED


def unstarted(sending: Step, is_open: bool) -> Step:
    """The step to hold the delivery for after a START or BEGUN that does not let the handler run.

    An isolated attempt that may be open is closed first.
    """
    return Step.RETRACT if sending is Step.ISOLATE and is_open else sending


def ended(e: Ended) -> Step:
    """The step after the handler ended.

    A success or a reject counts even while stopping: it is the handler's own decision.
    """
    if e.ok:
        return Step.END if e.open else Step.ACK
    if e.stopped and not e.rejected:
        return Step.LEAVE
    if e.uncounted and not e.rejected:
        return Step.UNCOUNT
    return Step.FAIL if e.has_id else Step.DEAD_LETTER


def retry(where: Retry) -> Step:
    """The step after the backoff of a failed attempt."""
    return Step.AGAIN if where is Retry.IN_PLACE else Step.REQUEUE


def wait(seconds: float, left: float, after: Step) -> tuple[float, Step]:
    """Bound a wait by the time for which the delivery may be held. The store keeps the rest for the next receiver."""
    if seconds <= left:
        return max(seconds, 0.0), after
    return max(left, 0.0), Step.OVERDUE


def overdue(awaited: bool) -> Step:
    """The step for a delivery that was held for as long as it may be; awaited: it must not go back alone."""
    return Step.GIVE_UP if awaited else Step.REQUEUE


def outage(sending: Step, rejected: bool, seconds: float, left: float) -> Step:
    """The step after the store did not take one: the same after a wait, or the one that ends the hold.

    A delivery that was handled is acked anyway, and a rejected one is dead-lettered. Nothing else is decided on a
    guess.
    """
    if sending is Step.FAIL and rejected:
        return Step.DEAD_LETTER
    if seconds <= left:
        return sending
    return Step.ACK if sending is Step.END else Step.GIVE_UP


def stopped(after: Step) -> Step:
    """The step after a stop ended a wait, instead of the one that would have followed."""
    return Step.ACK if after is Step.END else Step.LEAVE


def careful(was: bool, undecodable: bool, passed: bool) -> bool:
    """Whether the next session prefetches one message, so that an undecodable one collects the returns alone."""
    return undecodable or was and not passed
