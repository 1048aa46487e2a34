"""Runs examples/inbox.py: each order has one invoice, whatever kills the program and however often the order comes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import psycopg2
import pytest

from conftest import ROOT, required, until

SCHEMA = re.search(r"```sql\n(.*?)```", (ROOT / "../../docs/effects.md").read_text(), re.DOTALL)[1]
ORDERS = 200


@pytest.fixture
def database():
    connection = psycopg2.connect(required("DATABASE_URL"))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA + "DROP TABLE IF EXISTS invoices; CREATE TABLE invoices (body text)")
        yield cursor
    connection.close()


def test_each_order_has_one_invoice(classic, redis_url, database):
    def start():
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "REDIS_URL": redis_url, "AMQP_URL": classic.url}
        return subprocess.Popen([sys.executable, ROOT / "examples" / "inbox.py", classic.name], env=env)

    def count(what: str) -> int:
        database.execute(f"SELECT count({what}) FROM invoices")
        return database.fetchone()[0]

    for number in range(ORDERS):
        for _ in range(2):  # as a producer does that gets no confirm
            classic.publish(b"order %d" % number, f"order {number}")
    for kills in range(1, 4):
        consumer = start()
        until(lambda: count("*") > 40 * kills, "invoices")
        consumer.kill()
        consumer.wait()
    consumer = start()
    until(lambda: count("DISTINCT body") == ORDERS and classic.depth() == 0, "the invoices of all orders")
    consumer.send_signal(signal.SIGTERM)
    assert consumer.wait() == 0
    assert count("*") == ORDERS
    database.execute("SELECT DISTINCT generation FROM strikes_inbox WHERE queue = %s", (classic.name.encode(),))
    assert [bytes(row[0]) for row in database.fetchall()] == [b"0"]


def test_work_that_hides_an_error_of_the_database_fails(classic, redis_url, database):
    write = "def write(tx, delivery):"
    hides = f"{write}\n    try:\n        tx.execute('no SQL')\n    except Exception:\n        return"
    program = (ROOT / "examples" / "inbox.py").read_text().replace(write, hides)
    classic.publish(b"order", "order")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "REDIS_URL": redis_url, "AMQP_URL": classic.url}
    consumer = subprocess.Popen([sys.executable, "-c", program, classic.name], env=env)
    try:
        until(lambda: classic.depth(classic.dead) == 1, "a dead letter")
    finally:
        consumer.terminate()
    assert consumer.wait() == 0
