"""The steps of spec/v1 on a real Redis."""

from __future__ import annotations

import hashlib
import uuid

import pytest
import redis

from spec import cases, known, text, write
from strikes import keys as k
from strikes import steps
from strikes.counter import Counter
from strikes.errors import StoreError
from strikes.record import parse_record
from strikes.steps import Attempt, Cause, Failure, Mode


def message(of):
    return k.Message("orders", text(of.get("id", "m1")), text(of.get("generation", "")))


BREAKER = ("success", "doubt", "open", "closed", "next", "permits", "count", "awaited")


def breaker(fields, begin):
    """Write the breaker of a queue."""
    known(fields, *BREAKER, "alike", "streak", "reason")
    numbers = [
        fields.get(name, 0) if name == "permits" else 0 if fields.get(name) is None else fields[name] + begin
        for name in BREAKER
    ]
    streak = "".join(
        f";{f['at'] + begin}={hashlib.sha256(f['id'].encode()).hexdigest()[:16]}" for f in fields.get("streak", [])
    )
    line = " ".join(map(str, [*numbers, fields.get("alike", 0)]))
    return f"{line} .{streak}\n{fields.get('reason', '')}".encode()


class Run:
    """One case: a prefix of its own, and the differences from the case."""

    def __init__(self, case, url):
        self.case, self.prefix, self.ttl = case, "spec:" + uuid.uuid4().hex, case.get("ttl", 604800000)
        self.store = redis.Redis.from_url(url)
        self.counter = Counter.from_url(url, prefix=self.prefix, ttl=self.ttl / 1000)
        self.begin, self.clocks = self.now(), {}

    def now(self):
        seconds, micros = self.store.time()
        return seconds * 1000 + micros // 1000

    def passed(self):
        return self.now() - self.begin

    def queue_key(self, name):
        return k.queue_key("/", "orders", self.prefix) + name.encode()

    def seed(self):
        given = self.case["given"]
        known(given, "records", "override", "tombstones", "pause", "skips", "types", "breaker")
        for record in given.get("records", []):
            self.seed_record(record)
        for name, value in given.get("override", {}).items():
            self.store.hset(self.queue_key("limit"), name, value)
        for name, value in given.get("tombstones", {}).items():
            self.store.hset(self.queue_key("tombstones"), name, value + self.begin if name == "since" else value)
        if pause := given.get("pause"):
            fields = {
                "paused": int(pause["paused"]), "by": pause["by"], "why": pause["why"], "at": pause["at"] + self.begin,
            }
            self.store.hset(self.queue_key("pause"), mapping=fields)
        for skip in given.get("skips", []):
            m = message(skip)
            self.store.zadd(self.queue_key("skips"), {k.member(m.id, m.generation): skip["until"] + self.begin})
        if "breaker" in given:
            self.store.set(self.queue_key("breaker"), breaker(given["breaker"], self.begin), px=self.ttl)
        for name in given.get("types", {}):
            self.store.rpush(self.queue_key(name), "x")

    def seed_record(self, record):
        m = message(record)
        key, fields = k.keys(m, self.prefix).record, dict(record)
        if "type" in record:
            self.store.rpush(key, "x")
        elif "string" in record:
            self.store.set(key, text(record["string"]), px=self.ttl)
        else:
            ttl = fields.pop("ttl")
            self.store.set(key, write(fields, self.begin), px=ttl)
            if record.get("listed") is not None:
                where = self.queue_key("dead" if record.get("state") == "exhausted" else "index")
                self.store.zadd(where, {k.member(m.id, m.generation): self.begin + ttl})
                self.store.pexpire(where, 2 * self.ttl)

    def take(self, s):
        m = message(s)
        a = Attempt(
            m, s.get("token", ""), s.get("consumer", ""), s.get("age", -1), s.get("fence", 0),
            s.get("max_age", 0) / 1000, s.get("progress", ""), s.get("delay", ""),
        )
        match s["step"]:
            case "START":
                return self.counter.start(a, Mode(s["mode"]), s["limit"])
            case "BEGUN":
                return self.counter.begun(a)
            case "FAIL":
                failure = Failure(
                    s["limit"], s["wait"] / 1000, Cause(s["cause"]), text(s["reason"]), s["ran"] / 1000,
                    s.get("at_most", 0),
                )
                return self.counter.fail(a, failure)
            case "END":
                assert s["keep"] == steps.KEEP_DONE * 1000
                return self.counter.end(a, s["succeeded"])
            case "ASK":
                call = steps.ask("/", "orders", s["progress"], s["wants"], self.counter.options)
                return steps.parse_state(self.counter.run(call))
            case "CONTROL":
                return self.counter.control("/", "orders", s["reader"], s["consumer"], s["state"])
        pytest.fail(f"unknown step {s['step']}")

    def compare(self, s):
        known(
            s, "step", "id", "generation", "together", "token", "consumer", "limit", "age", "mode", "fence", "wait",
            "cause", "reason", "ran", "max_age", "at_most", "progress", "wants", "delay", "succeeded", "keep",
            "reader", "state", "reply",
        )
        want = s["reply"]
        if isinstance(want, dict) and "error" in want:
            with pytest.raises(StoreError, match=want["error"].replace("(", r"\(")):
                self.take(s)
            return
        reply = self.take(s)
        if s["step"] == "ASK":
            assert reply.permitted == bool(want)
            return
        if s["step"] == "CONTROL":
            skips = frozenset(k.member(m.id, m.generation) for m in map(message, want["skips"]))
            assert (reply.paused, reply.by, reply.why, reply.skipped) == (
                want["paused"], text(want["by"]), text(want["why"]), skips,
            )
            assert reply.at == 0 if want["at"] is None else self.within(want["at"], reply.at)
            return
        known(want, "code", "failures", "crashes", "limit", "fence", "wait", "cause", "reason", "double")
        got = (
            reply.code.value, reply.failures, reply.crashes, reply.limit, reply.cause, reply.reason,
            reply.possible_duplicate,
        )
        assert got == (
            want["code"], want["failures"], want["crashes"], want["limit"], want["cause"] or "", text(want["reason"]),
            want["double"],
        )
        assert self.fence(message(s), want["fence"], reply.fence)
        wait = round(reply.wait * 1000)
        assert wait == want["wait"] or want["wait"] > 0 and want["wait"] - self.passed() <= wait <= want["wait"]

    def fence(self, m, want, got):
        if not isinstance(want, str):
            return int(want) == got
        clocks = self.clocks.setdefault(m, [])
        if got not in clocks and self.begin <= got // 1000 <= self.now() and got > max(clocks, default=0):
            clocks.append(got)
        return got in clocks and want == f"clock {clocks.index(got) + 1}"

    def within(self, want, got, early=0):
        return self.begin + want - early <= got <= self.now() + want

    def check_records(self):
        after = {message(r): r for r in self.case["after"].get("records", [])}
        named = {
            message(r)
            for r in [*self.case["given"].get("records", []), *self.case["steps"]]
            if r.get("step") not in ("CONTROL", "ASK")
        }
        assert after.keys() <= named
        for m in named:
            self.check_record(m, after.get(m))
        if want := self.case["after"].get("tombstones"):
            got = self.store.hgetall(self.queue_key("tombstones"))
            counted = {name: int(got.get(name.encode(), 0)) for name in ("count", "removed")}
            assert counted == {"count": 0, "removed": 0, **want}

        if want := self.case["after"].get("breaker"):
            self.check_breaker(want)

    def check_breaker(self, want):
        got = self.store.get(self.queue_key("breaker"))
        fields, at = dict(want), dict(zip(BREAKER, got.split(b" ")[:8], strict=True))
        for name in set(BREAKER) - {"permits"}:
            early = 100 if name == "success" else 0
            wanted, seen = fields.get(name), int(at[name])
            assert seen == 0 if wanted is None else self.within(wanted, seen, early), name
            fields[name] = int(at[name]) - self.begin if int(at[name]) else None
        times = [int(entry.split(b"=")[0]) for entry in got.split(b"\n")[0].split(b";")[1:]]
        fields["streak"] = [dict(f) for f in fields.get("streak", [])]
        for f, time in zip(fields["streak"], times, strict=True):
            assert self.within(f["at"], time)
            f["at"] = time - self.begin
        assert got == breaker(fields, self.begin)

    def check_record(self, m, want):
        key = k.keys(m, self.prefix).record
        kind = self.store.type(key).decode()
        if want is None:
            assert kind == "none"
            return
        if "type" in want or "string" in want:
            assert kind == want.get("type", "string")
            assert "string" not in want or self.store.get(key) == text(want["string"])
            return
        fields = dict(want)
        ttl, where = fields.pop("ttl"), fields.pop("set", None)
        left = self.store.pttl(key)
        assert ttl - self.passed() <= left <= ttl
        sets = [
            name
            for name in ("index", "dead")
            if self.store.zscore(self.queue_key(name), k.member(m.id, m.generation)) is not None
        ]
        assert sets == ([where] if where else [])
        text_of = self.store.get(key)
        record = parse_record(text_of)
        assert record and self.fence(m, fields.get("fence", 0), record.fence)
        fields["fence"] = record.fence
        self.align(fields, record)
        assert text_of == write(fields, self.begin)

    def align(self, fields, record):
        """Give the wanted times those of the record, if they are as much later as the case has run."""
        for name in ("binds", "due", "first", "last", "since", "listed"):
            got, want = getattr(record, name), fields.get(name)
            assert got == 0 if want is None else self.within(want, got), name
            fields[name] = None if want is None else got - self.begin
        if moved := fields.get("moved"):
            got, want = record.moved.until, moved["until"]
            assert got == 0 if want is None else self.within(want, got)
            fields["moved"] = {**moved, "until": None if want is None else got - self.begin}
        afters = [line.split(b"\t")[0][1:] for line in record.history.split(b"\n")[1:]]
        assert len(afters) == len(fields.get("history", []))
        fields["history"] = [dict(a) for a in fields.get("history", [])]
        for a, got in zip(fields["history"], afters, strict=True):
            assert a.get("after", 0) <= int(got) <= a.get("after", 0) + self.passed()
            a["after"] = int(got)
        at = 0
        fields["notes"] = [dict(n) for n in fields.get("notes", [])]
        for n in fields["notes"]:
            line = record.notes[at:].split(b"\n")[0].split(b" ")
            assert self.within(n["at"], int(line[1]))
            n["at"] = int(line[1]) - self.begin
            at += len(b" ".join(line)) + 1 + int(line[2]) + int(line[3])


@cases("steps")
def test_steps(case, redis_url):
    known(case, "breaker", "ttl", "given", "steps", "after")
    run = Run(case, redis_url)
    try:
        run.seed()
        for s in case["steps"]:
            run.compare(s)
        run.check_records()
    finally:
        run.counter.close()
        run.store.close()
