"""A consumer with a loop of its own: pika's BlockingConnection, and a Settler in a thread for each delivery.

    AMQP_URL=… REDIS_URL=… python3 plain_pika.py orders

Prefer strikes.pika.Consumer, which also reconnects, checks the queue, and obeys `strikes pause`.
"""

import os
import sys
import threading
import time

import pika

from strikes import Counter, Delivery, Outcome
from strikes.settler import Settler


def say(line: str) -> None:
    """Print a line with one write. print itself ends the line with another, and the lines of threads would mix."""
    print(line + "\n", end="", flush=True)


def book(delivery: Delivery) -> None:
    say(f"attempt {delivery.attempt.number} of {delivery.attempt.last} at {delivery.id}: {delivery.body.decode()}")
    if b"4" in delivery.body:
        raise ValueError("no stock")


def main(queue: str) -> None:
    settler = Settler(queue, Counter.from_url(os.environ["REDIS_URL"]), max_retries=2)
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)

    def work(method, properties, body):
        def settle(outcome):  # the connection belongs to the main thread
            if outcome is Outcome.ACK:
                connection.add_callback_threadsafe(lambda: channel.basic_ack(method.delivery_tag))
            else:
                requeue = outcome is Outcome.REQUEUE
                connection.add_callback_threadsafe(lambda: channel.basic_nack(method.delivery_tag, requeue=requeue))

        delivery = Delivery(
            body, properties.message_id or "", properties.headers or {}, method.redelivered, properties=properties
        )
        say(f"{delivery.id}: {settler.handle(delivery, book, settle).value}")

    def on_message(_channel, method, properties, body):
        threading.Thread(target=work, args=(method, properties, body), daemon=True).start()

    channel.basic_consume(queue, on_message)
    until = time.monotonic() + float(os.environ.get("SECONDS", "inf"))
    while time.monotonic() < until:
        connection.process_data_events(time_limit=0.5)
    settler.stop()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
