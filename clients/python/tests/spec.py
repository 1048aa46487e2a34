"""The cases of spec/v1, and the helpers that their runners share."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone

import pytest

from conftest import ROOT

SPEC = ROOT.parents[1] / "spec/v1"


def cases(name: str):
    found = json.loads((SPEC / f"{name}.json").read_text())["cases"]
    ours = [c for c in found if not c.get("operators") and not c.get("moves")]
    return pytest.mark.parametrize("case", [pytest.param(c, id=c["name"].replace(" ", "-")) for c in ours])


def text(value) -> bytes:
    """Read a text: a string, or base64."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return (value or "").encode()


def known(case: dict, *names: str) -> None:
    """Refuse fields that the runner does not check."""
    assert case.keys() <= {"name", "why", *names}, case.keys()


def header(value):
    """Return an AMQP value as pika delivers it."""
    if isinstance(value, list):
        return [header(v) for v in value]
    if not isinstance(value, dict):
        return value
    if not any(k.startswith("$") for k in value):
        return {k: header(v) for k, v in value.items()}
    (kind, v), = value.items()
    if kind == "$timestamp":
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=int(v))
    if kind == "$bytes":
        return base64.b64decode(v)
    return float(v) if kind == "$double" else int(v)


NUMBERS = ("failures", "crashes", "starts", "fence")
FIELDS = {
    **dict.fromkeys((*NUMBERS, "wait", "limit", "own", "firsts"), 0), "suspect": False, "tokens": [], "id": "",
    "generation": "", "consumer": "", "notes": [], "history": [], "reason": "",
    **dict.fromkeys(("state", "binds", "due", "first", "last", "cause", "open", "mode", "since", "listed", "moved")),
}


def write(fields: dict, begin: int = 0) -> bytes:
    """Write a record; its times are relative to begin."""
    assert fields.keys() <= FIELDS.keys(), fields.keys() - FIELDS.keys()
    f = {**FIELDS, **fields}

    def at(name):
        return 0 if f[name] is None else f[name] + begin

    notes = b"".join(_note(n, begin) for n in f["notes"])
    history = b"".join(_attempt(a) for a in f["history"])
    parts = [text(f["id"]), text(f["generation"]), text(f["consumer"]), notes, history]
    words = [
        f["failures"], f["crashes"], f["starts"], f["fence"], int(f["suspect"]), f["state"] or ".", at("binds"),
        at("due"), f["wait"], at("first"), 0 if f["first"] is None or f["last"] is None else f["last"] - f["first"],
        f["cause"] or ".", f["open"] or ".", f["mode"] or ".", at("since"), at("listed"), f["limit"], f["own"],
        f["firsts"], "." + "".join(f";{t}={kind}" for t, kind in f["tokens"]), *map(len, parts),
    ]
    if m := f["moved"]:
        until = 0 if m["until"] is None else m["until"] + begin
        words.append(":".join(map(str, (m["copy_number"], m["top"], until, m["mover"] or ".", m["body"]))))
    return " ".join(map(str, words)).encode() + b"\n" + b"".join(parts) + text(f["reason"])


def _note(note: dict, begin: int) -> bytes:
    by, why = text(note.get("by")), text(note.get("why"))
    return b"%s %d %d %d\n" % (note["kind"].encode(), note["at"] + begin, len(by), len(why)) + by + why


def _attempt(a: dict) -> bytes:
    ran = a["token"] if a["cause"] == "c" else a.get("ran", 0)
    return b"\n%s%d\t%s\t%s\t%s" % (
        a["cause"].encode(), a.get("after", 0), str(ran).encode(), text(a.get("consumer")), text(a.get("reason")),
    )
