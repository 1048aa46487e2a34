"""Lead a delivery to its next attempt."""

from __future__ import annotations

from . import decide, steps
from .backoff import store_backoff
from .decide import Step
from .errors import Fault, ForeignError, ReplyError, StoreError
from .isolation import EVERYTHING
from .session import (
    LOCKED_PATIENCE, LOCKED_TIMEOUT, STEP_TIMEOUT, WaitedTooLong, Outcome, Progress, Send, Session, Sleep, Steps,
)
from .signals import Ticket, Tickets
from .steps import Call, Cause, Reply


def begin(s: Session, d: Progress) -> Steps:
    """Return Step.RUN once the handler is to be called: d then has a worker and its units of the isolation lock.

    Any other step ends the delivery without an attempt.
    """
    d.fresh(decide.start_mode(s.settings.isolation))
    if s.breaker and (instead := (yield from s.breaker.begin(s, d))):
        return instead
    step = s.decide_received(d)
    if step is Step.RUN:
        return (yield from enter(s, d))
    if step is Step.ISOLATE:
        return (yield from start_isolated(s, d))
    if step is Step.START:
        return (yield from start(s, d))
    d.cause, d.failure = Cause.NO_ID, LookupError("the message has no id, so it gets one attempt only")
    return Step.DEAD_LETTER


def start(s: Session, d: Progress) -> Steps:
    """Ask the store whether the attempt may begin."""
    while True:
        # The gate comes last: the slot may have taken long.
        if not (yield from _take_slot(s, d)) or not (yield from pass_gate(s, d)):
            return (yield from give_back(s, d))
        step, error = yield from _send_start(s, d)
        if step is Step.RUN:
            return (yield from enter(s, d))
        if step is Step.ISOLATE:
            return (yield from start_isolated(s, d))
        if error:
            step = yield from hold(s, d, Step.START, error)
        elif step is Step.WAIT:
            step = yield from wait(s, d, d.reply.wait if d.reply else 0.0, Step.START)
        if step is not Step.START:
            return step


def start_isolated(s: Session, d: Progress) -> Steps:
    """Begin an attempt with no other handler beside it.

    START, BEGUN and the step that closes the attempt are sent under the isolation lock. START only reserves the
    attempt. From BEGUN on a death of this process counts against this message, so BEGUN is the last thing before the
    handler: it goes out only to a store that has just replied.
    """
    while True:
        if not (yield from _lock_all(s, d)):
            return (yield from give_back(s, d))
        sent = s.port.flushed()
        if not sent.fired:  # acks that are not sent die with the process
            yield Sleep(LOCKED_PATIENCE, (sent, s.stop))
        if s.stop.fired:
            return (yield from give_back(s, d))
        d.mode = decide.mode(s.isolation.abandoned)
        step, error = yield from _send_start(s, d)
        if step is Step.RUN and d.mode is steps.Mode.ISOLATED and not s.stop.fired:
            error = yield from _send_begun(s, d)
        if step is Step.RUN and s.stop.fired:
            yield from close(s, d)
            step, error = Step.LEAVE, None
        elif step is Step.RUN and not error:
            return Step.RUN
        release(s, d)
        if error:
            step = yield from hold(s, d, decide.unstarted(Step.ISOLATE, d.open), error)
        elif step is Step.WAIT:
            step = yield from wait(s, d, d.reply.wait if d.reply else 0.0, Step.ISOLATE)
        if step is Step.RETRACT:
            return (yield from retract(s, d))
        if step is not Step.ISOLATE:
            return step


def _send_start(s: Session, d: Progress) -> Steps:
    """Send START; return the step for its reply and the error.

    Unless the step is RUN, no attempt is open and d holds no slot.
    """
    d.open = True
    reply = yield from send(
        s, d, lambda: steps.start(s.attempt(d), d.mode, s.limit, s.options), lambda v: decide.started(v) is not None,
        True,
    )
    if isinstance(reply, StoreError):
        _leave_slot(s, d)
        if not d.doubt:  # nothing was opened
            d.open = False
            decided(s, d)
        return None, reply
    d.reply, d.unanswered = reply, 0
    step = decide.started(reply.code)
    if step is Step.RUN:
        return step, None
    d.open = False
    _leave_slot(s, d)
    decided(s, d)
    if step is Step.DEAD_LETTER:
        d.cause = reply.cause
        counts = f"(failures: {reply.failures}, crashes: {reply.crashes}, attempts: {reply.limit})"
        reason = reply.reason.decode("utf-8", "replace")
        if reply.cause == Cause.SKIPPED:
            d.failure = RuntimeError(f"an operator skipped it {counts}: {reason}")
        else:
            why = "its maximal age was reached" if reply.cause == Cause.TOO_OLD else "the limit was reached"
            d.failure = RuntimeError(f"{why} {counts}; the last: {reason}")
    elif step is Step.ISOLATE:
        s.observe(d, Outcome.ISOLATE)
    return step, None


_GONE = (
    "the attempt is not open any more: "
    "the store lost it, another consumer has the message, or an operator decided about it"
)


