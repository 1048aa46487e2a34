"""The breaker: while no message of a queue succeeds, no attempt begins but for probes, and no failure is counted.

The rules are those of the store's scripts. This module holds deliveries back in one process. It does no I/O. A session
without a Breaker calls nothing here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import ceil

from . import backoff, steps
from .begin import give_back, release
from .decide import Step
from .errors import ReplyError, SettingError, StoreError, is_number
from .session import Outcome, Progress, Send, Session, Settings, Sleep, Steps, Successes
from .signals import Signal
from .steps import Cause, Options, ReplyCode, State

MOST = 100
"""The largest breaker."""

FRESH = 50
"""How many messages beyond the prefetch are fetched when all of the prefetch have failed."""

EVERY = 1.0  # seconds between two reads of the breaker
SOON = 0.25  # the same, while messages have failed with no success since
TIMEOUT = 0.5  # of a read
BLINDLY = 5.0  # without a reply of the store, after which first deliveries begin
IDLE = 5.0  # without a success of others, after which a process is not alone in failing
SETTLE = 0.3  # a failed message waits so long for a fresh one to take its probe
TURNS = 0.2  # the longest that a process leaves a permit to others
DOUBT_LASTS, FIRST_PERMIT, LATER_PERMITS, PROBES = 2.0, 1.0, 3.0, 3


def check(breaker: int, patience: float) -> None:
    """Refuse settings that make no sense."""
    if not isinstance(breaker, int) or breaker != 0 and not 2 <= breaker <= MOST:
        raise SettingError("breaker", breaker, f"2 to {MOST}, or 0 for none")
    if not is_number(patience) or not 0 <= patience < float("inf"):
        raise SettingError("patience", patience, "seconds, 0 at least")
    if patience and not breaker:
        raise SettingError("patience", patience, "0 without a breaker")


class Waiting:
    """A delivery that waits."""

    def __init__(self, probes: int, failures: int, first: bool) -> None:
        self.probes, self.failures, self.first = probes, failures, first  # first: its attempt needs no store
        self.over = Signal()
        self.permitted = False  # its attempt is a probe


class Breaker:
    """The breaker in a process. It is shut while the breaker of the queue is open, and while all fails here alone.

    One belongs to each consumer, for all its sessions. Any thread may call it.
    """

    def __init__(
        self, size: int, patience: float, settings: Settings, options: Options,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size, self.patience, self.settings, self.options, self.now = size, patience, settings, options, now
        self.shut = False
        self.over = Signal()  # ends `run`
        self.ended = Signal()  # `run` has ended
        self.calm: Signal | None = None  # fires once no fresh messages are needed; None: none are
        self._fetch: Callable[[], None] | None = None
        self._lock = threading.RLock()
        self._again = Signal()  # read now
        self._state, self._heard, self._missed = State(), now(), False
        self._due = 0.0  # when this process asks for the next permit
        self._asked = False  # a read since the store last replied asked for a permit
        self._began: float | None = None  # of the latest successes to report; None: reported
        self._ended: float | None = None
        self._waiting: list[Waiting] = []
        self._failed = 0  # messages that failed here since the last success here
        self._alone: float | None = None  # since when these are as many as the breaker
        self._stopped: float | None = None  # since when the process has stopped alone
        self._others = float("-inf")  # when another process was known to have succeeded meanwhile
        self._next = 0.0  # its next permit
        self._permits = 0  # attempts left of a permit
        self._settles: list[float] = []  # when failed messages get the rest of each permit
        self._fetching = False
        self._fresh = True  # messages beyond the prefetch can be fetched

    # The core calls these.

    def progress(self, began: float | None) -> tuple[str, Successes]:
        """Return the progress argument of a step that is sent now, and the successes that it reports.

        Ages are rounded up, so that no success seems later than it was.
        """
        with self._lock:
            now, failing = self.now(), self._alone is not None
            ages = [-1 if at is None else max(0, ceil((now - at) * 1000)) for at in (self._began, self._ended, began)]
            return steps.progress(self.size, self.patience, *ages, failing), (self._began, self._ended)

    def reported(self, successes: Successes) -> None:
        """Is called after the store has replied to a step that reports these successes.

        Each is reported once: a report that the store takes late seems to be of a later success.
        """
        with self._lock:
            began, ended = successes
            self._began = None if self._began == began else self._began
            self._ended = None if self._ended == ended else self._ended

    def begin(self, s: Session, d: Progress) -> Steps:
        """Hold a delivery while no attempt may begin. Return None once its attempt may begin, else the step instead."""
        if not self.shut:
            return None
        release(s, d)
        if not d.probes and not d.uncounted:
            s.observe(
                d, Outcome.HOLD, error=RuntimeError("no message succeeds, so its attempt waits; see strikes status")
            )
        if s.stop.fired:  # it takes no permit
            return (yield from give_back(s, d))
        waiting = Waiting(d.probes, d.counted + d.uncounted, d.first and d.fence is None)
        self._join(waiting)
        yield Sleep(max(d.held_until - self.now(), 0), (waiting.over, s.stop))
        if not self._leave(waiting, s.stop.fired):
            return (yield from give_back(s, d))
        d.probes += waiting.permitted
        return None

    def succeeded(self, d: Progress) -> None:
        """Is called before the ack of a delivery whose handler returned."""
        with self._lock:
            assert d.began is not None
            self._began, self._ended = max(self._began or 0, d.began), max(self._ended or 0, d.began + d.ran)
            self._failed = 0
            if self._alone is not None:
                self._go_on("a message succeeded in this process: it goes on")
            if self._state.doubt:
                self._wake()

    def failed(self, d: Progress) -> None:
        """Is called after the reply to FAIL."""
        assert d.reply
        self.reported(d.reports)
        if d.cause is Cause.REJECTED:  # the message is at fault, and no system that handlers need
            return
        if d.cause is Cause.NOT_COUNTED:
            first = not d.counted and not d.uncounted
        else:
            first = d.reply.code is not ReplyCode.UNCOUNTED and d.counted == 1
        with self._lock:
            if first and not self._state.doubt:
                self._failed += 1
                if self._failed == self.size:
                    self._alone = self.now()
                    self._update()
                    self._ask_fresh()  # all that was prefetched may fail always, while another message succeeds

    # An adapter calls these.

    def attach(self, fetch: Callable[[], None]) -> None:
        """Begin a session. `fetch` is called when messages beyond the prefetch are needed; it must not block."""
        with self._lock:
            self._fetch, self._fetching = fetch, False

    def fetch_none(self) -> None:
        """Ask for no messages beyond the prefetch any more, because the broker refuses to deliver them."""
        with self._lock:
            self._fresh = False
        self.settings.logger.warning(
            "the broker allows one consumer on a channel (consumer_max_per_channel): no messages beyond the prefetch "
            "are fetched, and probes are attempts at failed messages, queue %s", self.settings.queue,
        )

    def run(self) -> Steps:
        """Read the breaker once a second, and when a permit may be due, until `over` fires.

        Then report the last success, if the store replies.
        """
        try:
            yield from self._read()
        finally:
            self.ended.fire()

    def _read(self) -> Steps:
        while not self.over.fired:
            yield from self._ask()
            with self._lock:
                self._stop_alone()
                until = self.now() + self._pause()
            while not self.over.fired and not self._again.fired and (left := until - self.now()) > 0:
                yield Sleep(max(min([left, *(at - self.now() for at in self._settles)]), 0), (self._again, self.over))
                with self._lock:
                    now = self.now()
                    if any(at <= now for at in self._settles):
                        self._settles = [at for at in self._settles if at > now]
                        self._spend(True)
                        self._permits = 0
        if not self._missed and (self._began, self._ended) != (None, None):  # no later read reports this success
            yield from self._ask()

    def _ask(self) -> Steps:
        with self._lock:
            self._again = Signal()
            wants = bool(self._waiting) and not self._missed and self.now() >= self._due
        s = self.settings
        progress, successes = self.progress(None)
        call = steps.ask(s.vhost, s.queue, progress, wants, self.options)
        self._take((yield Send(call, TIMEOUT)), successes, wants)

    # With the lock.

    def _join(self, waiting: Waiting) -> None:
        with self._lock:
            self._waiting.append(waiting)
            first = len(self._waiting) == 1
            self._spend(False)
            if first:
                self._wake()

    def _leave(self, waiting: Waiting, stopped: bool) -> bool:
        """Report whether the attempt may begin. A permit that is not used goes to another delivery."""
        with self._lock:
            if not waiting.over.fired:
                self._waiting.remove(waiting)
                return False
            if stopped and waiting.permitted:
                self._permits += 1
                self._spend(True)
            return not stopped

    def _wake(self) -> None:
        self._again.fire()

    def _pause(self) -> float:
        """Return the seconds until the next read."""
        due, state = EVERY, self._state
        if state.failed and not state.open and not self._missed:
            due = SOON
        if self._waiting and state.open and not self._missed:
            due = self._due - self.now()
        return min(max(due, 0.001), EVERY)

    def _take(self, reply: object, successes: Successes, wants: bool) -> None:
        """Take a reply of the store to the report of these successes, or an error."""
        with self._lock:
            try:
                if isinstance(reply, StoreError):
                    raise reply
                state = steps.parse_state(reply)
            except (StoreError, ReplyError):
                self._missed, self._asked = True, self._asked or wants
                self._update()
                return
            self.reported(successes)
            before, asked, queue = self._state, self._asked, self.settings.queue
            self._state, self._heard, self._missed, self._asked = state, self.now(), False, False
            # A random wait gives each process its turn. Without it the one nearest to the store would get all permits.
            self._due = self._heard + (state.next - state.now) / 1000 + backoff.draw() * TURNS
            if state.open and not before.open:
                text = (
                    "no message succeeds: only probes begin, and no failure is counted, "
                    "queue %s: %d failed, the last: %r"
                )
                self.settings.logger.warning(text, queue, state.failed, state.reason)
            elif before.open and not state.open:
                self.settings.logger.warning(
                    "attempts begin again, queue %s, after %d s", queue, (state.now - before.open) // 1000
                )
                self._failed, self._alone, self._stopped = 0, None, None
            elif state.success > before.success:
                self._others = self._heard
            self._update()
            # perhaps the permit was in the reply that was lost
            if state.permitted or asked and state.open and state.permits > before.permits:
                self._permit()

    def _stop_alone(self) -> None:
        """Stop this process, in which every message fails while others succeed, and give it its own permits."""
        now, queue = self.now(), self.settings.queue
        if self._alone is None or self._state.doubt:
            return
        if self._state.count > self._state.now:
            self._go_on("an operator wants every failure counted: this process goes on")
        elif not self._missed and now - self._alone > IDLE and now - self._others > IDLE:
            # Perhaps only messages that always fail are left.
            self._go_on("no message succeeds in other processes either: this process goes on, and its failures count")
        elif self._stopped is None and now - self._alone >= DOUBT_LASTS:
            self._stopped, self._next = now, now + FIRST_PERMIT
            text = (
                "no message succeeds in this process, while others succeed: "
                "it begins only probes, and counts nothing, queue %s"
            )
            self.settings.logger.warning(text, queue)
            self._update()
        elif self._stopped is not None and now >= self._next and self._waiting:
            self._next = now + LATER_PERMITS
            self._permit()

    def _go_on(self, why: str) -> None:
        """Count the failures in this process from 0 again. If it has stopped alone, go on and log why."""
        if self._stopped is not None:
            self.settings.logger.warning("%s, queue %s", why, self.settings.queue)
        self._failed, self._alone, self._stopped = 0, None, None
        self._update()

    def _update(self) -> None:
        """Open or shut."""
        shut = bool(self._state.open) or self._stopped is not None
        if shut != self.shut:
            self.shut, self._permits = shut, 0
        trouble = shut or self._alone is not None
        if trouble and self.calm is None:
            self.calm = Signal()
        elif not trouble and self.calm is not None:
            calm, self.calm, self._fetching = self.calm, None, False
            calm.fire()
        self._spend(False)

    def _ask_fresh(self) -> None:
        """Ask for fresh messages once, until all is calm."""
        if self._fetch and self._fresh and not self._fetching:
            self._fetching = True
            self._fetch()

    def _permit(self) -> None:
        self._permits = PROBES
        self._spend(False)
        if self._permits:
            self._ask_fresh()
            self._settles.append(self.now() + SETTLE)

    def _spend(self, everything: bool) -> None:
        """Let waiting deliveries go: all if it is not shut, else one for each probe.

        Fresh ones go first. If everything is true, failed ones follow, those with the fewest attempts first.
        """
        self._waiting.sort(key=lambda w: (w.probes, w.failures))
        if not self.shut:
            # Those that have failed often go between those that have not:
            # many failures in a row would look like an outage.
            going, self._waiting = self._waiting, []
            while going:
                going.pop(0).over.fire()
                if going:
                    going.pop().over.fire()
            return
        stay, blind = [], self._missed and self.now() - self._heard >= BLINDLY
        for w in self._waiting:
            if blind and w.first:
                w.over.fire()
            elif self._permits > 0 and (everything or not self._fresh or not w.probes + w.failures):
                self._permits -= 1
                w.permitted = True
                w.over.fire()
            else:
                stay.append(w)
        self._waiting = stay
