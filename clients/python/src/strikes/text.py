"""Bytes and text: ids and names are bytes on the wire, and need not be UTF-8."""

from __future__ import annotations

import math
from typing import Any

MAX_REASON = 1024
"""Bytes of a failure's reason that a record keeps."""

MAX_STORED_ID = 512
"""Bytes of an id, a generation or a consumer that a record keeps for people."""

MAX_MILLIS = (2**63 - 1) // 10**6
"""The longest wait, in milliseconds: the largest Go time.Duration."""


def raw(value: str | bytes) -> bytes:
    """Return the bytes of a name or an id. A client may have decoded it with surrogateescape."""
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogateescape")


def id_of(value: Any) -> str | bytes:
    """Return a message's id, as a program or a client gave it.

    It raises a TypeError or ValueError if it cannot be one.
    """
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"an id must be str, bytes or int, got {type(value).__name__}")
    raw(value)
    return value


def cut(value: str | bytes, most: int) -> bytes:
    """Return at most that many bytes, without splitting a UTF-8 character.

    A character without UTF-8 becomes a question mark.
    """
    try:
        data = raw(value)
    except UnicodeEncodeError:  # an exception's text may hold any surrogate
        data = str(value).encode("utf-8", "replace")
    if len(data) <= most:
        return data
    for at in range(most, max(most - 4, -1), -1):  # a character has four bytes at most
        if data[at] & 0xC0 != 0x80:
            return data[:at]
    return data[:most]  # it is no UTF-8


def ceil_millis(seconds: float) -> int:
    """Round up to milliseconds, so that a stored wait is never shorter than the requested one."""
    if math.isnan(seconds) or seconds <= 0:
        return 0
    if seconds >= MAX_MILLIS / 1000:
        return MAX_MILLIS
    return math.ceil(round(seconds * 1000, 6))  # 0.1 + 0.2 is no microsecond more than 0.3
