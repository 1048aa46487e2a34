"""The steps that count a message: the requests to the store and its replies. Pure functions.

Each step is one script and one round trip. It is identified by the token of its attempt, so it is safe to repeat if its
reply was lost. counter.py sends the steps.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from . import keys as k
from .errors import ReplyError, SettingError, is_number
from .generation import MAX_FENCE
from .keys import Message
from .text import MAX_MILLIS, MAX_REASON, MAX_STORED_ID, ceil_millis, cut, raw

MAX_LIMIT = 1001
"""The largest number of attempts that a message gets."""

DEFAULT_TTL = 7 * 24 * 3600.0
"""How long a record outlives its last write, in seconds."""

KEEP_DONE = 600.0
"""How long the record of a success is kept for a lost ack, in seconds."""

PAUSE_TTL = 30 * 24 * 3600.0
UNDECODABLE_TTL = 60.0
WAITING_TTL = 3.0
MAX_WAITING_REASON = 512

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ReplyCode(str, Enum):
    """What the consumer does after a step."""

    RUN = "RUN"
    WAIT = "WAIT"
    SUSPECT = "SUSPECT"
    REQUEUE = "REQUEUE"
    EXHAUSTED = "EXHAUSTED"
    ENDED = "ENDED"
    BEGUN = "BEGUN"  # call the handler
    GONE = "GONE"  # do not: the attempt is not open any more
    UNCOUNTED = "UNCOUNTED"  # of a consumer with a breaker: the failure is not counted
    SUPERSEDED = "SUPERSEDED"  # of a copy: ack it, because another one takes its place


class Mode(str, Enum):
    """Which other handlers may run in the process during an attempt. It decides what the process's death proves."""

    SHARED = "shared"
    ISOLATED = "isolated"
    UNTRACKED = "untracked"
    BESIDE_ABANDONED = "beside-abandoned"


class Cause(str, Enum):
    """Why an attempt failed, or why a message was dead-lettered. FAIL takes the first six."""

    FAILED = "failed"
    PANICKED = "panicked"
    TIMED_OUT = "timed-out"
    REJECTED = "rejected"
    NOT_COUNTED = "not-counted"  # only with a breaker
    CRASHED = "crashed"
    SKIPPED = "skipped"
    TOO_OLD = "too-old"
    NO_ID = "no-id"


_FAILURES = (Cause.FAILED, Cause.PANICKED, Cause.TIMED_OUT, Cause.REJECTED, Cause.CRASHED, Cause.NOT_COUNTED)


@dataclass(frozen=True)
class Attempt:
    """One call of a handler for a message."""

    message: Message
    token: str  # unique to it: 1 to 64 of A-Z a-z 0-9 _ -
    consumer: str = ""  # the process, shown to operators
    # Milliseconds since the process received the delivery, if this is its first attempt and it is not redelivered;
    # else -1.
    age: int = -1
    fence: int = 0  # the fence that the delivery carries; only START uses it
    # Seconds; a message that fails later than this after its first counted attempt is exhausted;
    # an override replaces it; 0: none.
    max_age: float = 0.0
    progress: str = ""  # of a process with a breaker: the result of `progress`
    delay: str = ""  # of a copy that waited in a delay queue: the result of `delay`


@dataclass(frozen=True)
class Failure:
    """A failed attempt, as FAIL counts it."""

    limit: int  # counted attempts at which the message is exhausted; 0: it is exhausted now
    wait: float = 0.0  # seconds until the next attempt may begin
    cause: Cause = Cause.FAILED
    reason: str | bytes = ""  # for people; cut to 1024 bytes
    ran: float = 0.0  # seconds that the handler ran
    # Counted attempts at which a message with this failure is exhausted; it only lowers the limit; 0: none.
    at_most: int = 0


@dataclass(frozen=True)
class Reply:
    """The store's reply to a step."""

    code: ReplyCode
    failures: int = 0
    crashes: int = 0
    limit: int = 0  # in force
    fence: int = 0
    wait: float = 0.0  # seconds until the next attempt may begin
    cause: str = ""  # EXHAUSTED: of the last counted attempt
    reason: bytes = b""
    possible_duplicate: bool = False  # this step is the first sign that two messages have this id

    @property
    def counted(self) -> int:
        return self.failures + self.crashes


def scripts() -> Traversable:
    """Return the directory of the scripts: of the built package, or else of the checkout that it is imported from."""
    built = resources.files("strikes").joinpath("scripts")
    return built if built.is_dir() else Path(__file__).parents[4] / "counter" / "scripts"


class Script:
    """A Lua script and the hash by which the server knows it."""

    def __init__(self, *parts: str) -> None:
        files = scripts()
        self.source = b"".join(files.joinpath(p + ".lua").read_bytes() for p in parts)
        self.sha1 = hashlib.sha1(self.source).hexdigest()  # Redis names scripts by it


START = Script("record", "start")
BEGUN = Script("record", "begun")
FAIL = Script("record", "fail")
END = Script("record", "end")
CONTROL = Script("control")
ASK = Script("record", "ask")


