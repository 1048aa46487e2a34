"""Waits, in seconds."""

from __future__ import annotations

import random

draw = random.random
"""Replaced where a schedule is to be repeated exactly."""


def doubled(first: float, most: float, n: int) -> float:
    """Return first, doubled n-1 times, most at most."""
    while n > 1 and first < most:
        first *= 2
        n -= 1
    return min(first, most)


def jitter(seconds: float) -> float:
    """Take off a random part of up to a half, so that messages which failed together do not come back together."""
    return seconds - draw() * seconds / 2


def default_backoff(failed: int) -> float:
    """Double from 0.1 s with each failed attempt up to 30 s, with jitter."""
    return jitter(doubled(0.1, 30.0, failed))


def store_backoff(times: int) -> float:
    """The wait before a step is sent again to a store that did not take it."""
    return jitter(doubled(0.05, 2.0, times))
