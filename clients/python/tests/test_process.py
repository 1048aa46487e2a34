"""The objects that are unique to a process, and those that its threads share."""

from __future__ import annotations

import os
import threading

import pytest

from strikes.acks import Acks
from strikes.blocking import THREADS, drive_late
from strikes.decide import Step
from strikes.isolation import EVERYTHING, PROCESS, Gate
from strikes.late import Late
from strikes.session import Send
from strikes.signals import Signal, Tickets
from strikes.steps import Reply, ReplyCode


def test_a_fork_is_a_process_of_its_own():
    THREADS.submit(lambda: None)
    mine = {PROCESS.token() for _ in range(100)}
    PROCESS.isolation.gate.shut()
    r, w = os.pipe()
    if not (child := os.fork()):
        ran = threading.Event()
        THREADS.submit(ran.set)
        line = f"{PROCESS.token()} {PROCESS.isolation.gate.opened() is None} {ran.wait(60)} {PROCESS.name}"
        os.write(w, line.encode())
        os._exit(0)
    os.waitpid(child, 0)
    PROCESS.isolation.gate.open()
    token, opened, ran, name = os.read(r, 1000).decode().split(" ", 3)
    assert len(mine) == 100 and token not in mine and token.split("-")[0] not in {t.split("-")[0] for t in mine}
    assert (opened, ran) == ("True", "True") and name.endswith(f"pid {child}")


def test_tickets_are_first_come_first_served():
    lock = Tickets(EVERYTHING)
    assert lock.try_take(1)
    everything, later = lock.ask(EVERYTHING), lock.ask(1)
    assert not everything.fired and not later.fired and not lock.try_take(1)
    lock.give(1)
    assert everything.fired and not later.fired and lock.claim(everything)
    lock.give(EVERYTHING)
    assert later.fired
    lock.give(1)
    assert lock.try_take(1)
    waiting, behind = lock.ask(EVERYTHING), lock.ask(1)
    assert not lock.claim(waiting) and behind.fired, "a ticket that is withdrawn lets those behind it pass"


def test_signals_and_the_gate():
    calls = []
    signal, gate = Signal(), Gate()
    signal.add(lambda: calls.append(1))
    forgotten = lambda: calls.append(2)
    signal.add(forgotten)
    signal.remove(forgotten)
    signal.fire()
    signal.fire()
    signal.add(lambda: calls.append(3))
    assert calls == [1, 3]
    assert gate.opened() is None
    gate.shut()
    shut = gate.opened()
    gate.shut()
    assert gate.opened() is shut
    gate.open()
    assert shut.fired and gate.opened() is None


@pytest.mark.parametrize(
    ("settle", "want"),
    [
        ([(1, "A")], [("A", 1, False)]), ([(2, "A")], [("A", 2, False)]), ([(2, "A"), (1, "A")], [("A", 2, True)]),
        ([(1, "A"), (2, "R"), (3, "A")], [("A", 1, False), ("R", 2, False), ("A", 3, False)]),
        ([(3, "D"), (1, "A"), (2, "A")], [("A", 2, True), ("D", 3, False)]),
        ([(1, "R"), (2, "A"), (3, "A")], [("R", 1, False), ("A", 2, False), ("A", 3, False)]),
    ],
)
def test_runs_of_acks(settle, want):
    steps = {"A": Step.ACK, "R": Step.REQUEUE, "D": Step.DEAD_LETTER}
    acks = Acks()
    for tag in (1, 2, 3, 4):
        acks.open(tag)
    for tag, code in settle:
        acks.settle(tag, steps[code], tag)
    taken = acks.take()
    assert [(code, tag, multiple) for code, tag, multiple, _ in taken] == [(steps[v], t, m) for v, t, m in want]
    assert sorted(item for _, _, _, items in taken for item in items) == sorted(tag for tag, _ in settle)
    assert acks.take() == [] and not acks.waiting


def test_an_ack_of_several_waits_for_the_oldest():
    acks = Acks()
    for tag in (1, 2, 3):
        acks.open(tag)
    acks.settle(2, Step.ACK, "b")
    assert acks.take() == [(Step.ACK, 2, False, ["b"])]
    acks.settle(1, Step.ACK, "a")
    acks.settle(3, Step.ACK, "c")
    assert acks.take() == [(Step.ACK, 3, True, ["a", "c"])]


def test_a_late_step_that_fails_in_another_way_is_not_lost(caplog):
    made, over = [], []
    late = Late(made.append, now=lambda: 0.0)
    late.add(lambda: "call", lambda: over.append(True))

    class Failing:
        replies = [RuntimeError("a fault"), RuntimeError("a fault"), None]

        def run(self, call):
            reply = self.replies.pop(0)
            if reply:
                raise reply

    drive_late(Failing(), made[0])
    assert Failing.replies == [] and over == [True] and caplog.text.count("a late step failed") == 1


def test_a_late_step_is_sent_once_more_at_the_end():
    made, over = [], []
    late = Late(made.append, now=lambda: 0.0)
    late.add(lambda: "call", lambda: over.append(True))
    steps, = made
    next(steps)
    late.close()
    assert not late.idle.fired and isinstance(steps.send(None), Send)
    with pytest.raises(StopIteration):
        steps.send(Reply(ReplyCode.ENDED))
    assert over == [True] and late.idle.fired
    late.add(lambda: "another", lambda: over.append(False))
    assert over == [True, False] and len(made) == 1
