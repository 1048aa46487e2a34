"""Carry a delivery from its receipt to its settlement."""

from __future__ import annotations

from . import decide, steps
from .backoff import default_backoff
from .begin import begin, close, closed, decided, end_later, hand_over, hold, release, send, send_end, unlock, wait
from .decide import Ended, Step
from .errors import StrikesError
from .handler import number
from .isolation import EVERYTHING
from .session import Invoke, Outcome, Progress, Session, SettlementError, Sleep, Steps
from .steps import Cause, Failure


LEAST_POSTPONED = 0.1
"""The least wait in seconds after an attempt that is not counted: no limit ends a loop of them."""


def carry(s: Session, d: Progress) -> Steps:
    """Make attempts at a delivery until one decides its settlement, then settle or leave it.

    It ends with Session.done. A driver throws an error into it if the driver cannot carry out a request. Then, and
    after a fault of this package, the session ends and the delivery is left.
    """
    try:
        yield from _carry(s, d)
    except Exception as error:
        _abort(s, d, error)
    except GeneratorExit:  # the event loop was closed
        decided(s, d)
        release(s, d)
        raise


def _carry(s: Session, d: Progress) -> Steps:
    step = Step.AGAIN
    while step is Step.AGAIN:
        step = yield from begin(s, d)
        if step is Step.RUN:
            d.failed = yield Invoke(d)
            step = yield from conclude(s, d)
    if step is Step.DEAD_LETTER:
        step = yield from _await_dead_letters(s, d)
    if step is Step.LEAVE:
        if d.unrecorded:  # FAIL closes the attempt too
            _fail_later(s, d)
        else:
            yield from close(s, d)
        d.outcome = Outcome.LEAVE
        s.observe(d, Outcome.LEAVE, error=d.error)
        done(s, d)
    else:
        d.superseded = step is Step.SUPERSEDED
        if step is Step.ACK and d.number:
            _succeeded(s, d)
        d.settled_as = Step.ACK if d.superseded else step
        s.port.settle(d, d.settled_as)
    release(s, d)


def _abort(s: Session, d: Progress, error: Exception) -> None:
    """Leave a delivery after a fault.

    Its attempt is not counted, and it keeps nothing that others of the process wait for.
    """
    if not isinstance(error, StrikesError):
        s.settings.logger.error("a delivery failed, queue %s", s.settings.queue, exc_info=error)
    try:
        if d.open or d.doubt:
            end_later(s, d, False)
    except Exception:
        s.settings.logger.exception("an attempt was not closed, queue %s", s.settings.queue)
    decided(s, d)
    release(s, d)
    if d.over:
        s.fail(error)
        return
    d.error, d.outcome = d.error or error, Outcome.LEAVE
    s.observe(d, Outcome.LEAVE, error=d.error)
    done(s, d)


def settled(s: Session, d: Progress, error: Exception | None) -> None:
    """Is called after the ack or nack of d was sent, or could not be."""
    assert d.settled_as
    outcomes = {Step.ACK: Outcome.ACK, Step.REQUEUE: Outcome.REQUEUE, Step.DEAD_LETTER: Outcome.DEAD_LETTER}
    outcome = outcomes[d.settled_as]
    if d.superseded:
        outcome = Outcome.SUPERSEDED
    if error is not None:
        d.error = SettlementError(f"queue {s.settings.queue}: {outcome.value}: {error}")
        outcome = Outcome.LEAVE
    d.outcome = outcome
    s.observe(d, outcome, error=d.error)
    if d.settled_as is Step.ACK and d.open:  # its END was not answered
        end_later(s, d, True)
    elif d.unrecorded:
        _fail_later(s, d)
    done(s, d)


def done(s: Session, d: Progress) -> None:
    """Is called when nothing more is to be done with d."""
    if d.over:
        return
    d.over = True
    s.control.counted(d)
    if d.error is not None:
        s.fail(d.error)
    s.port.done(d)


def conclude(s: Session, d: Progress) -> Steps:
    """Report to the store how the handler ended, if it must know, and return the next step of the delivery."""
    if d.failed:
        d.failure, d.cause = d.failed.error, d.failed.cause
    uncounted = d.failed is not None and d.failed.uncounted
    step = decide.ended(
        Ended(d.failed is None, d.cause is Cause.REJECTED, uncounted, s.stop.fired, bool(d.message.id), d.open)
    )
    if step is Step.ACK:
        unlock(s, d)
        return step
    if d.lock != EVERYTHING:  # an isolated attempt is closed under the lock
        release(s, d)
    if step is Step.END:
        return (yield from _end(s, d))
    if step is Step.FAIL:
        return (yield from _count_failed(s, d))
    if step is Step.UNCOUNT:
        return (yield from _uncount(s, d))
    if step is Step.DEAD_LETTER:
        d.cause = Cause.NO_ID
        return step
    yield from close(s, d)
    release(s, d)
    return step