def _send_begun(s: Session, d: Progress) -> Steps:
    """Tell the store that the handler of an isolated attempt is called now.

    If it returns an error, the handler must not be called.
    """
    codes = (steps.ReplyCode.BEGUN, steps.ReplyCode.GONE)
    reply = yield from send(s, d, lambda: steps.begun(s.attempt(d), s.options), lambda v: v in codes, True)
    if isinstance(reply, StoreError):
        return reply
    return StoreError(Fault.OTHER, _GONE) if reply.code is steps.ReplyCode.GONE else None


def send(s: Session, d: Progress, call, known, starting: bool = False) -> Steps:  # type: ignore[no-untyped-def]
    """Send a step and return its Reply or a StoreError.

    A stop does not interrupt it: to wait is faster than to clear up.

    Under the isolation lock it is sent again for LOCKED_PATIENCE, each time after twice as long; but a START or BEGUN
    is not once the session stops.
    """
    locked = d.lock == EVERYTHING
    until, timeout = s.now() + LOCKED_PATIENCE, LOCKED_TIMEOUT if locked else STEP_TIMEOUT
    while True:
        began = s.now()
        reply = yield Send(call(), timeout)
        if isinstance(reply, Reply) and not known(reply.code):
            reply = ReplyError(f"the step does not have the reply {reply.code.value}")
        if not isinstance(reply, StoreError):
            return reply
        d.doubt = d.doubt or starting and not reply.not_taken
        if not locked or reply.not_taken or s.now() >= until or starting and s.stop.fired:
            return reply
        rest = began + timeout - s.now()
        if rest > 0:
            yield Sleep(rest)
        timeout = min(2 * timeout, max(until - s.now(), LOCKED_TIMEOUT))


def enter(s: Session, d: Progress) -> Steps:
    """Wait for a worker and one unit of the isolation lock.

    An attempt that START let begin also waits for the gate. Meanwhile it has neither, so both serve first deliveries.
    """
    while True:
        if not (yield from _wait_worker(s, d)) or not (yield from _acquire(s, d, 1)):
            return (yield from give_back(s, d))
        if not d.open or s.isolation.gate.opened() is None:
            return Step.RUN
        release(s, d)
        if not (yield from pass_gate(s, d)):
            return (yield from give_back(s, d))


def _lock_all(s: Session, d: Progress) -> Steps:
    """Wait for a worker and the whole isolation lock, once no other isolated attempt of the process is undecided."""
    if not (yield from _ask(s, s.isolation.undecided, 1, d.held_until)):
        return False
    d.undecided = True
    return (yield from _wait_worker(s, d)) and (yield from _acquire(s, d, EVERYTHING))


def _acquire(s: Session, d: Progress, units: int) -> Steps:
    """Take units of the isolation lock. It waits for as long as the delivery may be held."""
    if s.now() >= d.held_until:  # it waited too long for a worker
        return False
    if not (yield from _ask(s, s.isolation.lock, units, d.held_until)):
        return False
    if s.stop.fired:
        s.isolation.lock.give(units)
        return False
    d.lock = units
    return True


def _ask(s: Session, of: Tickets, units: int, until: float) -> Steps:
    if of.try_take(units):
        return True
    ticket: Ticket = of.ask(units)
    try:
        if not ticket.fired:
            yield Sleep(max(until - s.now(), 0), (ticket, s.stop))
    except (Exception, GeneratorExit):
        if of.claim(ticket):
            of.give(units)
        raise
    return of.claim(ticket)


def _wait_worker(s: Session, d: Progress) -> Steps:
    """Wait for a worker until the stop. Each delivery gives its worker back in bounded time."""
    if not d.worker:
        d.worker = yield from _ask(s, s.workers, 1, float("inf"))
    return d.worker


def _take_slot(s: Session, d: Progress) -> Steps:
    """Wait until one more attempt may be open.

    No more are open than soon run, because each is a suspect if the process dies.
    """
    if s.stop.fired:
        return False
    if not d.slot:
        d.slot = yield from _ask(s, s.slots, 1, float("inf"))
    return d.slot


def _leave_slot(s: Session, d: Progress) -> None:
    if d.slot:
        d.slot = False
        s.slots.give()


def pass_gate(s: Session, d: Progress) -> Steps:
    """Wait until the gate is open, for as long as the delivery may be held."""
    while (shut := s.isolation.gate.opened()) is not None:
        yield Sleep(max(d.held_until - s.now(), 0), (shut, s.stop))
        if not shut.fired:
            return False
    return not s.stop.fired  # the end of another delivery may have freed its slot


def unlock(s: Session, d: Progress) -> None:
    """Give back the isolation lock. If the store has not answered for an isolated attempt, the gate is shut before."""
    if d.lock == 0:
        return
    if d.lock == EVERYTHING and d.undecided:
        s.isolation.gate.shut()
    units, d.lock = d.lock, 0
    s.isolation.lock.give(units)


