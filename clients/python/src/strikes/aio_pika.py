"""A consumer for asyncio, on aiormq, the client below aio-pika.

    from strikes.aio_pika import Consumer
    await Consumer("orders", handle, amqp="amqp://…", counter=AsyncCounter.from_url("redis://…"), max_retries=3).run()
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack
from urllib.parse import parse_qsl, unquote, urlsplit

import aiormq
import aiormq.exceptions as ax
import pamqp.commands
import pamqp.decode
import pamqp.exceptions
import pamqp.frame

from . import queue as queues
from . import steps
from .acks import Acks
from .aio import AsyncDriver, AsyncHandler, Tasks, drive_late, run, sleep
from .breaker import FRESH, Breaker
from .conclude import carry, settled
from .consuming import (
    CARE_FOR, CLOSE_TIMEOUT, HEARTBEAT, OPEN_TIMEOUT, NOT_ALLOWED, PENDING_ACKS, SETTLE_TIMEOUT, ConsumerOptions, Flow,
    Passed, Refused, Sequence, SessionLost, Undecodable, Unreadable, check_stuck, check_url, lanes_refusal, position,
    session_error,
)
from .control import Control
from .counter import AsyncCounter
from .decide import Step
from .errors import SettingError, StoreError, StrikesError
from .handler import Delivery, check
from .late import Late
from .queue import MOST_PROBES, PROBE, Declared
from .session import Event, Outcome, Progress, Session, Settings, Sleep
from .signals import Signal

TICK = 0.1
FLOW = set(Flow.__dataclass_fields__)
_LOST = (ax.AMQPError, pamqp.exceptions.PAMQPException, OSError, EOFError, RuntimeError, asyncio.TimeoutError)


def _any_short_string() -> None:
    """Have pamqp read ids that are not UTF-8, with surrogateescape.

    Else each such message ends the connection, again and again.
    """
    strict: Any = pamqp.decode.METHODS["shortstr"]

    def lenient(value: bytes) -> tuple[int, str]:
        try:
            consumed, text = strict(value)
        except UnicodeDecodeError:
            return value[0] + 1, value[1:value[0] + 1].decode("utf-8", "surrogateescape")
        return int(consumed), str(text)

    pamqp.decode.METHODS["shortstr"] = lenient


_any_short_string()


def is_unconverted(error: Any) -> bool:
    """Whether the broker closed the connection as it does when it cannot convert a message to AMQP 0.9.1 (541)."""
    return isinstance(error, ax.ConnectionInternalError)


def is_undecodable(error: Any) -> bool:
    """Whether a connection was lost because pamqp could not decode a frame: the error was raised while pamqp read one.

    Its type does not tell, because aiormq passes on every error of pamqp's, such as OSError for a time after the year
    9999. For a connection that was cut between two frames, aiormq raises a bare Exception.
    """
    if not isinstance(error, Exception):
        return False
    return any(frame.f_code is pamqp.frame.unmarshal.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def with_heartbeat(url: str) -> str:
    """Return the URL with which aiormq takes a connection for lost after three silent heartbeats.

    Later versions of aiormq do so by themselves. Version 6.4 waits for 183 s, also with another heartbeat or none.
    """
    given = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    heartbeat = given.get("heartbeat", str(HEARTBEAT))
    seconds = int(heartbeat) if heartbeat.isdecimal() else 0
    missing = {"heartbeat": seconds, "timeout": seconds - 1 if seconds else 10**6}.items()
    added = "&".join(f"{name}={value}" for name, value in missing if name not in given)
    return f"{url}{'&' if given else '?'}{added}" if added else url


def message_id_of(properties: Any) -> str | bytes:
    """Return the id of a message; bytes if it is not UTF-8."""
    text = str(properties.message_id or "")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


class Consumer:
    """Gives the messages of one queue to a handler.

    It retries the failed ones, and dead-letters those that fail too often. The handler is a coroutine function. If it
    returns, the message is acked. If it raises an exception, the attempt is counted; see Reject and RetryAfter. At its
    deadline it is cancelled. The further arguments are the fields of Settings and Flow.
    """

    def __init__(
        self, queue: str, handler: AsyncHandler, *, amqp: str, counter: AsyncCounter,
        consuming: Callable[[bool], object] | None = None, **settings: Unpack[ConsumerOptions],
    ) -> None:
        check_url(amqp)
        self._amqp = with_heartbeat(amqp)
        given: dict[str, Any] = {"vhost": unquote(urlsplit(amqp).path[1:]) or "/", **settings}
        self._flow = Flow(**{name: given.pop(name) for name in FLOW & given.keys()})
        self._settings = Settings.of(queue, given, FLOW)
        self._settings.check_ttl(counter.options)
        check(handler, awaits=True)
        try:
            pamqp.commands.Queue.Declare(queue=queue)
        except ValueError:
            want = (
                "a name that aio-pika can send, such as one of ASCII letters, digits and -_.:@#,/ "
                "(the Consumer of strikes.pika takes any name)"
            )
            raise SettingError("queue", queue, want) from None
        self._handler, self._counter, self._consuming = handler, counter, consuming
        self._stopping = False

    def stop(self) -> None:
        """Ask run to end: it takes no more messages and waits for handlers.

        Any thread may call it, and a signal handler.
        """
        self._stopping = True

    async def run(self) -> None:
        """Keep one session on the broker until `stop`; each session has a connection of its own.

        It raises Refused, QueueRefused or a StoreError if the first session cannot begin and another would not help.
        Later it raises Stuck, and UncleanStop if its last acks may not have arrived. If it is cancelled,
        handlers are cancelled, nothing is counted, and messages return to the queue.
        """
        tasks = Tasks()
        late = Late(lambda late_steps: tasks.spawn(drive_late(self._counter, late_steps)))  # type: ignore[arg-type]
        control = Control(self._settings, self._counter.options, self._flow.breaker > 0)
        tasks.spawn(drive_late(self._counter, control.run()))
        sequence, breaker = Sequence(broker=urlsplit(self._amqp).netloc.rpartition("@")[2]), None
        if size := self._flow.breaker:
            breaker = Breaker(size, self._flow.patience, self._settings, self._counter.options)
            tasks.spawn(drive_late(self._counter, breaker.run()))
        try:
            while not self._stopping:
                began = time.monotonic()
                sequence.number += 1
                try:
                    await self._connection(sequence, late, control, breaker)
                except (StrikesError, *_LOST) as error:
                    denied = isinstance(
                        error, (ax.ProbableAuthenticationError, ax.AuthenticationError, ax.ConnectionNotAllowed)
                    )
                    delay = sequence.after(error, time.monotonic() - began, denied, self._stopping)
                    sequence.tell(self._settings.logger, self._settings.queue, delay, error)
                    end = time.monotonic() + delay
                    while not self._stopping and time.monotonic() < end:
                        await asyncio.sleep(min(TICK, max(end - time.monotonic(), 0)))
        finally:
            if breaker:
                breaker.over.fire()
            control.over.fire()
            late.close()
            for ended in (control.ended, late.idle, *([breaker.ended] if breaker else [])):
                await sleep(Sleep(2, (ended,)))

    async def _connection(self, sequence: Sequence, late: Late, control: Control, breaker: Breaker | None) -> None:
        connection = await _connect(self._amqp)
        sequence.connected = True
        try:
            while not self._stopping:
                await self._check(connection, control, sequence)
                if not await self._await_resume(connection, control):
                    continue  # the topology may have changed since the check
                control.stopped = False
                try:
                    await _Session(self, connection, sequence, late, control, breaker).run()
                    sequence.serving = False
                finally:
                    control.stopped = True
                    control.read_now()
        finally:
            await _close(connection)

    async def _check(self, connection: Any, control: Control, sequence: Sequence) -> None:
        """Refuse a store or a queue that would lose counts or messages. A store that is out of reach is not refused."""
        await sleep(Sleep(2, (control.first,)))
        await drive_late(self._counter, control.read_lanes())
        sequence.refuse(control.first_error, control.view.lanes_error)
        s, f = self._settings, self._flow
        if refusal := lanes_refusal(s.queue, control.view.lanes):
            raise refusal
        channel = await _channel(connection)
        try:
            await _ask(channel.queue_declare(s.queue, passive=True))
        except ax.AMQPChannelError as refusal:
            await _refuse_partitions(connection, s.queue, exists=False)
            raise Refused(
                f"queue {s.queue!r} in vhost {s.vhost!r}: {_text(refusal)}; declare it with strikes declare {s.queue}"
            ) from None
        await _close(channel)
        await _refuse_partitions(connection, s.queue, exists=True)
        version = queues.parse_version(_text(connection.server_properties.get("version")))
        for warning in queues.judge(
            await _declared(connection, s, sequence.unread), version, s.max_retries, f.allow_drop, f.dead_letter_policy
        ):
            s.logger.warning(warning)

    async def _await_resume(self, connection: Any, control: Control) -> bool:
        """Wait until the queue is not paused. Return true if it was not paused at all."""
        if not control.view.reply.paused:
            return True
        s = self._settings
        s.logger.warning("paused, queue %s, by %r: %r", s.queue, control.view.reply.by, control.view.reply.why)
        while control.view.reply.paused and not self._stopping:
            await asyncio.sleep(TICK)
            if connection.is_closed:
                raise SessionLost("the connection was lost")
        if not self._stopping:
            s.logger.warning("resumed, queue %s", s.queue)
        return False


async def _ask(reply: Any, seconds: float = OPEN_TIMEOUT) -> Any:
    """Wait for the broker's reply. The timeouts of aiormq 6.4 keep its channel locked."""
    try:
        return await asyncio.wait_for(reply, seconds)
    except TimeoutError as late:
        if late.errno:  # of the operating system
            raise
        raise SessionLost(f"the broker did not answer within {seconds} s") from None
    except Exception as error:
        if type(error) is Exception:  # the connection was cut between two frames
            raise SessionLost("the connection was lost") from error
        raise


