"""The record of a message, as scripts/record.lua describes it. Reading one is a pure function."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# As in record.lua, which takes everything else for the value of another program.
_LINE = re.compile(
    rb"(\d+) (\d+) (\d+) (\d+) (\d) (\S+) (\d+) (\d+) (\d+) (\d+) (\d+) "
    rb"(\S+) (\S+) (\S+) (\d+) (\d+) (\d+) (\d+) (\d) (\S+)"
    rb" (\d+) (\d+) (\d+) (\d+) (\d+)(?: (\d+:\d+:\d+:[A-Za-z0-9_.-]+:[A-Za-z0-9]+))?\n"
)


@dataclass
class Move:
    """The state of a message that was moved to a delay queue."""

    copy_number: int  # the highest number of a confirmed copy
    top: int  # the highest number that a copy was given
    until: int  # the end of the lease of the move under way; 0: none is
    mover: str  # the token of the attempt whose message is being moved
    body: str  # the fingerprint of the message; x if two messages have its id


@dataclass
class Record:
    """The record that the store keeps of one generation of a message.

    Times are milliseconds since 1970 by the store's clock; 0 is absent.

    Its texts come from messages and handlers: they may hold control characters and need not be UTF-8.
    """

    id: bytes = b""
    generation: bytes = b""
    consumer: bytes = b""
    notes: bytes = b""
    history: bytes = b""
    reason: bytes = b""
    state: str = ""
    failures: int = 0
    crashes: int = 0
    starts: int = 0
    fence: int = 0
    suspect: bool = False
    binds: int = 0
    due: int = 0
    wait: int = 0
    first: int = 0
    last: int = 0
    cause: str = ""
    open: str = ""
    mode: str = ""
    since: int = 0
    listed: int = 0
    limit: int = 0
    own: int = 0
    firsts: int = 0
    tokens: dict[str, str] = field(default_factory=dict)
    moved: Move | None = None  # None: the message was never moved

    @property
    def counted(self) -> int:
        return self.failures + self.crashes

    @property
    def possible_duplicate(self) -> bool:
        """Whether two messages with this id may share the count."""
        return self.firsts == 2


def parse_record(text: bytes) -> Record | None:
    """Read a record; None if the text is none."""
    line = _LINE.match(text)
    if not line:
        return None
    return _read([w.decode("ascii", "replace") for w in line.groups(b"")], text[line.end():])


def _read(w: list[str], rest: bytes) -> Record | None:
    parts = []
    for length in (int(n) for n in w[20:25]):
        if length > len(rest):
            return None
        parts.append(rest[:length])
        rest = rest[length:]
    first = int(w[9])
    message_id, generation, consumer, notes, history = parts
    return Record(
        message_id, generation, consumer, notes, history, reason=rest, state=_word(w[5]), failures=int(w[0]),
        crashes=int(w[1]), starts=int(w[2]), fence=int(w[3]), suspect=w[4] == "1", binds=int(w[6]), due=int(w[7]),
        wait=int(w[8]), first=first, last=first + int(w[10]) if first else 0, cause=_word(w[11]), open=_word(w[12]),
        mode=_word(w[13]), since=int(w[14]), listed=int(w[15]), limit=int(w[16]), own=int(w[17]), firsts=int(w[18]),
        tokens=_tokens(w[19]), moved=_move(w[25]),
    )


def _move(text: str) -> Move | None:
    if not text:
        return None
    copy_number, top, until, mover, body = text.split(":")
    return Move(int(copy_number), int(top), int(until), _word(mover), body)


def _word(word: str) -> str:
    return "" if word == "." else word


def _tokens(text: str) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in text.split(";"))
    return {token: kind for token, equals, kind in pairs if equals and len(kind) == 1}
