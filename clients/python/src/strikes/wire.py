"""One pika connection that one thread drives.

Requests wait for their replies; deliveries come as callbacks while it polls.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
from pika.adapters.select_connection import IOLoop, SelectConnection

from .consuming import CLOSE_TIMEOUT, OPEN_TIMEOUT, UNCONVERTED, SessionLost, Unreadable
from .queue import MOST_PROBES, PROBE, Declared, refuse_partitions


_NETWORK = ("Connection", "BrokenPipe", "Timeout", "timeout", "SSL", "gaierror", "OSError", "EOF")
_DECODING = re.compile(r"Stream connection lost: (\w+)\((\d*)")


def is_undecodable(lost: BaseException) -> bool:
    """Whether a connection was lost because pika could not decode a frame: it wraps the exception of its decoder.

    A time that the platform cannot hold is an OSError with the number EOVERFLOW.
    """
    found = _DECODING.search(str(lost))
    if not isinstance(lost, pika.exceptions.StreamLostError) or not found:
        return False
    name, number = found.groups()
    return not name.startswith(_NETWORK) or name == "OSError" and number == str(errno.EOVERFLOW)


def is_unconverted(lost: BaseException | None) -> bool:
    """Whether the broker closed the connection as it does when it cannot convert a message to AMQP 0.9.1."""
    return isinstance(lost, pika.exceptions.ConnectionClosedByBroker) and lost.reply_code == UNCONVERTED


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence pika about refusals that are asked for. Others keep theirs."""
    logger = logging.getLogger("pika.channel")

    def keep(record: logging.LogRecord) -> bool:
        return "inequivalent arg" not in record.getMessage()

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


class ChannelClosed(SessionLost):
    """The broker closed a channel."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"the broker closed the channel: {code} {text}")
        self.code, self.text = code, text


class Wire:
    """A connection. Only `wake` may be called by other threads."""

    def __init__(self, parameters: pika.connection.Parameters, stopped: Callable[[], bool] = lambda: False) -> None:
        self.lost: BaseException | None = None  # why the connection is closed
        self._stopped = stopped
        self._opened = False
        self._closed: dict[int, ChannelClosed] = {}
        self._loop = IOLoop()
        self._connection = SelectConnection(
            parameters, on_open_callback=self._on_open, on_open_error_callback=self._on_lost,
            on_close_callback=self._on_lost, custom_ioloop=self._loop,
        )
        self._loop.activate_poller()
        try:
            self._until(lambda: self._opened, OPEN_TIMEOUT, "opening the connection")
        except BaseException:
            self.close()
            raise

    def _on_open(self, _connection: Any) -> None:
        self._opened = True

    def _on_lost(self, _connection: Any, error: Any) -> None:
        self.lost = error if isinstance(error, BaseException) else SessionLost(str(error))

    @property
    def version(self) -> Any:
        return (self._connection.server_properties or {}).get("version")

    def poll(self, seconds: float) -> None:
        """Do I/O until something happens, for so long at most."""
        if self.lost:
            time.sleep(min(seconds, 0.01))
            return
        timer = self._loop.call_later(seconds, lambda: None)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(timer)

    def wake(self, callback: Callable[[], None]) -> None:
        """Have the thread that polls call a function. Any thread may call it."""
        self._loop.add_callback_threadsafe(callback)

    def channel(self) -> Any:
        """Open a channel."""
        opened: list[Any] = []
        channel = self._connection.channel(on_open_callback=opened.append)
        channel.add_on_close_callback(self._on_channel_closed)
        self._until(lambda: bool(opened), OPEN_TIMEOUT, "opening a channel", channel)
        return channel

    def _on_channel_closed(self, channel: Any, reason: Any) -> None:
        self._closed[channel.channel_number] = ChannelClosed(
            getattr(reason, "reply_code", 0), str(getattr(reason, "reply_text", reason))
        )

    def closed(self, channel: Any) -> ChannelClosed | None:
        """Return why a channel is closed, None if it is open."""
        if channel.is_open:
            return None
        return self._closed.get(channel.channel_number) or ChannelClosed(0, "it is not open")

    def ask(
        self, channel: Any, what: str, begin: Callable[[Callable[[Any], None]], Any], seconds: float = OPEN_TIMEOUT
    ) -> Any:
        """Send a request and wait for its reply."""
        replies: list[Any] = []
        begin(replies.append)
        self._until(lambda: bool(replies), seconds, what, channel)
        return replies[0]

    def exists(self, kind: str, name: str) -> bool:
        """Whether a queue or an exchange is known to exist."""
        channel = self.channel()
        try:
            declare = channel.queue_declare if kind == "queue" else channel.exchange_declare
            self.ask(channel, f"looking for the {kind}", lambda reply: declare(name, passive=True, callback=reply))
        except ChannelClosed:
            return False
        channel.close()
        return True

    def refuse_partitions(self, queue: str, exists: bool) -> None:
        """Refuse a queue with partitions."""
        asks = refuse_partitions(queue, exists)
        with contextlib.suppress(StopIteration):
            asked = next(asks)
            while True:
                asked = asks.send(self.exists(*asked))

    def declared(self, queue: str, vhost: str, unread: str) -> Declared:
        """Learn how a queue was declared from the refusals of declarations that differ, unless unread says why not."""
        d = Declared(queue, vhost, unread=unread)
        if d.unread:
            return d
        with _without_warnings():
            return self._learn(d)

    def _learn(self, d: Declared) -> Declared:
        for _ in range(MOST_PROBES):
            channel = self.channel()
            try:
                self.ask(
                    channel,
                    "redeclaring the queue",
                    lambda reply, ch=channel: ch.queue_declare(  # type: ignore[misc]
                        d.queue,
                        durable=d.durable,
                        auto_delete=d.auto_delete,
                        arguments={**d.args, **PROBE},
                        callback=reply,
                    ),
                )
            except ChannelClosed as refusal:
                if d.learn(refusal.code, refusal.text):
                    continue
                return d
            except pika.exceptions.ConnectionClosedByBroker as lost:
                if is_unconverted(lost):
                    raise Unreadable from lost
                raise
            channel.close()
            return d
        d.unread = f"the broker still refuses a redeclaration after {MOST_PROBES} attempts"
        return d

    def _until(self, done: Callable[[], bool], seconds: float, what: str, channel: Any = None) -> None:
        end = time.monotonic() + seconds
        while not done():
            if self.lost:
                raise self.lost
            if channel is not None and channel.is_closed:
                raise self.closed(channel) or ChannelClosed(0, "closed")
            if self._stopped() and seconds > CLOSE_TIMEOUT:  # requests of the stop have CLOSE_TIMEOUT
                end = min(end, time.monotonic() + 1)
            if time.monotonic() > end:
                raise SessionLost(f"{what}: the broker did not answer")
            self.poll(0.1)

    def close(self) -> None:
        """Close the connection, as far as the broker answers."""
        try:
            if not self.lost and self._opened:
                self._connection.close()
            end = time.monotonic() + CLOSE_TIMEOUT
            while not self.lost and self._opened and time.monotonic() < end:
                self.poll(0.1)
        except pika.exceptions.AMQPError:
            pass
        self._loop.deactivate_poller()
        self._loop.close()
