"""A driver with a clock of its own, a scripted store and a fake channel: the third beside threads and asyncio."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

from spec import header, text
from strikes import backoff
from strikes import keys as k
from strikes.breaker import Breaker
from strikes.conclude import carry, settled
from strikes.consuming import ELECTING, SETTLE_TIMEOUT, Refused, SessionLost, lanes_refusal
from strikes.decide import Step
from strikes.errors import Fault, ForeignError, StoreError
from strikes.handler import Abandoned, Delivery, Failed, Reject, RetryAtMost, failure_of
from strikes.isolation import Isolation
from strikes.late import Late
from strikes.session import ABANDON_AFTER, ControlView, Invoke, Send, Session, Settings, Sleep
from strikes.signals import Signal
from strikes.steps import Cause, Control, Options, Reply, ReplyCode

MOST_EVENTS = 200_000
TICK = 2**-20
"""The step of the clock, in seconds. Its multiples are exact as floats, so that 5 s are never a little less."""

FIRED = Signal()
FIRED.fire()
SETTLEMENTS = {Step.ACK: "ack", Step.REQUEUE: "requeue", Step.DEAD_LETTER: "dead-letter"}


class World:
    """One case of conduct.json, played."""

    def __init__(self, case: dict, patient: bool = False) -> None:
        self.patient = patient  # others that are ready at the same instant go on before the session ends
        self.reads = 0.001 if patient else 0  # seconds that a read of the breaker takes: others go on before, too
        self.case, self.now, self.trace = case, 0.0, []
        self._queue, self._order = [], itertools.count()
        s = case.get("settings", {})
        self.drain = s.get("drain", 0) / 1000
        self.view, self.tasks, self.stopped = ControlView(), 0, False
        self.names, self.tokens, self.skips = {}, defaultdict(list), frozenset()
        self.sent, self.calls = defaultdict(int), defaultdict(int)
        self.last_send: dict[str, tuple] = {}
        self.settings = Settings(
            "orders", max_retries=s.get("max_retries", 3), retry=s.get("retry", "requeue"),
            isolation=s.get("isolation", "suspects"), backoff=lambda failed: s.get("backoff", 1000) / 1000,
            handler_timeout=s.get("handler_timeout", 300000) / 1000,
            consumer_timeout=s.get("consumer_timeout", 1800000) / 1000, max_age=s.get("max_age", 0) / 1000,
        )
        self.breaker, self.state = None, {}
        self.permits = [e["at"] for e in case.get("events", []) if e["event"] == "permit"]
        if size := s.get("breaker", 0):
            self.breaker = Breaker(size, s.get("patience", 0) / 1000, self.settings, Options(), now=self.clock)
            self.spawn(self.breaker.run())
        self.late, self.isolation = Late(self.spawn, now=self.clock), Isolation()
        self.view.reply, self.view.lanes = Control(paused=s.get("paused", False)), s.get("blocked_lanes", 0)
        self.begin(first=True)
        for d in case["deliveries"]:
            self.at(d["at"] / 1000, self.deliver, d, d.get("beyond", False))
        for e in case.get("events", []):
            self.at(e["at"] / 1000, self.event, e)

    def clock(self) -> float:
        return self.now

    def at(self, when: float, do, *args) -> None:
        when = math.ceil(when / TICK) * TICK  # the next tick
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), do, args))

    def play(self) -> list[dict]:
        end = self.case["until"] / 1000
        events = 0
        while self._queue and self._queue[0][0] <= end:
            self.now, _, do, args = heapq.heappop(self._queue)
            do(*args)
            self.check()
            events += 1
            # Otherwise the trace takes all memory.
            assert events < MOST_EVENTS, f"it spins at {self.now * 1000:.0f} ms: {self.trace[-3:]}"
        return self.trace

    # The session's beginning and end, as the adapters do them.

    def begin(self, first: bool) -> None:
        if lanes_refusal("orders", self.view.lanes):
            self.note({"do": "refuse"})
            self.leave()
            return
        if self.view.reply.paused:
            self.leave()
            return
        s = self.case.get("settings", {})
        self.ended, self.stopping, self.open = False, False, True
        self.session = Session(
            self.settings, Options(), self, self.late, s.get("concurrency", 1), self.view, self.isolation, self.clock,
            self.breaker,
        )
        self.fetched, self.beyond = False, []
        if self.breaker:
            self.breaker.attach(self.fetch)
        if s.get("reconnected"):
            self.session.dead_letters_from = ELECTING
        if not first:
            self.note({"do": "consume"})

    def leave(self) -> None:
        """Consume nothing."""
        self.ended, self.open, self.session = True, False, None

    def read(self, **changed) -> None:
        """Read the requests of operators. A pause ends the session, and the end of the pause begins another."""
        was, now = self.view.reply, replace(self.view.reply, **changed)
        self.view.take(now)
        if now.paused and not self.ended:
            self.end("stop")
        elif was.paused and not now.paused and not self.stopped:
            assert not self.open, "the last session still ends"
            self.begin(first=False)

    def check(self) -> None:
        if not self.ended and self.session.error:
            if self.patient:
                self.patient = False
                self.at(self.now, self.check)
            else:
                self.end("close")

    def fetch(self) -> None:
        self.note({"do": "fetch"})
        self.fetched = True
        beyond, self.beyond = self.beyond, []
        for d in beyond:
            self.at(self.now, self.deliver, d)

    def event(self, e: dict) -> None:
        if e["event"] in BREAKER:
            self.state.update({name: self.now * 1000 if now else 0 for name, now in BREAKER[e["event"]].items()})
            return
        self.note({"do": e["event"], **({"id": e["id"]} if "id" in e else {})})
        if e["event"] == "skip":
            self.skips |= {k.member(e["id"], "")}
            self.at(math.ceil(self.now), lambda: self.read(skipped=self.skips))  # it is read once a second
        elif e["event"] in ("pause", "resume"):
            self.at(math.ceil(self.now), lambda: self.read(paused=e["event"] == "pause"))
        else:
            self.stopped = self.stopped or e["event"] == "stop"
            if self.open:
                self.end(e["event"])

    def end(self, why: str) -> None:
        self.ended = True
        self.session.stop.fire()
        if why == "stop":
            if not self.stopping:
                self.stopping = True
                self.at(self.now, self.finish, self.now + self.drain, self.session.live.fire)
            return
        if why != "lose":
            self.note({"do": "close"})
        self.open = False
        self.session.live.fire()

    def finish(self, until: float, then) -> None:
        """Wait until every delivery is done with, then close the channel."""
        if self.tasks and self.now < until:
            self.at(self.now + 0.01, self.finish, until, then)
        elif then:
            then()
            self.finish(self.now + SETTLE_TIMEOUT, None)
        elif self.open:
            self.open = False
            self.note({"do": "close"})

    # The Port.

    def settle(self, progress, step) -> None:
        self.at(self.now, self._settle, progress, step)

    def _settle(self, d, step) -> None:
        if self.open:
            self.note({"id": self.name(d), "do": SETTLEMENTS[step]})
        settled(self.session, d, None if self.open else SessionLost("closed"))

    def done(self, progress) -> None:
        self.tasks -= 1

    def flushed(self) -> Signal:
        return FIRED

    def spawn(self, steps) -> None:
        self.at(self.now, self.resume, steps, None)

    # The driver.

    def deliver(self, d: dict, beyond: bool = False) -> None:
        if self.ended:
            return
        if beyond and not self.fetched:
            self.beyond.append(d)
            return
        tag = next(self._order)
        message_id = "" if d.get("no_id") else d["id"]
        self.names[tag] = d["id"]
        properties = SimpleNamespace(timestamp=d.get("timestamp"))
        delivery = Delivery(
            d.get("body", "").encode(), message_id, header(d.get("headers")) or {}, d.get("redelivered", False),
            properties=properties,
        )
        progress = self.session.take(delivery, tag)
        self.tasks += 1
        self.session.admit(progress, lambda: self.spawn(carry(self.session, progress)))

    def name(self, d) -> str:
        return self.names[d.tag]

    def resume(self, steps, result) -> None:
        try:
            effect = steps.send(result)
        except StopIteration:
            return
        if isinstance(effect, Send):
            after, result = self.answer(effect)
            self.at(self.now + after, self.resume, steps, result)
        elif isinstance(effect, Sleep):
            self.sleep(steps, effect)
        elif isinstance(effect, Invoke):
            self.invoke(steps, effect.progress)

    def sleep(self, steps, effect) -> None:
        over = []

        def wake() -> None:
            if not over:
                over.append(True)
                self.at(self.now, self.resume, steps, None)

        for signal in effect.signals:
            signal.add(wake)
        if effect.seconds is not None and effect.seconds < 1e9:
            self.at(self.now + effect.seconds, wake)

    def invoke(self, steps, d) -> None:
        name, s = self.name(d), self.session
        script = self.case["handlers"][name]
        does = script[min(self.calls[name], len(script) - 1)]
        self.calls[name] += 1
        attempt = s.shown(d, self.now).attempt
        entry = {"id": name, "do": "handler", "number": attempt.number, "last": attempt.last, "fence": attempt.fence}
        if d.message.id:
            entry["token"] = self.token(name, attempt.token)
        self.note(entry)
        began, over = self.now, []

        def end(failed) -> None:
            if over:
                if over == ["abandoned"]:
                    s.isolation.abandon(-1)
                return
            over.append("returned")
            d.ran = self.now - began
            self.resume(steps, failed)

        def cancel(cause) -> None:
            if over:
                return
            if does.get("deaf"):
                self.at(self.now + ABANDON_AFTER, abandon, cause)
            else:
                end(Failed(TimeoutError("cancelled"), cause, "cancelled"))

        def abandon(cause) -> None:
            if not over:
                over.append("abandoned")
                s.isolation.abandon(1)
                d.ran = self.now - began
                self.resume(steps, Failed(Abandoned("abandoned"), cause, "abandoned"))

        self.at(
            began + does.get("takes", 0) / 1000,
            lambda: end(result_of(does, self.now >= began + s.settings.handler_timeout)),
        )
        self.at(began + s.settings.handler_timeout, cancel, Cause.TIMED_OUT)
        s.live.add(lambda: self.at(self.now, cancel, Cause.FAILED))

    # The store.

    def answer(self, effect: Send) -> tuple[float, object]:
        call = effect.call
        if call.name == "ask":
            return self.ask(effect)
        step, args = call.name.upper(), call.args
        name = next(n for n in self.names.values() if n == args[2].decode())
        outage = next(
            (
                o
                for o in self.case.get("outages", [])
                if o["from"] <= self.now * 1000 < o["to"] and step in o.get("steps", [step])
            ),
            None,
        )
        said = outage["kind"] if outage else self.scripted(name, step)
        self.note_send(name, step, args, said)
        if said == "lost":
            return effect.timeout, StoreError(Fault.SLOW, "lost")
        if said == "down":
            return 0, StoreError(Fault.UNREACHABLE, "down")
        if said == "refused":
            return 0, ForeignError("WRONGTYPE")
        return 0, Reply(
            ReplyCode(said["code"]), said.get("failures", 0), said.get("crashes", 0), said.get("limit", 0),
            int(said.get("fence", 0)), said.get("wait", 0) / 1000, said.get("cause") or "", text(said.get("reason")),
            said.get("double", False),
        )

    def ask(self, effect: Send) -> tuple[float, object]:
        now = self.now * 1000
        if kind := next(
            (
                o["kind"]
                for o in self.case.get("outages", [])
                if o["from"] <= now < o["to"] and "ASK" in o.get("steps", ["ASK"])
            ),
            None,
        ):
            return effect.timeout if kind == "lost" else 0, StoreError(Fault.UNREACHABLE, kind)
        permitted = bool(effect.call.args[2] and self.state.get("open") and self.permits and self.permits[0] <= now)
        while permitted and self.permits and self.permits[0] <= now:
            self.permits.pop(0)
        at = [round(self.state.get(name, 0)) for name in ("success", "doubt", "open")]
        following = self.permits[0] if self.permits else now + 3000
        return self.reads, [int(permitted), round(now), *at, round(following), 0, 0, 0, b""]

    def scripted(self, name: str, step: str):
        script = self.case.get("replies", {}).get(name, {}).get(step)
        if script is None:
            assert step in ("BEGUN", "END"), f"{step} of {name} is not expected"
            return {"code": "ENDED" if step == "END" else "BEGUN"}
        self.sent[name, step] += 1
        return script[min(self.sent[name, step], len(script)) - 1]

    # The trace.

    def token(self, name: str, token: str) -> int:
        if token not in self.tokens[name]:
            self.tokens[name].append(token)
        return self.tokens[name].index(token) + 1

    def note_send(self, name: str, step: str, args, said) -> None:
        _, token, _, generation, _, limit, age, *rest = args
        entry = {"id": name, "do": step, "token": self.token(name, token), "generation": generation.decode()}
        if step in ("START", "FAIL"):
            entry |= {"limit": limit, "first": age >= 0}
        if step == "START":
            entry |= {"mode": rest[0], "fence": rest[1], "max_age": rest[2]} | self.carried(rest[3:])
        elif step == "FAIL":
            entry |= {
                "wait": rest[0], "cause": rest[1], "reason": rest[2].decode(), "max_age": rest[4], "at_most": rest[5],
            } | self.carried(rest[6:])
        elif step == "END":
            entry["succeeded"] = bool(rest[0])
        before, failed = self.last_send.get(name, (None, False))
        varies = {"at": 0, "repeated": 0, "progress": 0}
        if failed and before and entry | varies == before | varies:
            before["repeated"] = True
        else:
            before = entry
            self.note(entry)
        self.last_send[name] = before, isinstance(said, str)

    def carried(self, arguments) -> dict:
        """Return the last arguments of a step. Times are ms since the session began."""
        out = {}
        for word in filter(None, arguments):
            name, *numbers = word.split(" ")
            if name == "delay":
                out["delay"] = word
                continue
            size, patience, *ages, failing = map(int, numbers)
            out["progress"] = {"breaker": size, "patience": patience, "failing": bool(failing)}
            out["progress"] |= {
                k: self.now * 1000 - age for k, age in zip(("began", "ended", "attempt"), ages, strict=True) if age >= 0
            }
        return out

    def note(self, entry: dict) -> None:
        entry["at"] = self.now * 1000
        self.trace.append(entry)
        if "id" in entry:
            self.last_send[entry["id"]] = None, False


def result_of(does: dict, timed_out: bool) -> Failed | None:
    if does.get("ok"):
        return None
    if "reject" in does:
        return failure_of(Reject(does["reject"]), timed_out)
    wait = does["retry_after"] / 1000 if "retry_after" in does else None
    text = does.get("fail") or does["not_counted"]
    error = RetryAtMost(does["retry_at_most"]) if "retry_at_most" in does else ValueError(text)
    return replace(failure_of(error, timed_out), text=text, wait=wait, uncounted="not_counted" in does)


BREAKER = {
    "doubt": {"doubt": True}, "opened": {"open": True}, "closed": {"doubt": False, "open": False},
    "others": {"success": True}, "permit": {},
}
"""Events that are not in the trace, each with the reply of ASK after it."""


def like(want: dict | None, got: dict | None) -> bool:
    """Whether a progress is as expected. A time that is absent is not compared; -1000 stands for none."""
    if want is None or got is None:
        return want is got
    flags = all(want.get(name, 0) == got.get(name, 0) for name in ("breaker", "patience", "failing"))
    return flags and all(
        abs(want[name] - got.get(name, -1000)) <= 200 for name in ("began", "ended", "attempt") if name in want
    )


ABSENT = (None, 0, False, "")


def check(case: dict, patient: bool = False) -> None:
    """Play a case of conduct.json, and compare its trace. No pause between repetitions is shortened at random."""
    drawn, backoff.draw = backoff.draw, lambda: 0.0
    try:
        got = World(case, patient).play()
    finally:
        backoff.draw = drawn
    for name in {e.get("id") for e in case["trace"]} | {e.get("id") for e in got}:
        mine = [e for e in got if e.get("id") == name]
        want = [e for e in case["trace"] if e.get("id") == name]
        assert [e["do"] for e in mine] == [e["do"] for e in want], (name, mine)
        for e, w in zip(mine, want, strict=True):
            at, wanted = e["at"], {key: v for key, v in w.items() if key not in ("from", "to")}
            seen = {key: v for key, v in e.items() if key != "at"}
            if w.get("cause") == "timed-out":
                seen.pop("reason")
                wanted.pop("reason", None)
            assert like(wanted.pop("progress", None), seen.pop("progress", None)), (name, e, w)
            assert _said(seen) == _said(wanted), (name, seen, wanted)
            assert w.get("from", 0) - 1e-6 <= at <= w.get("to", float("inf")), (w, at)


def _said(entry: dict) -> dict:
    return {key: v for key, v in entry.items() if v not in ABSENT}
