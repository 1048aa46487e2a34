"""Counters take the steps on Redis: Counter blocks, AsyncCounter is for asyncio.

Both send a script by its hash. If the server does not know it (NOSCRIPT: nothing was run), they send its source with
EVAL, which the server keeps. They never send a step twice on their own account: the settler repeats steps, as it knows
for how long.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
import redis.asyncio
import redis.exceptions as rx

from . import steps
from .errors import Fault, ForeignError, ReplyError, SettingError, StoreError, fault_of, is_foreign
from .keys import DEFAULT_PREFIX
from .steps import Attempt, Call, Control, Failure, Mode, Options, Reply

CONNECT_TIMEOUT = 1.0
MOST_TIMEOUT = 1.0
"""Seconds for one reply. The settler repeats the step if the store takes longer."""


def _settings() -> dict[str, Any]:
    return {"socket_timeout": MOST_TIMEOUT, "socket_connect_timeout": CONNECT_TIMEOUT, "decode_responses": False}


def _check_client(client: Any, awaits: bool) -> None:
    """Refuse settings that change replies or hide an outage."""
    if isinstance(client, (redis.RedisCluster, redis.asyncio.RedisCluster)):  # a frozen one holds a step for seconds
        want = "a client of one server or of Sentinel: redis-py sends commands to a Cluster again, unseen"
        raise SettingError("client", type(client).__name__, want)
    if inspect.iscoroutinefunction(getattr(client, "execute_command", None)) is not awaits:
        want = "a client of redis.asyncio" if awaits else "a client of redis, not of redis.asyncio"
        raise SettingError("client", type(client).__module__, want)
    if not awaits and getattr(client, "connection", None):  # redis-py 4 gives a thread the reply to another's command
        raise SettingError("single_connection_client", True, "False: each thread needs a connection")
    pool = getattr(client, "connection_pool", None)
    kwargs = getattr(pool, "connection_kwargs", {})
    if kwargs.get("decode_responses"):
        raise SettingError("decode_responses", True, "False: ids need not be UTF-8")
    timeout = kwargs.get("socket_timeout")
    if pool is not None and not (isinstance(timeout, (int, float)) and 0 < timeout <= MOST_TIMEOUT):
        raise SettingError("socket_timeout", timeout, f"seconds, {MOST_TIMEOUT} at most")
    if kwargs.get("retry_on_timeout") or kwargs.get("retry_on_error"):
        raise SettingError("retry_on_timeout", True, "False: the consumer repeats steps itself")
    if retries := getattr(kwargs.get("retry"), "_retries", 0):  # a frozen store would hold a step for seconds
        want = "Retry(NoBackoff(), 0): the consumer repeats steps itself, and redis-py retries by default from 6.0 on"
        raise SettingError("retry", f"{retries} retries", want)


def _secrets(client: Any) -> list[str]:
    kwargs = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    return [str(kwargs[name]) for name in ("password",) if kwargs.get(name)]


def _check_url(url: str) -> None:
    if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        want = (
            "redis, rediss or unix, because this package counts in Redis only "
            "(with another store use strikes consume, with --http for example)"
        )
        raise SettingError("the scheme of the store's URL", urlsplit(url).scheme[:20], want)


class _Base:
    """The base of both counters: their options, and the meaning of replies and errors."""

    _awaits = False

    def __init__(self, client: Any, prefix: str | None, ttl: float | None) -> None:
        self.options = Options(prefix or DEFAULT_PREFIX, steps.DEFAULT_TTL if ttl is None else ttl)
        _check_client(client, self._awaits)
        self._client = client
        self._secrets = _secrets(client)

    def _error(self, call: Call, err: BaseException) -> StoreError:
        text = str(err)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        where = f"{call.name}, {steps.queue_of(call)}"
        if isinstance(err, rx.ResponseError) and is_foreign(text):
            names = ", ".join(key.decode("ascii", "replace") for key in call.keys)
            return ForeignError(
                f"{where}: another program wrote to one of {names}; "
                f"inspect each with redis-cli TYPE and remove that one with DEL: {text}"
            )
        return StoreError(_fault(err, text), f"{where}: {text}")

    def _leads_to_replica(self, error: StoreError) -> bool:
        """Report whether the server became a replica, and its idle connections can be closed.

        It keeps its connections, so only a new one can reach the master. The pools of a Sentinel and of a cluster close
        theirs by themselves. A blocking pool cannot close idle ones alone.
        """
        pools = (redis.ConnectionPool, redis.asyncio.ConnectionPool)
        refused = error.fault is Fault.READ_ONLY and "MISCONF" not in str(error)  # the latter cannot save
        return refused and type(getattr(self._client, "connection_pool", None)) in pools

    def _result(self, call: Call, reply: Any) -> Any:
        """Return the reply to one step. An error may be one element of the reply."""
        if not call.several:
            return reply
        if not isinstance(reply, list) or len(reply) != 1:
            raise ReplyError(f"{call.name}: got {reply!r:.80}, want a list of one")
        if isinstance(reply[0], Exception):
            raise self._error(call, reply[0])
        return steps.parse_reply(reply[0])


def _fault(err: BaseException, text: str) -> Fault:
    named: tuple[tuple[tuple[type, ...], Fault], ...] = (
        ((rx.AuthenticationError, rx.AuthorizationError, rx.NoPermissionError), Fault.DENIED),
        ((rx.BusyLoadingError,), Fault.LOADING),
        ((rx.ReadOnlyError,), Fault.READ_ONLY),
        ((rx.TimeoutError, TimeoutError), Fault.SLOW),
        ((rx.InvalidResponse,), Fault.OTHER_KIND),
    )
    for classes, fault in named:
        if isinstance(err, classes):
            return fault
    if isinstance(err, rx.ConnectionError):
        by_code = fault_of(text)  # a refused AUTH may end the connection
        return Fault.UNREACHABLE if by_code is Fault.OTHER else by_code
    if isinstance(err, rx.ResponseError):
        return fault_of(text)
    return Fault.UNREACHABLE if isinstance(err, OSError) else Fault.OTHER


_STORE = (rx.RedisError, OSError, TimeoutError, asyncio.TimeoutError)


def _by_source(call: Call) -> list[Any]:
    source = call.script.source if call.script else b""  # only a script's hash is refused with NOSCRIPT
    return ["EVAL", source, len(call.keys), *call.keys, *call.args]


def _by_name(call: Call) -> list[Any]:
    if not call.script:
        return [call.name, *call.keys, *call.args]
    return ["EVALSHA", call.script.sha1, len(call.keys), *call.keys, *call.args]


class Counter(_Base):
    """Counts on Redis for programs with threads. It is safe for concurrent use.

    The client must not decode replies, must have a socket_timeout of a second at most, and must not retry commands.
    From redis-py 6 on, give it retry=Retry(NoBackoff(), 0). prefix begins every key (`strikes:1` if not set). Two
    brokers that share a Redis need one each. ttl is how many seconds a record outlives its last write (7 days if not
    set).
    """

    def __init__(self, client: redis.Redis, *, prefix: str | None = None, ttl: float | None = None) -> None:
        super().__init__(client, prefix, ttl)

    @classmethod
    def from_url(cls, url: str, *, prefix: str | None = None, ttl: float | None = None) -> Counter:
        """Return a Counter with its own client for redis://, rediss:// or unix://. It does not connect yet."""
        _check_url(url)
        return cls(redis.Redis.from_url(url, **_settings()), prefix=prefix, ttl=ttl)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def run(self, call: Call) -> Any:
        """Send one call and return its reply: a Reply for a step. It raises a StoreError."""
        try:
            try:
                reply = self._client.execute_command(*_by_name(call))
            except rx.NoScriptError:
                reply = self._client.execute_command(*_by_source(call))
        except _STORE as err:
            error = self._error(call, err)
            if self._leads_to_replica(error):
                self._client.connection_pool.disconnect(inuse_connections=False)
            raise error from None
        return self._result(call, reply)

    def start(self, attempt: Attempt, mode: Mode, limit: int) -> Reply:
        """Ask whether an attempt may run, and open it.

        After an error it may be open: repeat it with the same token, or send END.

        Mode.ISOLATED only reserves the attempt: call begun before its handler.
        """
        reply: Reply = self.run(steps.start(attempt, mode, limit, self.options))
        return reply

    def begun(self, attempt: Attempt) -> Reply:
        """Make an isolated attempt countable.

        Call its handler only after BEGUN. After an error repeat it, or send END.
        """
        reply: Reply = self.run(steps.begun(attempt, self.options))
        return reply

    def fail(self, attempt: Attempt, failure: Failure) -> Reply:
        """Count a failed attempt. After an error it may or may not be counted: repeat it with the same token."""
        reply: Reply = self.run(steps.fail(attempt, failure, self.options))
        return reply

    def end(self, attempt: Attempt, succeeded: bool) -> Reply:
        """Close an attempt that is not counted. After an error repeat it with the same token."""
        reply: Reply = self.run(steps.end(attempt, succeeded, self.options))
        return reply

    def control(
        self, vhost: str | bytes, queue: str | bytes, reader: str, consumer: str, state: str = "consuming"
    ) -> Control:
        """Read the pause and the skips of a queue. After an error the last Control stands."""
        return steps.parse_control(self.run(steps.control(vhost, queue, reader, consumer, state, self.options)))


