"""The signals for which deliveries wait. Threads and event loops may wait for the same one.

The locks are reentrant: the garbage of a closed event loop may be collected within any line, and gives its units back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Signal:
    """Fires once. Callbacks are called by the thread that fires it, and must return immediately."""

    __slots__ = ("_callbacks", "_lock", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []

    def fire(self) -> None:
        with self._lock:
            if self.fired:
                return
            self.fired = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def add(self, callback: Callable[[], None]) -> None:
        """Have a callback called when the signal fires, now if it has."""
        with self._lock:
            if not self.fired:
                self._callbacks.append(callback)
                return
        callback()

    def remove(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class Ticket(Signal):
    """A place in the line of Tickets. It fires once its units are taken."""

    __slots__ = ("granted", "units")

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = units
        self.granted = False


class Tickets:
    """A semaphore with weights. It is first come, first served, so that no weight starves."""

    def __init__(self, units: int) -> None:
        self._free = units
        self._lock = threading.RLock()
        self._line: deque[Ticket] = deque()

    def try_take(self, units: int = 1) -> bool:
        """Take units if that takes no wait."""
        with self._lock:
            if self._line or self._free < units:
                return False
            self._free -= units
            return True

    def ask(self, units: int = 1) -> Ticket:
        """Return a ticket that fires once its units are taken. Give them back, or withdraw it."""
        ticket = Ticket(units)
        with self._lock:
            self._line.append(ticket)
            granted = self._grant()
        for t in granted:
            t.fire()
        return ticket

    def claim(self, ticket: Ticket) -> bool:
        """Report whether the ticket's units are taken. If not, the ticket leaves the line."""
        with self._lock:
            if ticket.granted:
                return True
            self._line.remove(ticket)
            granted = self._grant()
        for t in granted:
            t.fire()
        return False

    def give(self, units: int = 1) -> None:
        """Give units back."""
        with self._lock:
            self._free += units
            granted = self._grant()
        for t in granted:
            t.fire()

    @property
    def idle(self) -> bool:
        return self._free > 0

    def _grant(self) -> list[Ticket]:
        granted = []
        while self._line and self._line[0].units <= self._free:
            ticket = self._line[0]
            self._free -= ticket.units
            ticket.granted = True
            self._line.popleft()
            granted.append(ticket)
        return granted
