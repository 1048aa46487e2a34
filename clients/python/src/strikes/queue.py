"""The facts of AMQP about a queue, and whether failed messages would be lost or lose their position. Pure functions.

A redeclaration with another argument is refused, and the refusal names the argument and its value. AMQP sees no
policies and no bindings: `strikes doctor` checks these with the management API.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from .errors import StrikesError

PROBE = {"x-max-age": -1000}
"""Keeps a declaration from ever creating a queue.

The broker refuses it for a new queue that is no stream, and ignores it if the queue exists.
"""

MOST_PROBES = 32
MOST_BYTES = 255
"""The longest text of a refusal.

The broker cuts a longer one, so that it ends in "...". RabbitMQ 4 closes the connection with 541 instead if the cut is
in a character that is not ASCII.
"""

_AROUND = len(
    "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-routing-key' for queue '' in vhost '': "
    "received none but current is the value '.dlq' of type 'longstr'"
)
_CUT = re.compile(r'\.\.\."?$')  # RabbitMQ 3 may cut within a character: then pika shows the bytes as b"…"
MOST_PARTITIONS = 256
MARGIN = 3


class QueueRefused(StrikesError):
    """Messages of the queue would be lost or lose their position. The text says what to change."""


def refuse_partitions(queue: str, exists: bool) -> Generator[tuple[str, str], bool, None]:
    """Refuse a queue that `strikes declare --partitions` made, and a partition of one.

    It yields a kind and a name to ask whether such a queue or exchange exists.
    """
    name, _, number = queue.rpartition(".")
    name = queue if not exists else name if number.isascii() and number.isdigit() else ""
    if not name or not (yield "exchange", name):
        return
    n = 0
    while n < MOST_PARTITIONS and (yield "queue", f"{name}.{n}"):
        n += 1
    if n and not (exists and int(number) >= n) and (yield "exchange", f"{name}.hash{n}"):
        raise QueueRefused(
            f"queue {name!r} has {n} partitions, and this client keeps no order: "
            f"consume them with strikes consume {name} --ordered --partitions {n}, "
            "which runs a command for each message, or posts it to your program (push mode, --http URL)"
        )


def expressible(vhost: str, queue: str) -> bool:
    """Whether the broker can send its refusals for this queue: the names are ASCII, or the text fits in 255 bytes."""
    names = vhost + queue + queue
    return names.isascii() or _AROUND + len(names.encode("utf-8", "surrogateescape")) <= MOST_BYTES


def _guesses(queue: str) -> dict[str, list[Any]]:
    """Return the values to try if the broker names an argument and cuts its value. It refuses a wrong one."""
    return {
        "x-queue-type": ["quorum", "classic", "stream"],
        "x-dead-letter-exchange": [f"{queue}.dlx", ""],
        "x-dead-letter-routing-key": [f"{queue}.dlq", queue],
        "x-delivery-limit": [1000],
        "x-overflow": ["reject-publish", "drop-head", "reject-publish-dlx"],
        "x-dead-letter-strategy": ["at-least-once", "at-most-once"],
        "x-single-active-consumer": [True, False],
    }


@dataclass
class Declared:
    """A declaration that comes nearer to the queue's own with each refusal."""

    queue: str
    vhost: str = "/"
    durable: bool = True
    auto_delete: bool = False
    args: dict[str, Any] = field(default_factory=dict)
    unread: str = ""  # why the rest is not known

    def __post_init__(self) -> None:
        self._guesses = _guesses(self.queue)
        if not self.unread and not expressible(self.vhost, self.queue):
            self.unread = "its name is not ASCII and too long for an answer over AMQP"

    def learn(self, code: int, text: str) -> bool:
        """Take a refusal; False if nothing more can be learned."""
        if code == 403 and "reserved prefix" in text:
            self.unread = "AMQP does not answer for names that begin with amq."
            return False
        if code != 406:
            self.unread = "the user lacks the configure permission on it" if code == 403 else text
            return False
        name, value, understood = parse_difference(text, self.vhost, self.queue)
        if name == "durable":
            self.durable = not self.durable
        elif name == "auto_delete":
            self.auto_delete = not self.auto_delete
        elif name and _CUT.search(text):
            return self._guess(name)
        elif not understood or name in self.args and self.args[name] == value:
            self.unread = f"the broker's refusal of a redeclaration is not understood: {text}"
            return False
        else:
            self.args[name] = "classic" if value is None and name == "x-queue-type" else value
        return True

    def _guess(self, name: str) -> bool:
        """Try another value of an argument; False if none is left."""
        if left := self._guesses.get(name):
            self.args[name] = left.pop(0)
            return True
        self.args.pop(name, None)
        self.unread = f"the broker's answer about {name} was cut at {MOST_BYTES} bytes"
        return False