def _succeeded(s: Session, d: Progress) -> None:
    """Tell the breaker once that a handler returned."""
    if s.breaker and not d.succeeded:
        s.breaker.succeeded(d)
    d.succeeded = True


def _end(s: Session, d: Progress) -> Steps:
    """Close an attempt that succeeded, before its ack, even if the session has ended.

    An open attempt would look like a crash.
    """
    while True:
        error = yield from send_end(s, d, True)
        if error is None:
            _succeeded(s, d)  # before the next attempt begins
            release(s, d)
            return Step.ACK
        release(s, d)
        step = yield from hold(s, d, Step.END, error)
        if step is not Step.END:
            return step


def _count_failed(s: Session, d: Progress) -> Steps:
    """Count a failed attempt and wait out its backoff."""
    failure = _failure_of(s, d)
    while True:
        step, error = yield from _send_fail(s, d, failure)
        release(s, d)
        if error:
            step = yield from hold(s, d, Step.FAIL, error)
            if step is Step.FAIL:
                continue
            d.unrecorded = step is Step.DEAD_LETTER
        elif step is Step.UNCOUNTED:
            step = yield from _postpone(s, d)
        elif step is Step.WAIT:
            assert d.reply
            d.uncounted = 0
            s.control.counted(d)
            s.observe(d, Outcome.RETRY, wait=d.reply.wait)
            step = yield from wait(s, d, d.reply.wait, decide.retry(s.settings.retry))
            d.again = step is Step.AGAIN
        return step


def _uncount(s: Session, d: Progress) -> Steps:
    """End an attempt that is not counted. A breaker hears of it with FAIL."""
    if s.breaker and d.message.id:
        d.cause = Cause.NOT_COUNTED
        return (yield from _count_failed(s, d))
    while d.open or d.doubt:
        error = yield from send_end(s, d, False)
        release(s, d)
        if error is not None:
            step = yield from hold(s, d, Step.UNCOUNT, error)
            if step is not Step.UNCOUNT:
                return step
    release(s, d)
    return (yield from _postpone(s, d))


def _postpone(s: Session, d: Progress) -> Steps:
    """Hold a delivery before another attempt here: a requeue would count towards a delivery limit."""
    assert d.failed
    s.control.postpone(d, s.now(), d.failed.text)
    if s.breaker and s.breaker.shut:  # it waits there
        d.uncounted = max(d.uncounted, 1)
        s.observe(d, Outcome.NOT_COUNTED)
        return Step.AGAIN
    d.uncounted += 1
    seconds = max(_backoff_of(s, d, d.counted + d.uncounted), LEAST_POSTPONED)
    s.observe(d, Outcome.NOT_COUNTED, wait=seconds)
    return (yield from wait(s, d, seconds, Step.AGAIN))


def _send_fail(s: Session, d: Progress, failure: Failure) -> Steps:
    reply = yield from send(
        s, d, lambda: steps.fail(s.attempt(d), failure, s.options), lambda v: decide.failed(v) is not None
    )
    error = closed(s, d, reply)
    if error:
        return None, error
    d.reply = reply
    if s.breaker:
        s.breaker.failed(d)
    if reply.cause in (Cause.TOO_OLD.value, Cause.SKIPPED.value):  # the attempt's own cause did not end the retries
        d.cause = reply.cause
    if reply.possible_duplicate:
        s.settings.logger.warning(
            "two messages with id %r may be in queue %s: they share one limit of attempts",
            d.message.id,
            s.settings.queue,
        )
    return decide.failed(reply.code), None


def _failure_of(s: Session, d: Progress) -> Failure:
    """Return the failure that FAIL reports to the store."""
    assert d.failed
    if d.failed.cause is Cause.REJECTED:
        return Failure(0, 0.0, d.failed.cause, d.failed.text, d.ran)
    cause = Cause.NOT_COUNTED if d.cause is Cause.NOT_COUNTED else d.failed.cause
    return Failure(s.limit, _backoff_of(s, d, d.counted + 1), cause, d.failed.text, d.ran, d.failed.at_most)


def _backoff_of(s: Session, d: Progress, failed: int) -> float:
    """Return the wait that the handler asked for, else the backoff after so many failed attempts."""
    assert d.failed
    seconds = d.failed.wait
    if seconds is None:
        asked = s.guard("backoff", lambda: number(s.settings.backoff(failed)))
        seconds = default_backoff(failed) if asked is None else asked
    return max(seconds, 0.0)


def _fail_later(s: Session, d: Progress) -> None:
    """Send FAIL until the store answers."""
    failure = _failure_of(s, d)
    d.unrecorded = False
    s.late.add(lambda: steps.fail(s.attempt(d), failure, s.options), hand_over(s, d))


def _await_dead_letters(s: Session, d: Progress) -> Steps:
    """Hold a dead letter until a broker that may just have started takes it."""
    left = s.dead_letters_from - s.now()
    if left > 0:
        yield Sleep(left, (s.stop,))
        if s.stop.fired:
            return Step.LEAVE
    return Step.DEAD_LETTER
