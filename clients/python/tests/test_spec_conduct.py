"""The conduct of spec/v1: deliveries and replies in; steps, handler calls and settlements out."""

from __future__ import annotations

from simulated import check
from spec import cases, known


@cases("conduct")
def test_conduct(case):
    known(case, "breaker", "settings", "deliveries", "handlers", "replies", "outages", "events", "until", "trace")
    check(case)
