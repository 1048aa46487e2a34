"""Writes one invoice for each order of a queue in PostgreSQL, however often the order is delivered.

    AMQP_URL=… REDIS_URL=… DATABASE_URL=… python3 inbox.py orders

The table strikes_inbox is that of plugin/pgstrikes, so consumers in Go and Python share it. docs/effects.md has its
schema and the rules for `write`.
"""

import os
import signal
import sys

from psycopg2.pool import ThreadedConnectionPool

from strikes import Counter, Reject
from strikes.pika import Consumer

queue = sys.argv[1]
# One connection for each handler that may run, abandoned ones too: an exhausted pool is a failed attempt.
database = ThreadedConnectionPool(1, 100, os.environ["DATABASE_URL"])


def once(work):
    def handler(delivery):
        attempt, connection = delivery.attempt, database.getconn()
        try:
            if not attempt.id:
                raise Reject("the message has no id, so its work could be done twice")
            message_id = attempt.id if isinstance(attempt.id, bytes) else attempt.id.encode()
            with connection, connection.cursor() as tx:  # it commits, or an exception rolls back
                tx.execute("SET LOCAL idle_in_transaction_session_timeout = '5min'")  # the handler timeout
                tx.execute(
                    "INSERT INTO strikes_inbox (queue, id, generation, fence) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT DO NOTHING",
                    (queue.encode(), message_id, attempt.generation.encode(), attempt.fence),
                )
                if tx.rowcount == 1:  # otherwise the work is done already
                    work(tx, delivery)
                tx.execute("SELECT")  # fails if work hid an error of the database, which would roll back in silence
        finally:
            database.putconn(connection, close=bool(connection.closed))
    return handler


def write(tx, delivery):
    tx.execute("INSERT INTO invoices (body) VALUES (%s)", (delivery.body.decode(),))


consumer = Consumer(queue, once(write), amqp=os.environ["AMQP_URL"], counter=Counter.from_url(os.environ["REDIS_URL"]))
signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
consumer.run()
