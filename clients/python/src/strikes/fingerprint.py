"""Names a message by its content."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime

from .generation import unix
from .handler import Delivery

_AS_GO = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def fingerprint_of(delivery: Delivery) -> str:
    """Return the fingerprint that `strikes dead list --read` shows in place of an id.

    Messages that are equal in their id, correlation id, type and body have the same one.
    """
    p = delivery.properties
    kind = getattr(p, "type", None) or getattr(p, "message_type", None)
    head = json.dumps(
        [_text(part) for part in (delivery.id, getattr(p, "correlation_id", None), kind)],
        ensure_ascii=False,
        separators=(",", ":"),
    )
    head = re.sub("[<>&\u2028\u2029]", lambda m: _AS_GO[m[0]], head)  # as Go writes JSON
    head = re.sub("[\udc80-\udcff]", lambda m: "\\ufffd", head)  # a byte that is not UTF-8
    return "fp:" + hashlib.sha256(head.encode("utf-8", "replace") + body_of(delivery)).hexdigest()[:12]


def mark_of(delivery: Delivery) -> str:
    """Distinguish messages with the same id, for a copy from a delay queue.

    The result depends on the body and on the seconds of the timestamp.
    """
    at = getattr(delivery.properties, "timestamp", None)
    seconds = unix(at) if isinstance(at, datetime) else at if isinstance(at, int) else 0
    return hashlib.sha256(b"%d\n" % seconds + body_of(delivery)).hexdigest()[:16]


def body_of(delivery: Delivery) -> bytes:
    """Return the body of a message; empty if a program gave something else."""
    return bytes(delivery.body) if isinstance(delivery.body, (bytes, bytearray, memoryview)) else b""


def _text(part: object) -> str:
    if isinstance(part, (bytes, bytearray)):
        return bytes(part).decode("utf-8", "surrogateescape")
    return part if isinstance(part, str) else ""
