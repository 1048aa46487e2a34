"""The state table."""

import logging
from dataclasses import fields

import pytest

from strikes import backoff, consuming, decide
from strikes.consuming import ConsumerOptions, Flow
from strikes.decide import Ended, Isolation, Retry, Step
from strikes.queue import Declared, QueueRefused, judge
from strikes.session import Settings, SettlerOptions
from strikes.steps import Mode, ReplyCode


@pytest.mark.parametrize(
    ("has_id", "first", "want"),
    [(False, True, Step.RUN), (False, False, Step.DEAD_LETTER), (True, True, Step.RUN), (True, False, Step.START)],
)
def test_received(has_id, first, want):
    assert decide.received(has_id, first) is want


def test_verdicts():
    assert [decide.started(v) for v in ReplyCode] == [
        Step.RUN, Step.WAIT, Step.ISOLATE, None, Step.DEAD_LETTER, None, None, None, None, Step.SUPERSEDED,
    ]
    assert [decide.failed(v) for v in ReplyCode] == [
        None, None, None, Step.WAIT, Step.DEAD_LETTER, None, None, None, Step.UNCOUNTED, Step.SUPERSEDED,
    ]
    assert [decide.start_mode(i) for i in Isolation] == [Mode.SHARED, Mode.UNTRACKED]
    assert (decide.mode(0), decide.mode(1)) == (Mode.ISOLATED, Mode.BESIDE_ABANDONED)


@pytest.mark.parametrize(
    ("ended", "want"),
    [
        (Ended(True), Step.ACK), (Ended(True, open=True), Step.END), (Ended(True, stopped=True, open=True), Step.END),
        (Ended(True, has_id=False), Step.ACK), (Ended(False), Step.FAIL), (Ended(False, open=True), Step.FAIL),
        (Ended(False, stopped=True), Step.LEAVE), (Ended(False, rejected=True, stopped=True), Step.FAIL),
        (Ended(False, has_id=False), Step.DEAD_LETTER), (Ended(False, stopped=True, has_id=False), Step.LEAVE),
        (Ended(False, rejected=True, has_id=False), Step.DEAD_LETTER),
        (Ended(False, uncounted=True, has_id=False), Step.UNCOUNT),
        (Ended(False, uncounted=True, stopped=True), Step.LEAVE),
        (Ended(False, uncounted=True, rejected=True), Step.FAIL),
    ],
)
def test_ended(ended, want):
    assert decide.ended(ended) is want


@pytest.mark.parametrize(
    ("sending", "rejected", "wait", "left", "want"),
    [
        (Step.START, False, 1, 2, Step.START), (Step.START, False, 2, 1, Step.GIVE_UP),
        (Step.FAIL, False, 2, 1, Step.GIVE_UP), (Step.FAIL, True, 1, 2, Step.DEAD_LETTER),
        (Step.FAIL, True, 2, 1, Step.DEAD_LETTER), (Step.END, False, 1, 1, Step.END),
        (Step.END, False, 2, 1, Step.ACK), (Step.RETRACT, False, 2, 1, Step.GIVE_UP),
        (Step.ISOLATE, False, 1, 2, Step.ISOLATE),
    ],
)
def test_outage(sending, rejected, wait, left, want):
    assert decide.outage(sending, rejected, wait, left) is want


def test_waits():
    assert decide.wait(1, 2, Step.REQUEUE) == (1, Step.REQUEUE)
    assert decide.wait(3, 2, Step.REQUEUE) == (2, Step.OVERDUE)
    assert decide.wait(-1, 2, Step.REQUEUE) == (0, Step.REQUEUE)
    assert decide.wait(1, -2, Step.START) == (0, Step.OVERDUE)
    assert decide.stopped(Step.END) is Step.ACK and decide.stopped(Step.START) is Step.LEAVE
    assert (
        decide.unstarted(Step.ISOLATE, True) is Step.RETRACT and decide.unstarted(Step.ISOLATE, False) is Step.ISOLATE
    )
    assert decide.unstarted(Step.START, True) is Step.START
    assert decide.retry(Retry.IN_PLACE) is Step.AGAIN and decide.retry(Retry.REQUEUE) is Step.REQUEUE
    assert decide.overdue(True) is Step.GIVE_UP and decide.overdue(False) is Step.REQUEUE


