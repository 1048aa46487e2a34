"""A consumer for programs with threads, on pika.

    from strikes.pika import Consumer
    Consumer("orders", handle, amqp="amqp://…", counter=Counter.from_url("redis://…"), max_retries=3).run()
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import pika
import pika.exceptions

from . import queue as queues
from . import steps
from .acks import Acks
from .blocking import THREADS, Driver, Handler, drive_late, sleep
from .breaker import FRESH, Breaker
from .conclude import carry, settled
from .consuming import (
    CARE_FOR, CLOSE_TIMEOUT, HEARTBEAT, NOT_ALLOWED, PENDING_ACKS, SETTLE_TIMEOUT, ConsumerOptions, Flow, Passed,
    Refused, Sequence, SessionLost, Undecodable, check_stuck, check_url, lanes_refusal, position, session_error,
)
from .control import Control
from .counter import Counter
from .decide import Step
from .errors import StoreError, StrikesError
from .handler import Delivery, check
from .late import Late
from .session import Event, Outcome, Progress, Session, Settings, Sleep
from .signals import Signal
from .wire import ChannelClosed, Wire, is_unconverted, is_undecodable

TICK = 0.2
"""Seconds after which a stop is noticed. A signal handler may call stop, so it only sets a flag."""

FLOW = set(Flow.__dataclass_fields__)
_REFUSALS = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.ProbableAccessDeniedError)


class Consumer:
    """Gives the messages of one queue to a handler.

    It retries the failed ones, and dead-letters those that fail too often. The handler runs in a thread of its own. If
    it returns, the message is acked. If it raises an exception, the attempt is counted; see Reject and RetryAfter. The
    further arguments are the fields of Settings and Flow.
    """

    def __init__(
        self, queue: str, handler: Handler, *, amqp: str | pika.connection.Parameters, counter: Counter,
        consuming: Callable[[bool], object] | None = None, **settings: Unpack[ConsumerOptions],
    ) -> None:
        if isinstance(amqp, str):
            check_url(amqp)
            amqp = pika.URLParameters(amqp)
            if amqp.heartbeat is None:
                amqp.heartbeat = HEARTBEAT
        self._parameters = amqp
        given: dict[str, Any] = {"vhost": self._parameters.virtual_host, **settings}
        self._flow = Flow(**{name: given.pop(name) for name in FLOW & given.keys()})
        self._settings = Settings.of(queue, given, FLOW)
        self._settings.check_ttl(counter.options)
        check(handler, awaits=False)
        self._handler, self._counter, self._consuming = handler, counter, consuming
        self._stopping = False

    def stop(self) -> None:
        """Ask run to end: it takes no more messages and waits for handlers. A signal handler may call it."""
        self._stopping = True

    def run(self) -> None:
        """Keep one session on the broker until `stop`; each session has a connection of its own.

        It raises Refused, QueueRefused or a StoreError if the first session cannot begin and another would not help.
        Later it raises Stuck, and UncleanStop if its last acks may not have arrived. Else only stop ends it.
        """
        late = Late(lambda late_steps: THREADS.submit(lambda: drive_late(self._counter, late_steps)))
        control = Control(self._settings, self._counter.options, self._flow.breaker > 0)
        THREADS.submit(lambda: drive_late(self._counter, control.run()))
        sequence, breaker = Sequence(broker=f"{self._parameters.host}:{self._parameters.port}"), None
        if size := self._flow.breaker:
            breaker = Breaker(size, self._flow.patience, self._settings, self._counter.options)
            runs = breaker.run()
            THREADS.submit(lambda: drive_late(self._counter, runs))
        try:
            while not self._stopping:
                began = time.monotonic()
                sequence.number += 1
                try:
                    self._connection(sequence, late, control, breaker)
                except (StrikesError, pika.exceptions.AMQPError, OSError) as error:
                    # pika takes a socket that is closed in the handshake for a refusal
                    denied = isinstance(error, _REFUSALS) and "ConnectionClosedByBroker" in str(error)
                    delay = sequence.after(error, time.monotonic() - began, denied, self._stopping)
                    sequence.tell(self._settings.logger, self._settings.queue, delay, error)
                    self._pause(delay)
        finally:
            if breaker:
                breaker.over.fire()
            control.over.fire()
            late.close()
            for ended in (control.ended, late.idle, *([breaker.ended] if breaker else [])):
                sleep(Sleep(2, (ended,)))

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, TICK))

    def _connection(self, sequence: Sequence, late: Late, control: Control, breaker: Breaker | None) -> None:
        wire = Wire(self._parameters, lambda: self._stopping)
        sequence.connected = True
        try:
            while not self._stopping:
                self._check(wire, control, sequence)
                if not self._await_resume(wire, control):
                    continue  # the topology may have changed since the check
                control.stopped = False
                try:
                    _Session(self, wire, sequence, late, control, breaker).run()
                    sequence.serving = False
                finally:
                    control.stopped = True
                    control.read_now()
        finally:
            wire.close()

    def _check(self, wire: Wire, control: Control, sequence: Sequence) -> None:
        """Refuse a store or a queue that would lose counts or messages. A store that is out of reach is not refused."""
        sleep(Sleep(2, (control.first,)))
        drive_late(self._counter, control.read_lanes())
        sequence.refuse(control.first_error, control.view.lanes_error)
        s, f = self._settings, self._flow
        if refusal := lanes_refusal(s.queue, control.view.lanes):
            raise refusal
        channel = wire.channel()
        try:
            wire.ask(
                channel,
                "looking for the queue",
                lambda reply: channel.queue_declare(s.queue, passive=True, callback=reply),
            )
        except ChannelClosed as refusal:
            wire.refuse_partitions(s.queue, exists=False)
            raise Refused(
                f"queue {s.queue!r} in vhost {s.vhost!r}: {refusal.text}; declare it with strikes declare {s.queue}"
            ) from None
        channel.close()
        wire.refuse_partitions(s.queue, exists=True)
        for warning in queues.judge(
            wire.declared(s.queue, s.vhost, sequence.unread), queues.parse_version(wire.version), s.max_retries,
            f.allow_drop, f.dead_letter_policy,
        ):
            s.logger.warning(warning)

    def _await_resume(self, wire: Wire, control: Control) -> bool:
        """Wait until the queue is not paused. Return true if it was not paused at all."""
        if not control.view.reply.paused:
            return True
        s = self._settings
        s.logger.warning("paused, queue %s, by %r: %r", s.queue, control.view.reply.by, control.view.reply.why)
        while control.view.reply.paused and not self._stopping:
            wire.poll(TICK)
            if wire.lost:
                raise wire.lost
        if not self._stopping:
            s.logger.warning("resumed, queue %s", s.queue)
        return False


class _Session:
    """One channel of a Consumer: the Port of its Session."""

    def __init__(
        self, consumer: Consumer, wire: Wire, sequence: Sequence, late: Late, control: Control, breaker: Breaker | None
    ) -> None:
        self.c, self.wire, self.sequence, self.control = consumer, wire, sequence, control
        self.careful, self.began = sequence.careful, time.monotonic()
        self.prefetch = 1 if self.careful else consumer._flow.prefetch
        self.session = Session(
            consumer._settings, consumer._counter.options, self, late, consumer._flow.concurrency, control.view,
            breaker=breaker,
        )
        self.breaker, self.fetches = breaker, False
        if breaker:
            breaker.attach(self._fetch)
        self.session.dead_letters_from = sequence.dead_letters_from(time.monotonic())
        stuck = partial(check_stuck, self.session, consumer._flow.concurrency)
        self.driver = Driver(consumer._counter, consumer._handler, self.session, stuck)
        self.acks: Acks[Progress] = Acks()
        self.channel: Any = None
        self.tag = ""
        self.fetched = False
        self.error: Exception | None = None  # why nothing can be sent any more
        self._lock = threading.Lock()
        self._tasks = 0
        self._woken = False
        self._flushing: list[Signal] = []  # fire once the acks are sent
        self._sent: list[Signal] = []
        self._over = False  # the thread that does the I/O has left
        self._taking = threading.Lock()

    # The Port, for any thread.

    def settle(self, progress: Progress, step: Step) -> None:
        self.acks.settle(progress.tag, step, progress)
        self._wake()

    def done(self, progress: Progress) -> None:
        with self._lock:
            self._tasks -= 1

    def flushed(self) -> Signal:
        signal = Signal()
        with self._lock:
            self._flushing.append(signal)
        self._wake()
        return signal

    def _wake(self) -> None:
        with self._lock:
            woken, self._woken = self._woken, True
        if self._over:
            self._flush()
        elif not woken:
            with contextlib.suppress(Exception):  # the loop is closed: the session flushes by itself
                self.wire.wake(self._flush)

    # The thread that does the I/O.

    def run(self) -> None:
        s = self.c._settings
        self.channel = self.wire.channel()
        self.channel.add_on_cancel_callback(self._on_cancel)
        self.wire.ask(
            self.channel,
            "setting the prefetch",
            lambda reply: self.channel.basic_qos(prefetch_count=self.prefetch, callback=reply),
        )
        tag: list[str] = []
        try:
            self.wire.ask(self.channel, "beginning to consume", lambda reply: tag.append(
                self.channel.basic_consume(s.queue, self._on_message, callback=reply)))
        except ChannelClosed as refusal:
            if refusal.code in (403, 404, 405, 406):
                raise Refused(f"queue {s.queue!r}: consuming: {refusal.text}") from None
            raise
        except pika.exceptions.ConnectionClosedByBroker as lost:
            if is_unconverted(lost):  # the broker was to deliver before it replied
                error = Undecodable(f"{lost}; {position(self.session, self.prefetch)}", unconverted=True)
                self._note(error)
                raise error from None
            raise
        self.tag = tag[0]
        self.sequence.consumed = self.sequence.serving = True
        s.logger.info(
            "consuming, queue %s, prefetch %d, concurrency %d", s.queue, self.prefetch, self.c._flow.concurrency
        )
        self.driver.watch()
        self._tell(True)
        failed: Exception | None = None
        try:
            self._receive()
        except (StrikesError, pika.exceptions.AMQPError) as err:
            failed = err
        finally:
            try:
                self._end(failed)
            finally:  # a delivery may be settled later: the gate waits for it
                self.error = self.error or SessionLost("the session has ended")
                self._over = True
                self._flush()

    def _tell(self, consuming: bool) -> None:
        if tell := self.c._consuming:
            self.session.guard("consuming", lambda: tell(consuming))  # type: ignore[misc]

    def _receive(self) -> None:
        """Take deliveries until a stop or a pause, until lanes are blocked, or until the session is lost."""
        while not (self.c._stopping or self.control.view.ends_sessions()):
            self._turn(TICK)
            self._check_lost()
            if self.fetches:
                self.fetches = False
                self._take_fresh()
            if self.session.error:
                raise session_error(self.session.error)
            if self.careful and self.session.received and time.monotonic() - self.began > CARE_FOR:
                raise Passed("the undecodable message did not come again: prefetching again")

    def _turn(self, seconds: float) -> None:
        self.wire.poll(seconds)
        sent, self._sent = self._sent, []
        for signal in sent:
            signal.fire()

    def _check_lost(self) -> None:
        if self.wire.lost:
            wrong = str(self.wire.lost)
            if (unconverted := is_unconverted(self.wire.lost)) or is_undecodable(self.wire.lost):
                raise Undecodable(f"{wrong}; {position(self.session, self.prefetch)}", unconverted)
            raise SessionLost(f"the connection was lost: {wrong}")
        if closed := self.wire.closed(self.channel):
            raise closed
        if self.error:
            raise self.error

    def _fetch(self) -> None:
        self.fetches = True

    def _take_fresh(self) -> None:
        """Take messages beyond the prefetch, with a second consumer on the channel, until the breaker is calm."""
        assert self.breaker
        calm = self.breaker.calm
        if calm is None or self.careful:  # a careful session prefetches one: an undecodable message returns all others
            return
        self.acks.apart = self.fetched = True
        tag: list[str] = []
        self.wire.ask(
            self.channel,
            "fetching more messages",
            lambda reply: self.channel.basic_qos(prefetch_count=FRESH, callback=reply),
        )
        try:
            self.wire.ask(
                self.channel,
                "fetching more messages",
                lambda reply: tag.append(
                    self.channel.basic_consume(self.c._settings.queue, self._on_message, callback=reply)
                ),
            )
        except pika.exceptions.ConnectionClosedByBroker as lost:
            if lost.reply_code == NOT_ALLOWED:
                self.breaker.fetch_none()
            raise
        calm.add(lambda: self._cancel(tag[0]))

    def _cancel(self, tag: str) -> None:
        """End the consumer of messages beyond the prefetch, from any thread."""
        with contextlib.suppress(Exception):  # the connection is closed
            self.wire.wake(lambda: self.channel.is_open and self.channel.basic_cancel(tag))

    def _on_cancel(self, _frame: Any) -> None:
        self.error = self.error or SessionLost(
            "the broker cancelled the consumer: "
            "the queue was deleted or moved, or a delivery was held beyond the consumer timeout"
        )

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if self.session.stop.fired:
            return  # it returns with the channel
        delivery = Delivery(
            body, properties.message_id or "", properties.headers or {}, method.redelivered, method.exchange,
            method.routing_key, properties,
        )
        d = self.session.take(delivery, method.delivery_tag)
        self.acks.open(d.tag)
        with self._lock:
            self._tasks += 1
        drive = self.driver.drive
        try:
            self.session.admit(d, lambda: THREADS.submit(lambda: drive(carry(self.session, d))))
        except RuntimeError as error:  # no thread can be started; pika would take it for a frame that it cannot decode
            self.session.fail(error)
            self.done(d)

    def _flush(self) -> None:
        """Send the settlements."""
        with self._lock:
            self._woken = False
            waiting, self._flushing = self._flushing, []
        with self._taking:
            for step, tag, multiple, items in self.acks.take():
                error = self.error or self._send(step, tag, multiple)
                for d in items:
                    settled(self.session, d, error)
        self._sent += waiting

    def _send(self, step: Step, tag: int, multiple: bool) -> Exception | None:
        """Settle with ack and nack only. An error means that the channel is closed."""
        try:
            if step is Step.ACK:
                self.channel.basic_ack(tag, multiple)
            else:
                self.channel.basic_nack(tag, multiple, requeue=step is Step.REQUEUE)
        except pika.exceptions.AMQPError as err:
            return SessionLost(repr(err))
        return None

    def _end(self, error: Exception | None) -> None:
        """Drain after a stop, a pause or a refusal; settle nothing late after a lost session."""
        self.session.stop.fire()
        self._tell(False)  # it may take long
        lost = error is not None
        if not lost:
            self._finish_by(time.monotonic() + self.c._flow.drain_timeout)
            if self._tasks and not self.error:
                self.c._settings.logger.warning(
                    "handlers are cancelled: they did not end within the drain timeout, queue %s",
                    self.c._settings.queue,
                )
        else:
            self.error = error
            if self.channel.is_open and not self.wire.lost:
                self.channel.close()
        self.session.live.fire()
        self._finish_by(time.monotonic() + SETTLE_TIMEOUT)
        self.driver.close()
        if isinstance(error, Undecodable):
            self._note(error)
        if error:
            raise error
        self._close_channel()

    def _finish_by(self, end: float) -> None:
        """Do I/O until every delivery is done with."""
        while self._tasks and time.monotonic() < end:
            self._turn(0.05)
            if self.error or self.wire.lost or not self.channel.is_open:
                self.error = self.error or SessionLost("the channel is closed")
                self._flush()
                self._turn(0)
                if not self.session.live.fired:
                    return  # it need not drain any more

    def _close_channel(self) -> None:
        """Close the channel so that the acks have arrived.

        With more than 30 under way, a plain close loses some of them.
        """
        if self.error or self.wire.lost or not self.channel.is_open:
            raise SessionLost(
                "the session was lost while it was being stopped: "
                "the last acks may be lost, and their messages handled again"
            )
        if self.prefetch > PENDING_ACKS or self.fetched:
            self.wire.ask(
                self.channel, "cancelling the consumer",
                lambda reply: self.channel.basic_cancel(self.tag, callback=reply), CLOSE_TIMEOUT,
            )
        self.channel.close()
        end = time.monotonic() + CLOSE_TIMEOUT
        while not self.channel.is_closed and not self.wire.lost:
            if time.monotonic() > end:
                raise SessionLost("closing the channel: the broker did not answer")
            self.wire.poll(0.1)

    def _note(self, error: Undecodable) -> None:
        """Report an undecodable message, for strikes status."""
        if not error.certain(self.prefetch):
            return
        s = self.c._settings
        s.logger.error("a message cannot be decoded, queue %s: %s", s.queue, error)
        if s.observer:
            self.session.guard(
                "observer", lambda: s.observer and s.observer(Event(Outcome.UNDECODABLE, s.queue, error=error))
            )
        note = steps.undecodable(s.vhost, s.queue, str(error), self.c._counter.options)
        try:
            self.c._counter.run(note)
        except StoreError as err:
            s.logger.warning("the store did not note the undecodable message, queue %s: %s", s.queue, err)