async def _connect(url: str, seconds: float = OPEN_TIMEOUT) -> Any:
    """Open a connection. If the handshake fails, close its socket, because aiormq leaves it open.

    Only the frames of the traceback still refer to the socket.
    """
    try:
        return await _ask(aiormq.connect(url), seconds)
    except Exception as failed:
        error: BaseException | None = failed
        while error:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                writer = frame.f_locals.get("writer")
                if isinstance(writer, asyncio.StreamWriter):
                    writer.transport.abort()
            error = error.__cause__ or error.__context__
        for frame in failed.args:  # aiormq 6.4 does not say why the virtual host was refused
            if isinstance(frame, pamqp.commands.Connection.Close):
                raise (ax.ConnectionNotAllowed if frame.reply_code == NOT_ALLOWED else SessionLost)(frame.reply_text)
        raise


async def _channel(connection: Any) -> Any:
    return await _ask(connection.channel(publisher_confirms=False))


async def _close(it: Any) -> None:
    """Close a channel or a connection, as far as the broker answers."""
    with contextlib.suppress(SessionLost, *_LOST):
        await _ask(it.close(), CLOSE_TIMEOUT)


def _text(value: Any) -> str:
    if isinstance(value, Exception) and value.args:
        value = value.args[0]
    return value.decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)