def release(s: Session, d: Progress) -> None:
    """Give back the isolation lock, the slot and the worker of an attempt."""
    unlock(s, d)
    _leave_slot(s, d)
    if d.worker:
        d.worker = False
        s.workers.give()


def decided(s: Session, d: Progress) -> None:
    """End the time in which a death of the process counts against d's message, if d is the undecided attempt."""
    if over := hand_over(s, d):
        over()


def hand_over(s: Session, d: Progress):  # type: ignore[no-untyped-def]
    """Return a function to call, instead of decided, when the store has answered a step that outlives the delivery.

    Return None if d is not undecided.
    """
    if not d.undecided:
        return None
    d.undecided = False
    isolation = s.isolation

    def over() -> None:
        isolation.gate.open()
        isolation.undecided.give()

    return over


def give_back(s: Session, d: Progress) -> Steps:
    """Return the step of a delivery that got no further: it waited until the stop, or for as long as it may."""
    release(s, d)
    if s.stop.fired:
        return Step.LEAVE
    return (yield from overdue(s, d))


def overdue(s: Session, d: Progress) -> Steps:
    """Return the step for a delivery that was held for as long as it may be.

    An attempt that may be open is closed first.
    """
    if not d.open:
        decided(s, d)
    if d.open or d.doubt:
        return (yield from retract(s, d))
    return decide.overdue(False)


def retract(s: Session, d: Progress) -> Steps:
    """Close an attempt that did not run. It returns AGAIN if there is time for another."""
    while True:
        error = yield from send_end(s, d, False)
        if error is None:
            break
        step = yield from hold(s, d, Step.RETRACT, error)
        if step is not Step.RETRACT:
            return step
    if s.now() < d.held_until:
        return Step.AGAIN
    return (yield from overdue(s, d))


def send_end(s: Session, d: Progress, succeeded: bool) -> Steps:
    """Send END, and return the error."""
    reply = yield from send(
        s, d, lambda: steps.end(s.attempt(d), succeeded, s.options), lambda v: v is steps.ReplyCode.ENDED
    )
    return closed(s, d, reply)


def closed(s: Session, d: Progress, reply: Reply | StoreError) -> StoreError | None:
    """Take the result of a step that closes an attempt, and return its error."""
    if not isinstance(reply, StoreError):
        d.unanswered, d.open, d.doubt = 0, False, False
        decided(s, d)
        return None
    if isinstance(reply, ForeignError):  # the open attempt is overwritten
        decided(s, d)
    return reply


def close(s: Session, d: Progress) -> Steps:
    """Close an attempt that is not counted. If the store does not answer, that is done later."""
    if not d.open:
        decided(s, d)
    if d.open or d.doubt:
        error = yield from send_end(s, d, False)
        if error is not None:
            end_later(s, d, False)


def end_later(s: Session, d: Progress, succeeded: bool) -> None:
    """Send END until the store answers, after the delivery is gone."""
    call = steps.end(s.attempt(d), succeeded, s.options)
    d.open = d.doubt = False
    if d.undecided:
        s.isolation.gate.shut()  # the lock may be released before END is answered
    over = hand_over(s, d)
    if over is None and succeeded and d.error:  # it comes back: as a suspect, unless the store has its END
        over = lambda: None  # noqa: E731
    s.late.add(lambda: call, over)


def wait(s: Session, d: Progress, seconds: float, after: Step) -> Steps:
    """Hold a delivery before the next step. It returns that step, or the one that replaces it."""
    seconds, step = decide.wait(seconds, d.held_until - s.now(), after)
    end = s.now() + seconds
    while True:
        view = s.control
        changed = view.changed
        if not d.skipped and view.reply.skips(d.message):
            d.skipped = True
            return after
        if s.stop.fired:  # the store keeps the rest of the wait
            return decide.stopped(step)
        left = end - s.now()
        if left <= 0:
            break
        yield Sleep(left, (s.stop, changed))
    if step is Step.OVERDUE:
        return (yield from overdue(s, d))
    return step


def hold(s: Session, d: Progress, sending: Step, error: StoreError) -> Steps:
    """Hold a delivery after the store did not take a step.

    It returns that step when it is to be sent again, or the one that comes instead.
    """
    d.unanswered += 1
    seconds, left = store_backoff(d.unanswered), d.held_until - s.now()
    if sending is Step.RETRACT:  # it begins when the delivery is overdue, and the broker waits for twice as long
        left += s.settings.consumer_timeout / 4
    step = decide.outage(sending, d.cause is Cause.REJECTED, seconds, left)
    if not s.stop.fired and (d.unanswered == 1 or step is Step.GIVE_UP):
        s.observe(d, Outcome.HOLD, error=error)
    if step is Step.GIVE_UP:
        d.error = WaitedTooLong(f"queue {s.settings.queue}: the store was out of reach for too long: {error}")
        return Step.LEAVE
    if step is sending:
        if not s.stop.fired:
            yield Sleep(seconds, (s.stop,))
        if s.stop.fired:
            return decide.stopped(sending)
    return step
