"""The conduct of spec/v1: deliveries and replies in; steps, handler calls and settlements out."""

from __future__ import annotations

from simulated import World
from spec import cases, known

ABSENT = (None, 0, False, "")


@cases("conduct")
def test_conduct(case):
    known(case, "settings", "deliveries", "handlers", "replies", "outages", "events", "until", "trace")
    got = World(case).play()
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
            assert {key: v for key, v in seen.items() if v not in ABSENT} == {key: v for key, v in wanted.items() if v not in ABSENT}
            assert w.get("from", 0) - 1e-6 <= at <= w.get("to", float("inf")), (w, at)