async def _cancelled(channel: Any, tag: str) -> None:
    """Cancel a consumer, as far as the broker answers."""
    with contextlib.suppress(SessionLost, *_LOST):
        await _ask(channel.basic_cancel(tag))


async def _exists(connection: Any, kind: str, name: str) -> bool:
    """Whether a queue or an exchange is known to exist."""
    channel = await _channel(connection)
    try:
        await _ask((channel.queue_declare if kind == "queue" else channel.exchange_declare)(name, passive=True))
    except ax.AMQPChannelError:
        return False
    await _close(channel)
    return True


async def _refuse_partitions(connection: Any, queue: str, exists: bool) -> None:
    """Refuse a queue with partitions."""
    asks = queues.refuse_partitions(queue, exists)
    with contextlib.suppress(StopIteration):
        asked = next(asks)
        while True:
            asked = asks.send(await _exists(connection, *asked))


async def _declared(connection: Any, s: Settings, unread: str) -> Declared:
    """Learn how a queue was declared from the refusals of declarations that differ, unless unread says why not."""
    d = Declared(s.queue, s.vhost, unread=unread)
    if d.unread:
        return d
    codes: dict[type, int] = {
        ax.ChannelAccessRefused: 403,
        ax.ChannelLockedResource: 405,
        ax.ChannelPreconditionFailed: 406,
    }
    for _ in range(MOST_PROBES):
        if any(isinstance(v, int) and -128 <= v < 0 for v in d.args.values()):
            d.unread = "the client cannot write small negative integers"  # pamqp writes them as unsigned bytes
            return d
        channel = await _channel(connection)
        try:
            await _ask(
                channel.queue_declare(
                    s.queue, durable=d.durable, auto_delete=d.auto_delete, arguments={**d.args, **PROBE}
                )
            )
        except ax.AMQPChannelError as refusal:
            if d.learn(codes.get(type(refusal), 0), _text(refusal)):
                continue
            return d
        except ax.ConnectionInternalError as lost:
            raise Unreadable from lost
        await _close(channel)
        return d
    d.unread = f"the broker still refuses a redeclaration after {MOST_PROBES} attempts"
    return d


