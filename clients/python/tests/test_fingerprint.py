"""A message without an id has the name that the strikes command shows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from strikes.fingerprint import fingerprint_of
from strikes.handler import Delivery


@pytest.mark.parametrize(
    ("message_id", "correlation", "kind", "body", "want"),
    [  # as Go computes them
        ("", None, None, b"", "fp:799c55d702ef"), ("", None, None, b"body", "fp:988fabf2e575"),
        ("", "corr", "order.created", b'{"a":1}', "fp:b70c9d7a5d25"),
        ("", 'a<b>&"\\', "\u2028\xe9\x01\b\f\n\x7f", b"", "fp:e63b548a4c06"),
        ("k1", None, None, b"x\xff", "fp:296188286aa4"), ("", b"\xff", None, b"", "fp:773f4f36cd5c"),
    ],
)
def test_as_in_go(message_id, correlation, kind, body, want):
    of_pika = SimpleNamespace(correlation_id=correlation, type=kind)
    assert fingerprint_of(Delivery(body, message_id, properties=of_pika)) == want
    of_aio_pika = SimpleNamespace(correlation_id=correlation, message_type=kind)
    assert fingerprint_of(Delivery(body, message_id, properties=of_aio_pika)) == want


def test_properties_that_are_none():
    assert fingerprint_of(Delivery(b"body")) == "fp:988fabf2e575"
