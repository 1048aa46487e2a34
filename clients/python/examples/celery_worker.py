"""A Celery worker that also consumes a queue with strikes.

    AMQP_URL=… REDIS_URL=… celery -A celery_worker worker --pool threads

Celery settles the messages of its own tasks, so their retries are new messages at the tail and its acks_late keeps no
count. This worker therefore runs a strikes consumer beside Celery's, on a connection of its own, for a queue of plain
messages. Its handler calls the task's function in the same process.
"""

import os
import threading

from celery import Celery, bootsteps

from strikes import Counter, Delivery
from strikes.pika import Consumer

app = Celery("shop", broker=os.environ["AMQP_URL"])


@app.task
def book(order: str) -> None:
    if "4" in order:
        raise ValueError("no stock")


def handle(delivery: Delivery) -> None:
    attempt = delivery.attempt
    print(f"attempt {attempt.number} of {attempt.last} at {delivery.id}: {delivery.body.decode()}", flush=True)
    book(delivery.body.decode())


class Orders(bootsteps.StartStopStep):
    """Starts and stops the consumer with the worker."""

    def start(self, worker):
        counter = Counter.from_url(os.environ["REDIS_URL"])
        self.consumer = Consumer(
            "orders", handle, amqp=os.environ["AMQP_URL"], counter=counter, max_retries=2,
            observer=lambda event: print(f"{event.id}: {event.outcome.value}", flush=True),
        )
        self.thread = threading.Thread(target=self.consumer.run, daemon=True)
        self.thread.start()

    def stop(self, worker):
        self.consumer.stop()
        self.thread.join(30)


app.steps["worker"].add(Orders)
