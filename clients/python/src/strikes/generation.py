"""The headers of a message: its generation, the fence that it carries, and the number of a copy.

Any publisher can send these headers, so whatever is malformed is ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .text import raw

GENERATION_HEADER = "x-strikes-generation"
"""Begins a new generation of a message if its value changes. `strikes dead replay` sets it."""

FENCE_HEADER = "x-strikes-fence"
"""The fence of a replayed message's first delivery, an integer. `strikes dead replay` sets it."""

COPY_HEADER = "x-strikes-copy"
"""The number of a copy that waited in a delay queue, an integer from 1. Consumers in Go set it."""

COPY_GENERATION_HEADER = "x-strikes-copy-generation"
"""The generation of such a copy, if its other headers do not tell it."""

FOR_HEADER = "x-strikes-for"
"""Names the message that the headers of strikes were written for."""

_OURS = (GENERATION_HEADER, FENCE_HEADER, "x-strikes-position", COPY_HEADER, COPY_GENERATION_HEADER, "x-strikes-replay")

MAX_COPY_NUMBER = (1 << 31) - 1
"""The largest number of a copy."""

MAX_FENCE = 1 << 52
"""The largest fence that a delivery can carry, in microseconds since 1970."""


@dataclass(frozen=True)
class Death:
    """One entry of the x-death header."""

    queue: bytes
    reason: bytes
    count: int
    time: datetime | None


def text_of(value: Any) -> bytes | None:
    """Return a header's string as bytes; None if it is no string.

    A client gives bytes for a string that is not UTF-8. pika gives bytes for a byte array too:
    one that is UTF-8 was no string.
    """
    if isinstance(value, str):
        return raw(value)
    if isinstance(value, bytes):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    return None


def integer(value: Any) -> int:
    """Return a header's integer, up to 2^53 - 1 either way; 0 if it is none. A float without a fraction is one.

    pika reads negative integers of 64 bits as unsigned. It reads a float as an int without its fraction. Its ints of 64
    bits are of a subclass whose repr is "5L", and redis-py would send that.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    if 2**63 <= value < 2**64:
        value -= 2**64
    return int(value) if abs(value) < 2**53 else 0


def deaths(headers: Mapping[Any, Any] | None) -> list[Death]:
    """Read the x-death header, newest first."""
    entries = (headers or {}).get("x-death")
    found = []
    for entry in entries if isinstance(entries, (list, tuple)) else ():
        if not isinstance(entry, Mapping):
            continue
        queue, at = text_of(entry.get("queue")), entry.get("time")
        if queue:
            time = at if isinstance(at, datetime) else None
            found.append(Death(queue, text_of(entry.get("reason")) or b"", integer(entry.get("count")), time))
    return found


def newest_death(headers: Mapping[Any, Any] | None, queue: str | bytes) -> Death | None:
    """Return the newest death in this queue by a consumer.

    One without a time is not the broker's and does not count.
    """
    for death in deaths(headers):
        if death.queue == raw(queue) and death.reason in (b"rejected", b"delivery_limit"):
            return death if death.time else None
    return None


def unix(time: datetime) -> int:
    """Return seconds since 1970. AMQP clients give UTC, some without saying so."""
    aware = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    return int((aware - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() // 1)


class Headers:
    """The headers of one message that was received from a queue.

    Programs copy the headers of a message that they received to the next one that they publish. Those of strikes count
    only if they were written for this message. `message_id` is the property as it was transported, not the result of a
    key function.
    """

    def __init__(
        self, headers: Mapping[Any, Any] | None, queue: str | bytes, message_id: str | bytes = b"", body: bytes = b"",
    ) -> None:
        self._headers, self._queue = headers or {}, queue
        self.foreign = False  # there are headers of strikes, and they count as absent
        self._own = self._here = False  # they count; they were written for this very queue
        if not self._headers or not any(name in self._headers for name in _OURS):
            return
        written = text_of(self._headers.get(FOR_HEADER))
        if written:
            begun = text_of(self._headers.get(GENERATION_HEADER)) or b""
            self._here = written == name_for(queue, message_id, begun, body)
            self._own = self._here or written == name_for(b"", message_id, begun, body)
        self.foreign = not self._own

    @property
    def copy_number(self) -> int:
        """The number of a copy; 0 if the message is none."""
        number = integer(self._headers.get(COPY_HEADER)) if self._here else 0
        return number if 0 < number <= MAX_COPY_NUMBER else 0

    @property
    def generation(self) -> bytes:
        """The generation's name: the message's newest death in the queue, then its generation header, if it has them.

        RabbitMQ 4.x keeps the count of a death at 1 and changes its time, 3.10 the other way round: the name has both.
        """
        parts = []
        if death := newest_death(self._headers, self._queue):
            assert death.time
            parts.append(b"%d@%d" % (death.count, unix(death.time)))
        if self.copy_number and (carried := text_of(self._headers.get(COPY_GENERATION_HEADER))):
            parts.append(carried)
        elif self._own and (value := text_of(self._headers.get(GENERATION_HEADER))):
            parts.append(b"header:" + value)
        return b" ".join(parts)

    @property
    def fence(self) -> int:
        """The fence that the message carries; 0 if it carries none.

        It is that of the last replay, or the end of the second in which it died last, in microseconds since 1970.
        """
        fence = integer(self._headers.get(FENCE_HEADER)) if self._own else 0
        if not 0 <= fence <= MAX_FENCE:
            fence = 0
        if death := newest_death(self._headers, self._queue):
            assert death.time
            end = (unix(death.time) + 1) * 1_000_000
            if end <= MAX_FENCE:
                fence = max(fence, end)
        return fence


def name_for(queue: str | bytes, message_id: str | bytes, begun: str | bytes, body: bytes) -> bytes:
    """Return the name of a message in x-strikes-for.

    `begun` is its generation header. The body counts only without an id.
    """
    parts = b"".join(b"%d:%s" % (len(part), part) for part in (raw(queue), raw(begun), raw(message_id)))
    return hashlib.sha256(parts + (b"" if message_id else body)).hexdigest()[:32].encode()