class _Session:
    """One channel of a Consumer: the Port of its Session."""

    def __init__(
        self, consumer: Consumer, connection: Any, sequence: Sequence, late: Late, control: Control,
        breaker: Breaker | None,
    ) -> None:
        self.c, self.connection, self.sequence, self.control = consumer, connection, sequence, control
        self.careful, self.began = sequence.careful, time.monotonic()
        self.prefetch = 1 if self.careful else consumer._flow.prefetch
        self.session = Session(
            consumer._settings, consumer._counter.options, self, late, consumer._flow.concurrency, control.view,
            breaker=breaker,
        )
        self.breaker, self.fetches, self.fetched = breaker, False, False
        if breaker:
            breaker.attach(self._fetch)
        self.session.dead_letters_from = sequence.dead_letters_from(time.monotonic())
        stuck = partial(check_stuck, self.session, consumer._flow.concurrency)
        self.driver = AsyncDriver(consumer._counter, consumer._handler, self.session, stuck)
        self.acks: Acks[Progress] = Acks()
        self.channel: Any = None
        self.tag = ""
        self.error: Exception | None = None  # why nothing can be sent any more
        self._under_way, self._over = 0, False
        self._tasks = Tasks()
        self._woken, self._idle = asyncio.Event(), asyncio.Event()
        self._flushing: list[Signal] = []  # fire once the acks are sent

    # The Port.

    def settle(self, progress: Progress, step: Step) -> None:
        self.acks.settle(progress.tag, step, progress)
        self._woken.set()

    def done(self, progress: Progress) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()
            self._woken.set()

    def flushed(self) -> Signal:
        signal = Signal()
        self._flushing.append(signal)
        self._woken.set()
        return signal

    async def run(self) -> None:
        self.channel = await _channel(self.connection)
        await _ask(self.channel.basic_qos(prefetch_count=self.prefetch))
        self.driver.watch()
        self._tasks.spawn(self._flush())
        error: BaseException | None = None
        try:
            try:
                await self._consume()
                await self._receive()
                await self._drain()
            except (StrikesError, asyncio.CancelledError, *_LOST) as err:
                error = err
            await self._end(error)
        finally:  # nothing goes on without the session, even if its end was cancelled
            self.session.live.fire()
            self.driver.close()
            self.error = self.error or SessionLost("the session has ended")
            self._over = True
            self._woken.set()

    async def _consume(self) -> None:
        s = self.c._settings
        try:
            self.tag = (await _ask(self.channel.basic_consume(s.queue, self._on_message))).consumer_tag
        except ax.AMQPChannelError as refusal:
            raise Refused(f"queue {s.queue!r}: consuming: {_text(refusal)}") from None
        except ax.ConnectionInternalError as lost:  # the broker was to deliver before it replied
            raise Undecodable(f"{lost!r}; {position(self.session, self.prefetch)}", unconverted=True) from None
        self.sequence.consumed = self.sequence.serving = True
        s.logger.info(
            "consuming, queue %s, prefetch %d, concurrency %d", s.queue, self.prefetch, self.c._flow.concurrency
        )
        self._tell(True)

    def _tell(self, consuming: bool) -> None:
        if tell := self.c._consuming:
            self.session.guard("consuming", lambda: tell(consuming))  # type: ignore[misc]

    async def _receive(self) -> None:
        """Take deliveries until a stop or a pause, until lanes are blocked, or until the session is lost."""
        try:
            while not (self.c._stopping or self.control.view.ends_sessions()):
                await asyncio.sleep(TICK)
                self._check_lost()
                if self.fetches:
                    self.fetches = False
                    await self._take_fresh()
                if self.session.error:
                    raise session_error(self.session.error)
                if self.careful and self.session.received and time.monotonic() - self.began > CARE_FOR:
                    raise Passed("the undecodable message did not come again: prefetching again")
        finally:
            self.session.stop.fire()
            self._tell(False)  # it may take long

    def _fetch(self) -> None:
        self.fetches = True

    async def _take_fresh(self) -> None:
        """Take messages beyond the prefetch, with a second consumer on the channel, until the breaker is calm."""
        assert self.breaker
        calm = self.breaker.calm
        if calm is None or self.careful:  # a careful session prefetches one: an undecodable message returns all others
            return
        self.acks.apart = self.fetched = True
        await _ask(self.channel.basic_qos(prefetch_count=FRESH))
        try:
            tag = (await _ask(self.channel.basic_consume(self.c._settings.queue, self._on_message))).consumer_tag
        except ax.ConnectionNotAllowed:
            self.breaker.fetch_none()
            raise
        loop = asyncio.get_running_loop()
        calm.add(lambda: loop.call_soon(self._cancel, tag))  # type: ignore[arg-type]

    def _cancel(self, tag: str) -> None:
        if not self.channel.is_closed:
            self._tasks.spawn(_cancelled(self.channel, tag))

    def _check_lost(self) -> None:
        if self._connection_lost:
            error = (
                self.connection.closing.exception()
                if self.connection.closing.done() and not self.connection.closing.cancelled()
                else None
            )
            if is_unconverted(error) or is_undecodable(error):
                raise Undecodable(f"{error!r}; {position(self.session, self.prefetch)}", is_unconverted(error))
            raise SessionLost(f"the connection was lost: {error!r}")
        if self.channel.is_closed:
            raise SessionLost(f"the broker closed the channel: {self.channel.closing.exception()!r}")
        if self._lost:
            raise SessionLost(
                "the broker cancelled the consumer: "
                "the queue was deleted or moved, or a delivery was held beyond the consumer timeout"
            )

    @property
    def _connection_lost(self) -> bool:
        return bool(self.connection.is_closed or not self.connection.is_opened)

    @property
    def _lost(self) -> bool:
        """Whether nothing can be settled any more. The broker may have cancelled the consumer."""
        cancelled = self.tag != "" and self.tag not in self.channel.consumers
        return cancelled or self._connection_lost or self.channel.is_closed

    async def _on_message(self, m: Any) -> None:
        if self.session.stop.fired:
            return  # it returns with the channel
        p, at = m.header.properties, m.delivery
        headers = (
            {k: bytes(v) if isinstance(v, bytearray) else v for k, v in (p.headers or {}).items()} if p.headers else {}
        )
        d = self.session.take(
            Delivery(m.body, message_id_of(p), headers, at.redelivered, at.exchange, at.routing_key, p), at.delivery_tag
        )
        self.acks.open(d.tag)
        self._under_way += 1
        self._idle.clear()
        self.session.admit(d, lambda: self._spawn(d))

    def _spawn(self, d: Progress) -> None:
        self._tasks.spawn(self.driver.drive(carry(self.session, d)))

    async def _flush(self) -> None:
        """Send the settlements until the session is over and each delivery is settled: the gate waits for that."""
        while self._under_way or not self._over:
            await self._woken.wait()
            self._woken.clear()
            waiting, self._flushing = self._flushing, []
            for step, tag, multiple, items in self.acks.take():
                error = self.error or await self._send(step, tag, multiple)
                for d in items:
                    settled(self.session, d, error)
            for signal in waiting:
                signal.fire()

    async def _send(self, step: Step, tag: int, multiple: bool) -> Exception | None:
        """Settle with ack and nack only. An error means that the channel is closed."""
        if self._lost:
            return SessionLost("the channel is closed")
        try:
            if step is Step.ACK:
                await self.channel.basic_ack(tag, multiple)
            else:
                await self.channel.basic_nack(tag, multiple, requeue=step is Step.REQUEUE)
        except Exception as err:  # aiormq raises a bare one, too
            return SessionLost(repr(err))
        return None

    async def _drain(self) -> None:
        """Let handlers end, after a stop, a pause or a refusal."""
        await self._finish_by(self.c._flow.drain_timeout)
        if self._under_way and not self.error:
            self.c._settings.logger.warning(
                "handlers are cancelled: they did not end within the drain timeout, queue %s", self.c._settings.queue
            )

    async def _end(self, error: BaseException | None) -> None:
        """Cancel the handlers that still run. Settle nothing late after a lost session."""
        self.session.stop.fire()
        if error:
            self.error = SessionLost(repr(error))
            await _close(self.channel)
        self.session.live.fire()
        await self._finish_by(SETTLE_TIMEOUT)
        self.driver.close()
        if isinstance(error, Undecodable):
            await self._note(error)
        if error:
            raise error
        await self._close_channel()

    async def _finish_by(self, seconds: float) -> None:
        """Wait until every delivery is done with."""
        end = time.monotonic() + seconds
        while self._under_way and time.monotonic() < end:
            if self._lost:
                self.error = self.error or SessionLost("the channel is closed")
                self._woken.set()
                if not self.session.live.fired:
                    return  # it need not drain any more
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), TICK)

    async def _close_channel(self) -> None:
        """Close the channel so that the acks have arrived.

        With more than 30 under way, a plain close loses some of them.
        """
        if self._lost:
            raise SessionLost(
                "the session was lost while it was being stopped: "
                "the last acks may be lost, and their messages handled again"
            )
        if self.prefetch > PENDING_ACKS or self.fetched:
            await _ask(self.channel.basic_cancel(self.tag), CLOSE_TIMEOUT)
        await _ask(self.channel.close(), CLOSE_TIMEOUT)

    async def _note(self, error: Undecodable) -> None:
        """Report an undecodable message, for strikes status."""
        if not error.certain(self.prefetch):
            return
        s = self.c._settings
        s.logger.error("a message cannot be decoded, queue %s: %s", s.queue, error)
        if observer := s.observer:
            event = Event(Outcome.UNDECODABLE, s.queue, error=error)
            self.session.guard("observer", lambda: observer(event))  # type: ignore[misc]
        note = steps.undecodable(s.vhost, s.queue, str(error), self.c._counter.options)
        result = await run(self.c._counter, note, 1.0)
        if isinstance(result, StoreError):
            s.logger.warning("the store did not note the undecodable message, queue %s: %s", s.queue, result)
