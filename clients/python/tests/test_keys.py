import hashlib

import pytest

from strikes import keys as k
from strikes.text import ceil_millis, cut, raw


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("orders", b"orders"), ("/", b"%2F"), ("a{b}c", b"a%7Bb%7Dc"), ("100%", b"100%25"), ("ü", b"%C3%BC"), ("", b""),
        (b"\xff\x00", b"%FF%00"), ("A-Z_a.z~0", b"A-Z_a.z~0"), ("a:b c", b"a%3Ab%20c"),
    ],
)
def test_encode(name, want):
    assert k.encode(name) == want


def test_keys_of_a_message():
    at = k.keys(k.Message("orders", "17"))
    q = b"strikes:1:{%2F/orders}:"
    record = q + b"r:" + hashlib.sha256(b"17").hexdigest()[:32].encode() + b":0"
    assert at == k.Keys(q + b"index", q + b"limit", q + b"tombstones", q + b"dead", record)
    later = k.keys(k.Message("orders", "17", "1@1700000000", "shop"), "x")
    assert later.record.startswith(b"x:{shop/orders}:r:")
    assert later.record.endswith(b":" + hashlib.sha256(b"1@1700000000").hexdigest()[:16].encode())


def test_ids_are_bytes():
    latin = b"caf\xe9"
    assert k.hash_id(latin) == k.hash_id(latin.decode("utf-8", "surrogateescape"))
    assert raw("é") == b"\xc3\xa9"


@pytest.mark.parametrize(
    ("text", "most", "want"),
    [
        ("abc", 3, b"abc"), ("abcd", 3, b"abc"), ("aé", 2, b"a"), ("é", 1, b""), (b"\xff\xff", 1, b"\xff"),
        ("a😀", 4, b"a"), (b"\x80\x80\x80", 2, b"\x80\x80"), (b"a" + b"\x80" * 9, 6, b"a" + b"\x80" * 5),
    ],
)
def test_cut_keeps_characters_whole(text, most, want):
    assert cut(text, most) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, 0), (-1, 0), (0.001, 1), (0.0010001, 2), (0.1 + 0.2, 300), (float("inf"), 9223372036854),
        (float("nan"), 0), (30, 30000),
    ],
)
def test_ceil_millis(seconds, want):
    assert ceil_millis(seconds) == want
