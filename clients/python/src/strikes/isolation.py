"""The isolation of suspects. All consumers of the process share it, because a message kills all of it."""

from __future__ import annotations

import base64
import itertools
import os
import secrets
import socket
import threading

from .signals import Signal, Tickets

EVERYTHING = 2**62
"""The weight of an isolated attempt."""


class Gate:
    """Is shut while the isolation lock is free and an isolated attempt is undecided. No attempt is STARTed then."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed: Signal | None = None

    def shut(self) -> None:
        with self._lock:
            self._closed = self._closed or Signal()

    def open(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, None
        if closed:
            closed.fire()

    def opened(self) -> Signal | None:
        """Return None if the gate is open, else the signal that fires when it opens."""
        return self._closed


class Isolation:
    """The isolation lock and gate of a process.

    The lock has one unit for each handler that runs. An isolated attempt holds all, from its START to the step that
    closes it. `undecided` is held for the one isolated attempt that may be open in the store, until the store has
    answered the step that closes it. `abandoned` is the number of handlers that passed their deadline and still run:
    while there is one, nothing is isolated.
    """

    def __init__(self) -> None:
        self.lock = Tickets(EVERYTHING)
        self.undecided = Tickets(1)
        self.gate = Gate()
        self._count = threading.Lock()
        self.abandoned = 0

    def abandon(self, change: int) -> None:
        """Note that a handler was abandoned (1) or returned after all (-1)."""
        with self._count:
            self.abandoned += change


class Process:
    """What is unique to this process."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, as after a fork: a child's attempts and its death are its own."""
        self.isolation = Isolation()
        # 48 random bits make two processes alike once in 10^14.
        # It is short, because a record keeps it with every failed attempt.
        self._name = base64.urlsafe_b64encode(secrets.token_bytes(6)).decode("ascii").rstrip("=")
        self._numbers = itertools.count(1)
        self.name = f"{socket.gethostname()}, pid {os.getpid()}"

    def token(self) -> str:
        """Return a name for an attempt that no other attempt in any process has."""
        return f"{self._name}-{next(self._numbers):x}"


PROCESS = Process()
os.register_at_fork(after_in_child=PROCESS.renew)
