"""The keys of a record and of its queue, as scripts/record.lua describes them. Pure functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from .text import raw

DEFAULT_PREFIX = "strikes:1"
"""Begins every key. Its number is the version of the record's layout."""

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")


@dataclass(frozen=True)
class Message:
    """What is counted: one generation of one message in one queue."""

    queue: str | bytes
    id: str | bytes
    generation: str | bytes = ""
    vhost: str | bytes = "/"


@dataclass(frozen=True)
class Keys:
    """The keys of one record and of its queue."""

    index: bytes
    override: bytes
    tombstones: bytes
    dead: bytes
    record: bytes


def encode(name: str | bytes) -> bytes:
    """Percent-encode all bytes of a name except A-Z a-z 0-9 - _ . ~ with upper-case digits."""
    return b"".join(bytes((b,)) if b in _PLAIN else b"%%%02X" % b for b in raw(name))


def queue_key(vhost: str | bytes, queue: str | bytes, prefix: str = DEFAULT_PREFIX) -> bytes:
    """Return the prefix of every key of a queue. It has the hash tag of a Cluster."""
    return raw(prefix) + b":{" + encode(vhost) + b"/" + encode(queue) + b"}:"


def hash_id(message_id: str | bytes) -> bytes:
    return hashlib.sha256(raw(message_id)).digest()[:16].hex().encode()


def hash_generation(generation: str | bytes) -> bytes:
    data = raw(generation)
    return hashlib.sha256(data).digest()[:8].hex().encode() if data else b"0"


def member(message_id: str | bytes, generation: str | bytes) -> bytes:
    """Return a record's name in the index and among the announced skips."""
    return hash_id(message_id) + b":" + hash_generation(generation)


def keys(message: Message, prefix: str = DEFAULT_PREFIX) -> Keys:
    """Return the keys of a message's record."""
    q = queue_key(message.vhost, message.queue, prefix)
    return Keys(
        q + b"index", q + b"limit", q + b"tombstones", q + b"dead", q + b"r:" + member(message.id, message.generation)
    )


def control_keys(vhost: str | bytes, queue: str | bytes, prefix: str = DEFAULT_PREFIX) -> list[bytes]:
    """Return the keys of scripts/control.lua: pause, consumers, skips."""
    q = queue_key(vhost, queue, prefix)
    return [q + b"pause", q + b"consumers", q + b"skips"]


def lanes_key(vhost: str | bytes, queue: str | bytes, prefix: str = DEFAULT_PREFIX) -> bytes:
    """Return the key of the sorted set of a queue's blocked lanes."""
    return queue_key(vhost, queue, prefix) + b"lanes"


def waiting_key(vhost: str | bytes, queue: str | bytes, reader: str, prefix: str = DEFAULT_PREFIX) -> bytes:
    """Return the key of a process's report of messages that wait because their attempts are not counted."""
    return queue_key(vhost, queue, prefix) + b"waiting:" + reader.encode()


def undecodable_key(vhost: str | bytes, queue: str | bytes, prefix: str = DEFAULT_PREFIX) -> bytes:
    return queue_key(vhost, queue, prefix) + b"undecodable"
