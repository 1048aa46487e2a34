"""Tags and steps in, runs of acks out. It knows nothing of attempts."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from .decide import Step

T = TypeVar("T")


class Acks(Generic[T]):
    """The unsettled deliveries of one channel.

    Any thread may settle. One thread opens and takes: the one that does the channel's I/O.
    """

    def __init__(self) -> None:
        self._open: dict[int, tuple[Step, T] | None] = {}  # by tag, in the order of their arrival
        # A second consumer gets deliveries. Their order is not that of the tags, so each is settled on its own.
        self.apart = False
        self._settled: deque[tuple[int, Step, T]] = deque()

    def open(self, tag: int) -> None:
        self._open[tag] = None

    def settle(self, tag: int, step: Step, item: T) -> None:
        self._settled.append((tag, step, item))

    @property
    def waiting(self) -> bool:
        """Whether something is settled and not taken."""
        return bool(self._settled)

    def take(self) -> list[tuple[Step, int, bool, list[T]]]:
        """Return the frames to send: step, tag, multiple, and the settled items. A nack is never multiple."""
        decided: list[int] = []
        while self._settled:
            tag, step, item = self._settled.popleft()
            self._open[tag] = (step, item)
            decided.append(tag)
        run = self._run()
        out: list[tuple[Step, int, bool, list[T]]] = []
        if run:
            items = [entry[1] for entry in (self._open.pop(tag) for tag in run) if entry]
            out.append((Step.ACK, run[-1], len(run) > 1, items))
        for tag in decided:
            if entry := self._open.pop(tag, None):
                out.append((entry[0], tag, False, [entry[1]]))
        return out

    def _run(self) -> list[int]:
        """Return the oldest tags without a gap that are to be acked."""
        run: list[int] = []
        if self.apart:
            return run
        for tag, entry in self._open.items():
            if not entry or entry[0] is not Step.ACK:
                break
            run.append(tag)
        return run