@dataclass(frozen=True)
class Options:
    """What all steps share. ttl is seconds, a minute at least; prefix must not contain braces."""

    prefix: str = k.DEFAULT_PREFIX
    ttl: float = DEFAULT_TTL

    def __post_init__(self) -> None:
        if not self.prefix or "{" in self.prefix or "}" in self.prefix:
            raise SettingError("prefix", self.prefix, "a text without { and }")
        if not is_number(self.ttl) or not self.ttl >= 60:
            raise SettingError(
                "ttl", self.ttl, "60 seconds at least, and longer than the longest time between two attempts"
            )


@dataclass(frozen=True)
class Call:
    """One script call.

    `several` says that the reply has one entry for each step. Without a script, the name is that of a command.
    """

    name: str
    script: Script | None
    keys: Sequence[bytes]
    args: Sequence[bytes | str | int]
    several: bool = True


def start(attempt: Attempt, mode: Mode, limit: int, options: Options) -> Call:
    """Ask whether an attempt at a redelivered message may run, and open it.

    The limit is 1 at least; above 1001 it counts as that.
    """
    if limit < 1:
        raise SettingError("limit", limit, "1 at least")
    args: list[bytes | str | int] = [Mode(mode).value, attempt.fence, ceil_millis(attempt.max_age)]
    return _step("start", START, attempt, min(limit, MAX_LIMIT), args + _carried(attempt), options)


def begun(attempt: Attempt, options: Options) -> Call:
    """Make an isolated attempt countable that START let run: its handler is called as soon as this is answered."""
    return _step("begun", BEGUN, attempt, 0, [], options)


def fail(attempt: Attempt, failure: Failure, options: Options) -> Call:
    """Count a failed attempt, once however often it arrives."""
    if failure.cause not in _FAILURES:
        raise SettingError("cause", failure.cause, "failed, panicked, timed-out, rejected, crashed or not-counted")
    if failure.at_most < 0:
        raise SettingError("at_most", failure.at_most, "0 at least")
    args: list[bytes | str | int] = [
        ceil_millis(failure.wait), Cause(failure.cause).value, cut(failure.reason, MAX_REASON),
        int(max(failure.ran, 0) * 1000), ceil_millis(attempt.max_age), min(failure.at_most, MAX_LIMIT),
    ]
    return _step("fail", FAIL, attempt, min(max(failure.limit, 0), MAX_LIMIT), args + _carried(attempt), options)


def delay(copy_number: int, lease: float, body: str) -> str:
    """Name a copy for START and FAIL of a consumer that moves no message.

    The name has the number of the copy and the fingerprint of the message. For `lease` seconds an open attempt at the
    message counts as running.
    """
    return f"delay {copy_number} 0 {ceil_millis(lease)} {body}"


def _carried(a: Attempt) -> list[bytes | str | int]:
    return [argument for argument in (a.progress, a.delay) if argument]


def progress(breaker: int, patience: float, began: int, ended: int, attempt: int, failing: bool) -> str:
    """Name the progress of a process with a breaker for START, FAIL and ASK.

    `began`, `ended` and `attempt` are ages in ms; -1: there is none.
    """
    return f"progress {breaker} {ceil_millis(patience)} {began} {ended} {attempt} {int(failing)}"


@dataclass(frozen=True)
class State:
    """The breaker of a queue. Times are ms by the store's clock; 0: not so."""

    permitted: bool = False  # the process may begin three attempts
    now: int = 0
    success: int = 0  # the latest known begin of a success
    doubt: int = 0  # since when the queue is in doubt
    open: int = 0  # since when it is open
    next: int = 0  # when the next permit may be given
    count: int = 0  # until when an operator wants all failures counted
    failed: int = 0  # messages that failed since the last success
    permits: int = 0  # given since the opening
    reason: str = ""  # of the last of those that failed


def ask(vhost: str | bytes, queue: str | bytes, progress: str, wants: bool, options: Options) -> Call:
    """Report the progress of a process, and ask for the breaker. With wants, ask for a permit too."""
    key = k.queue_key(vhost, queue, options.prefix) + b"index"
    return Call("ask", ASK, [key], [ceil_millis(options.ttl), progress, int(wants)], several=False)


def parse_state(reply: Any) -> State:
    """Read the reply of scripts/ask.lua."""
    if (
        not isinstance(reply, list)
        or len(reply) != 10
        or any(not isinstance(n, int) for n in reply[:9])
        or not isinstance(reply[9], bytes)
    ):
        raise ReplyError(f"got {reply!r:.80}, want 9 numbers and a text")
    return State(bool(reply[0]), *reply[1:9], reply[9].decode("utf-8", "replace"))


def end(attempt: Attempt, succeeded: bool, options: Options) -> Call:
    """Close an attempt that START let run and that is not counted."""
    return _step("end", END, attempt, 0, [int(succeeded), ceil_millis(KEEP_DONE)], options)