class AsyncCounter(_Base):
    """Counts on Redis for programs with asyncio. It belongs to the event loop in which it is first used.

    Its settings are those of Counter. A cancelled caller does not cancel its command:
    the reply of one command would be read as that of the next.
    """

    _awaits = True

    def __init__(self, client: redis.asyncio.Redis, *, prefix: str | None = None, ttl: float | None = None) -> None:
        super().__init__(client, prefix, ttl)

    @classmethod
    def from_url(cls, url: str, *, prefix: str | None = None, ttl: float | None = None) -> AsyncCounter:
        """Return an AsyncCounter with its own client for redis://, rediss:// or unix://. It does not connect yet."""
        _check_url(url)
        return cls(redis.asyncio.Redis.from_url(url, **_settings()), prefix=prefix, ttl=ttl)

    async def close(self) -> None:
        """Close the client's connections."""
        await getattr(self._client, "aclose", self._client.close)()  # its name from redis-py 5.0.1 on
        await self._client.connection_pool.disconnect()

    async def run(self, call: Call) -> Any:
        """Send one call and return its reply: a Reply for a step. It raises a StoreError."""
        sending = asyncio.ensure_future(self._send(call))
        # Asyncio would report the error if the caller is gone.
        sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
        return self._result(call, await asyncio.shield(sending))

    async def _send(self, call: Call) -> Any:
        try:
            try:
                return await self._client.execute_command(*_by_name(call))
            except rx.NoScriptError:
                return await self._client.execute_command(*_by_source(call))
        except _STORE as err:
            error = self._error(call, err)
            if self._leads_to_replica(error):
                await self._client.connection_pool.disconnect(inuse_connections=False)
            raise error from None

    async def start(self, attempt: Attempt, mode: Mode, limit: int) -> Reply:
        """As Counter.start."""
        reply: Reply = await self.run(steps.start(attempt, mode, limit, self.options))
        return reply

    async def begun(self, attempt: Attempt) -> Reply:
        """As Counter.begun."""
        reply: Reply = await self.run(steps.begun(attempt, self.options))
        return reply

    async def fail(self, attempt: Attempt, failure: Failure) -> Reply:
        """As Counter.fail."""
        reply: Reply = await self.run(steps.fail(attempt, failure, self.options))
        return reply

    async def end(self, attempt: Attempt, succeeded: bool) -> Reply:
        """As Counter.end."""
        reply: Reply = await self.run(steps.end(attempt, succeeded, self.options))
        return reply

    async def control(
        self, vhost: str | bytes, queue: str | bytes, reader: str, consumer: str, state: str = "consuming"
    ) -> Control:
        """As Counter.control."""
        return steps.parse_control(await self.run(steps.control(vhost, queue, reader, consumer, state, self.options)))
