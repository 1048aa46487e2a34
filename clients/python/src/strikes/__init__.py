"""Retries a RabbitMQ message at the head of its queue exactly N times, then dead-letters it.

All consumers of a queue share one count of failed attempts in Redis, whatever their language. strikes.pika has a
Consumer for programs with threads, strikes.aio_pika one for asyncio.
"""

from .counter import AsyncCounter, Counter
from .decide import Isolation, Retry
from .errors import Fault, ForeignError, ReplyError, SettingError, StoreError, StrikesError
from .handler import Attempt, Delivery, NotCounted, Reject, RetryAfter, RetryAtMost
from .session import Event, Outcome, Settings
from .steps import Cause

__all__ = [
    "AsyncCounter", "Attempt", "Cause", "Counter", "Delivery", "Event", "Fault", "ForeignError", "Isolation",
    "NotCounted", "Outcome", "Reject", "ReplyError", "Retry", "RetryAfter", "RetryAtMost", "SettingError", "Settings",
    "StoreError", "StrikesError",
]