def test_careful():
    assert decide.careful(False, True, False) and decide.careful(True, False, False)
    assert not decide.careful(True, False, True) and not decide.careful(False, False, False)


def test_backoff(monkeypatch):
    monkeypatch.setattr(backoff, "draw", lambda: 0.0)
    assert [backoff.default_backoff(n) for n in (1, 2, 3, 9, 10, 10**6)] == [0.1, 0.2, 0.4, 25.6, 30.0, 30.0]
    assert [backoff.store_backoff(n) for n in (1, 2, 6, 7)] == [0.05, 0.1, 1.6, 2.0]
    monkeypatch.setattr(backoff, "draw", lambda: 1.0)
    assert backoff.default_backoff(1) == 0.05


def test_a_connection_limit_passes() -> None:
    full = OSError("NOT_ALLOWED - user connection limit (1) is reached")
    denied = OSError("NOT_ALLOWED - access to vhost refused")
    sequence = consuming.Sequence(number=1)
    for _ in range(3):
        assert sequence.after(full, 1, True) > 0
    assert sequence.after(denied, 1, True) > 0
    with pytest.raises(OSError, match="access"):
        sequence.after(denied, 1, True)


@pytest.mark.parametrize(
    ("denied", "remedy"),
    [(False, "start it, or correct host and port"), (True, "correct user, password and virtual host")],
)
def test_without_a_connection_the_broker_and_the_remedy_are_named(
    denied: bool, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    sequence = consuming.Sequence(number=1, broker="mq:5672")
    sequence.tell(logging.getLogger(), "q", sequence.after(OSError("refused"), 1, denied), OSError("refused"))
    assert caplog.messages == [
        f"no connection to the broker at mq:5672; dialling goes on, queue q: OSError('refused'); {remedy}"
    ]


def test_a_session_that_is_lost_during_a_stop() -> None:
    sequence = consuming.Sequence(number=1, consumed=True, serving=True)
    assert sequence.after(consuming.SessionLost("gone"), 1, False) > 0
    assert sequence.after(OSError("refused"), 1, False, stopping=True) > 0  # that session had ended before the stop
    sequence.serving = True
    assert sequence.after(consuming.Passed("passed"), 1, False, stopping=True) > 0  # that session was not lost
    sequence.serving = True
    with pytest.raises(consuming.UncleanStop, match="gone"):
        sequence.after(consuming.SessionLost("gone"), 1, False, stopping=True)


@pytest.mark.parametrize(("version", "limit", "refused"), [
    ((3, 10), 2, True), ((3, 10), 6, True), ((3, 10), 7, False), ((4, 0), 6, True), ((4, 3), 7, False),
    ((4, 3), None, False), ((0, 0), 2, False),
])
def test_a_delivery_limit_below_the_retries_is_refused(version, limit, refused):
    """The broker would dead-letter a message before its fourth attempt, or before a killer has run six times."""
    args = {"x-queue-type": "quorum", "x-dead-letter-exchange": "dlx"}
    declared = Declared("orders", args=args if limit is None else {**args, "x-delivery-limit": limit})
    try:
        judge(declared, version, max_retries=3)
    except QueueRefused as error:
        assert refused and f"the delivery limit {limit} is too low for 3 retries" in str(error)
    else:
        assert not refused


def test_type_checkers_know_each_setting():
    settings = {f.name for f in fields(Settings) if f.init and f.name != "queue"}
    assert SettlerOptions.__annotations__.keys() == settings
    assert ConsumerOptions.__annotations__.keys() == settings | {f.name for f in fields(Flow)}
