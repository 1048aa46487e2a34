from datetime import datetime, timedelta, timezone

import pytest
from pika.compat import long

from strikes.generation import FOR_HEADER, GENERATION_HEADER, Headers, integer, name_for, text_of

AT = datetime(2026, 5, 4, 3, 2, 1)
UNIX = 1777863721


def death(queue="orders", reason="rejected", count=1, time=AT):
    return {"queue": queue, "reason": reason, "count": count, "time": time}


def read(headers):
    """Read headers as they were written for a message with the id m1."""
    begun = text_of((headers or {}).get(GENERATION_HEADER)) or b""
    written = headers and {**headers, FOR_HEADER: name_for("orders", "m1", begun, b"").decode()}
    return Headers(written, "orders", "m1")


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        (None, b""),
        ({}, b""),
        ({"x-strikes-generation": "r1"}, b"header:r1"),
        ({"x-strikes-generation": ""}, b""),
        ({"x-strikes-generation": 7}, b""),
        ({"x-strikes-generation": bytearray(b"r1")}, b""),
        ({"x-strikes-generation": b"caf\xe9"}, b"header:caf\xe9"),
        ({"x-death": [death()]}, b"1@%d" % UNIX),
        ({"x-death": [death(reason="delivery_limit", count=3)]}, b"3@%d" % UNIX),
        ({"x-death": [death(reason="expired")]}, b""),
        ({"x-death": [death(reason="maxlen"), death(count=2)]}, b"2@%d" % UNIX),
        ({"x-death": [death(queue="other"), death(count=2)]}, b"2@%d" % UNIX),
        ({"x-death": [death(count=5), death(count=2)]}, b"5@%d" % UNIX),
        ({"x-death": [death(), ], "x-strikes-generation": "r1"}, b"1@%d header:r1" % UNIX),
        ({"x-death": [death(time=None), death()]}, b""),
        ({"x-death": [death(time="now")]}, b""),
        ({"x-death": [death(count="1")]}, b"0@%d" % UNIX),
        ({"x-death": [death(count=True)]}, b"0@%d" % UNIX),
        ({"x-death": [death(count=2**64 - 1)]}, b"-1@%d" % UNIX),
        ({"x-death": [death(time=AT.replace(tzinfo=timezone.utc))]}, b"1@%d" % UNIX),
        ({"x-death": [death(time=AT.replace(tzinfo=timezone(timedelta(hours=2))))]}, b"1@%d" % (UNIX - 7200)),
        ({"x-death": "rejected"}, b""),
        ({"x-death": [None, 1, "x", {}, {"queue": 7}, death()]}, b"1@%d" % UNIX),
        ({"x-death": {"queue": "orders"}}, b""),
    ],
)
def test_generation(headers, want):
    assert read(headers).generation == want


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ({}, 0),
        ({"x-strikes-fence": 7}, 7),
        ({"x-strikes-fence": -7}, 0),
        ({"x-strikes-fence": "7"}, 0),
        ({"x-strikes-fence": 1 << 52}, 1 << 52),
        ({"x-strikes-fence": (1 << 52) + 1}, 0),
        ({"x-death": [death()]}, (UNIX + 1) * 10**6),
        ({"x-death": [death()], "x-strikes-fence": (UNIX + 2) * 10**6}, (UNIX + 2) * 10**6),
        ({"x-death": [death(time=datetime(9999, 1, 1))], "x-strikes-fence": 7}, 7),
    ],
)
def test_carried_fence(headers, want):
    assert read(headers).fence == want


def test_foreign_headers_count_as_absent():
    theirs = {GENERATION_HEADER: "r1", "x-strikes-fence": 7, FOR_HEADER: name_for("orders", "m1", "r1", b"").decode()}
    assert (read(theirs).generation, read(theirs).fence) == (b"header:r1", 7)
    for queue, message_id, name in (("orders", "m2", {}), ("bills", "m1", {}), ("orders", "m1", {FOR_HEADER: 7})):
        mine = Headers({**theirs, **name}, queue, message_id)
        assert (mine.foreign, mine.generation, mine.fence) == (True, b"", 0)


def test_integer():
    values = (1, -1, 2**64 - 7, 2**53, None, 1.5, 4.0, "1", False, 2.0**64 + 4096, 2**64 + 4096, -(2**64) + 7)
    assert [integer(v) for v in values] == [1, -1, -7, 0, 0, 0, 4, 0, 0, 0, 0, 0]


def test_integers_of_pika_are_sent_as_numbers():
    """pika reads an integer of 64 bits as a `long`, whose repr is "5L". redis-py sends the repr of an integer."""
    values = (long(5), long(-5), long(2**64 - 7), long(2**53))
    assert [repr(integer(v)) for v in values] == ["5", "-5", "-7", "0"]
    assert repr(read({"x-strikes-fence": long(1795825664789115)}).fence) == "1795825664789115"