def parse_difference(text: str, vhost: str, queue: str) -> tuple[str, Any, bool]:
    """Read the text of a 406 reply to a declaration.

    Return the argument, its value (None: not set), and whether the text was understood.
    """
    _, found, rest = text.partition("inequivalent arg '")
    name, _, rest = rest.partition("'")
    if found and _CUT.search(text):
        return name, None, False
    if not found or not rest.startswith(f" for queue '{queue}' in vhost '{vhost}': received "):
        return "", None, False
    _, found, current = rest.partition(" but current is ")
    if not found:
        return name, None, False
    if current == "none":
        return name, None, True
    if not current.startswith("the value '"):
        return name, current[1:-1], current[:1] == "'" == current[-1:]
    value, found, kind = current.removeprefix("the value '").rpartition("' of type '")
    return _typed(name, value, kind.removesuffix("'")) if found else (name, None, False)


def _typed(name: str, value: str, kind: str) -> tuple[str, Any, bool]:
    if kind == "longstr":
        return name, value, True
    if kind == "bool":
        return name, value == "true", True
    try:
        return name, int(value), True
    except ValueError:
        return name, None, False


def parse_version(text: Any) -> tuple[int, int]:
    """Return major and minor of the broker's version; (0, 0) if it is not known."""
    parts = str(text).split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return 0, 0


def judge(
    d: Declared, version: tuple[int, int], max_retries: int, allow_drop: bool = False, dead_letter_policy: bool = False
) -> list[str]:
    """Return warnings, or raise QueueRefused."""
    q = f"queue {d.queue!r}"
    if d.unread and "x-delivery-limit" not in d.args:
        return [f"{q}: how it was declared is not known ({d.unread}): run strikes doctor {d.queue}"]
    kind, limit = d.args.get("x-queue-type") or "classic", d.args.get("x-delivery-limit")
    _refuse_position(q, kind, limit, version)
    if d.unread:
        return [f"{q}: not all of its arguments are known ({d.unread}): run strikes doctor {d.queue}"]
    if "x-dead-letter-exchange" not in d.args and not allow_drop and not dead_letter_policy:
        raise QueueRefused(
            f"{q} has no argument x-dead-letter-exchange: messages that fail too often would be lost. "
            f"Declare it again (strikes declare "
            f"{d.queue}), or set dead_letter_policy=True if a policy sets the exchange, or allow_drop=True to lose them"
        )
    returns = 20 if limit is None else limit  # the default of RabbitMQ 4
    # A message that kills its process each time is delivered MARGIN times more.
    least = max_retries + MARGIN + 1
    if kind == "quorum" and version != (0, 0) and 0 <= returns < least:
        raise QueueRefused(
            f"{q}: the delivery limit {returns} is too low for {max_retries} retries, which need {least}: "
            f"delete it once it is empty, and declare it with x-delivery-limit {max(1000, least)}"
        )
    return []


def _refuse_position(q: str, kind: str, limit: Any, version: tuple[int, int]) -> None:
    if kind not in ("classic", "quorum"):
        raise QueueRefused(f"{q} is a {kind}: a message cannot be requeued to its position")
    if kind == "classic" or version == (0, 0):
        return
    if limit is None and version < (4, 0):
        raise QueueRefused(
            f"{q} is a quorum queue without a delivery limit: RabbitMQ before 4.0 requeues to the tail. "
            "Set x-delivery-limit=1000"
        )
    if limit is not None and limit < 0 and version < (4, 3):
        raise QueueRefused(
            f"{q} has the delivery limit {limit}: this RabbitMQ discards a returned message or moves it to the tail. "
            "Set 1000"
        )