def _step(name: str, script: Script, a: Attempt, limit: int, args: list[bytes | str | int], options: Options) -> Call:
    _validate(a)
    m = a.message
    at = k.keys(m, options.prefix)
    common: list[bytes | str | int] = [
        ceil_millis(options.ttl), a.token, cut(m.id, MAX_STORED_ID), cut(m.generation, MAX_STORED_ID),
        cut(a.consumer, MAX_STORED_ID), limit, a.age,
    ]
    return Call(name, script, [at.index, at.override, at.tombstones, at.dead, at.record], common + args)


def _validate(a: Attempt) -> None:
    if not a.message.queue:
        raise SettingError("queue", a.message.queue, "the name of the message's queue")
    if not a.message.id:
        raise SettingError("id", a.message.id, "the id of the message, which cannot be counted without one")
    if not 0 <= a.fence <= MAX_FENCE:
        raise SettingError("fence", a.fence, f"0 to {MAX_FENCE}")
    if not a.max_age >= 0:
        raise SettingError("max_age", a.max_age, "0 at least")
    _validate_token(a.token)


def _validate_token(token: str) -> None:
    if not _TOKEN.fullmatch(token):
        raise SettingError("token", token, "1 to 64 characters of A-Z a-z 0-9 _ -")


def parse_reply(reply: Any) -> Reply:
    """Read a script's reply to one step."""
    if not isinstance(reply, list) or len(reply) not in (9, 10):  # that to a copy also has the copy number
        raise ReplyError(f"got {reply!r:.80}, want 9 or 10 values")
    numbers = [reply[i] for i in (1, 2, 3, 4, 5, 8)]
    if any(not isinstance(n, int) or n < 0 for n in numbers):
        raise ReplyError(f"got {reply!r:.160}, want counts")
    try:
        code = ReplyCode(reply[0].decode("ascii"))
    except (AttributeError, ValueError):
        raise ReplyError(f"unknown code {reply[0]!r:.80}") from None
    cause, reason = reply[6] or b"", reply[7] or b""
    return Reply(
        code, reply[1], reply[2], reply[3], reply[4], min(reply[5], MAX_MILLIS) / 1000,
        cause.decode("ascii", "replace"), reason, reply[8] == 1,
    )


@dataclass(frozen=True)
class Control:
    """What operators want of the consumers of a queue."""

    paused: bool = False
    by: bytes = b""
    at: int = 0  # ms since 1970
    why: bytes = b""
    skipped: frozenset[bytes] = frozenset()

    def skips(self, message: Message) -> bool:
        """Whether an operator skipped a message in the last minutes: its next step need not wait."""
        return bool(self.skipped) and k.member(message.id, message.generation) in self.skipped


def control(vhost: str | bytes, queue: str | bytes, reader: str, consumer: str, state: str, options: Options) -> Call:
    """Read the requests of operators, and report this process. The state is consuming, breaker, stopped or left."""
    _validate_token(reader)
    args: list[bytes | str | int] = [reader, cut(consumer, MAX_STORED_ID), state, ceil_millis(PAUSE_TTL)]
    return Call("control", CONTROL, k.control_keys(vhost, queue, options.prefix), args, several=False)


def parse_control(reply: Any) -> Control:
    """Read the reply of scripts/control.lua."""
    if not isinstance(reply, list) or len(reply) < 4 or any(not isinstance(w, bytes) for w in reply):
        raise ReplyError(f"got {reply!r:.80}, want 4 texts at least")
    at = int(reply[2]) if reply[2].isdigit() else 0
    return Control(reply[0] == b"1", reply[1], at, reply[3], frozenset(reply[4:]))


def lanes(vhost: str | bytes, queue: str | bytes, options: Options) -> Call:
    """Read how many lanes dead letters hold. Its cost does not grow with them."""
    return Call("ZCARD", None, [k.lanes_key(vhost, queue, options.prefix)], [], several=False)


def parse_lanes(reply: Any) -> int:
    """Read how many lanes are blocked."""
    if not isinstance(reply, int):
        raise ReplyError(f"ZCARD: got {reply!r:.80}, want the number of blocked lanes")
    return reply


def waiting(
    vhost: str | bytes, queue: str | bytes, reader: str, messages: int, seconds: float, why: str, options: Options
) -> Call:
    """Report the messages that wait in this process because their attempts are not counted."""
    text = b"%d %d %s" % (messages, ceil_millis(seconds), cut(why, MAX_WAITING_REASON))
    key = k.waiting_key(vhost, queue, reader, options.prefix)
    return Call("SET", None, [key], [text, "PX", ceil_millis(WAITING_TTL)], several=False)


def undecodable(vhost: str | bytes, queue: str | bytes, why: str, options: Options) -> Call:
    """Note for a minute that a message ended a session which the client cannot decode, or the broker cannot convert."""
    args: list[bytes | str | int] = [cut(why, MAX_REASON), "PX", ceil_millis(UNDECODABLE_TTL)]
    return Call("SET", None, [k.undecodable_key(vhost, queue, options.prefix)], args, several=False)


def queue_of(call: Call) -> str:
    """Return the key of a call's queue, for messages to people."""
    return raw(call.keys[0]).decode("ascii", "replace").rpartition("}:")[0] + "}"
