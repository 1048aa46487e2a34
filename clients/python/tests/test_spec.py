"""The pure cases of spec/v1: keys, records, generations."""

from __future__ import annotations

from spec import FIELDS, cases, header, known, text, write
from strikes import keys as k
from strikes.generation import Headers
from strikes.record import parse_record


@cases("keys")
def test_keys(case):
    known(case, "prefix", "vhost", "queue", "id", "generation", "keys", "member")
    vhost, queue = text(case["vhost"]), text(case["queue"])
    at = k.keys(k.Message(queue, text(case["id"]), text(case["generation"]), vhost), case["prefix"])
    pause, consumers, skips = k.control_keys(vhost, queue, case["prefix"])
    got = {
        "index": at.index, "limit": at.override, "tombstones": at.tombstones, "dead": at.dead, "record": at.record,
        "pause": pause, "consumers": consumers, "skips": skips,
        "undecodable": k.undecodable_key(vhost, queue, case["prefix"]),
    }
    assert {name: key.decode() for name, key in got.items()} == case["keys"]
    assert k.member(text(case["id"]), text(case["generation"])).decode() == case["member"]


@cases("records")
def test_records(case):
    known(case, "text", "fields")
    record, want = parse_record(text(case["text"])), case["fields"]
    assert (record is None) == (want is None)
    if record is None:
        return
    assert write(want) == text(case["text"])
    f = {**FIELDS, **want}
    for name in ("failures", "crashes", "starts", "fence", "wait", "limit", "own", "firsts", "suspect"):
        assert getattr(record, name) == f[name], name
    for name in ("binds", "due", "first", "last", "since", "listed"):
        assert getattr(record, name) == (f[name] or 0), name
    for name in ("state", "cause", "open", "mode"):
        assert getattr(record, name) == (f[name] or ""), name
    for name in ("id", "generation", "consumer", "reason"):
        assert getattr(record, name) == text(f[name]), name
    assert list(record.tokens.items()) == [tuple(t) for t in f["tokens"]]
    rest = {name: value for name, value in want.items() if name in ("notes", "history")}
    assert record.notes + record.history == b"".join(write(rest).split(b"\n", 1)[1:])


@cases("generations")
def test_generations(case):
    # This client holds no lanes, so it reads no place.
    known(case, "queue", "id", "body", "headers", "generation", "fence", "copy_number", "position", "foreign")
    headers = Headers(header(case["headers"]), case["queue"], case.get("id", ""), text(case.get("body")))
    got = (headers.generation, headers.fence, headers.copy_number, headers.foreign)
    assert got == (text(case["generation"]), int(case["fence"]), case.get("copy_number", 0), case.get("foreign", False))
