"""Throughput of strikes beside a bare loop, as a ratio.

The rounds are interleaved; the result is the median of the paired ratios.

    make client-python-bench

The bare loop nacks a failing message once with requeue and acks it when it comes back. It counts nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import sys
import time
import uuid
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / d) for d in ("src", "tests")]

import aiormq  # noqa: E402
import pika  # noqa: E402

from conftest import Queue  # noqa: E402
from strikes import AsyncCounter, Counter  # noqa: E402

MESSAGES, ROUNDS, PREFETCH = int(os.environ.get("MESSAGES", "4000")), int(os.environ.get("ROUNDS", "5")), 30
logging.disable(logging.WARNING)


def fill(queue: Queue, percent: int) -> None:
    channel = queue.connection.channel()
    for i in range(MESSAGES):
        message_id = ("f" if i % 100 < percent else "s") + uuid.uuid4().hex
        channel.basic_publish("", queue.name, b"x" * 100, pika.BasicProperties(message_id=message_id, delivery_mode=2))
    channel.close()
    queue.depth()


class Work:
    """Fails the first attempt at some messages, and stops after the last success."""

    def __init__(self, stop) -> None:
        self.left, self.failed, self.stop = MESSAGES, set(), stop

    def __call__(self, message_id: str) -> None:
        if message_id[0] == "f" and message_id not in self.failed:
            self.failed.add(message_id)
            raise ValueError("no stock")
        self.left -= 1
        if not self.left:
            self.stop()


def bare_pika(queue: Queue, amqp: str, _redis: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(amqp))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH)
    work = Work(channel.stop_consuming)

    def on_message(ch, method, properties, body):
        try:
            work(properties.message_id)
        except ValueError:
            ch.basic_nack(method.delivery_tag, requeue=True)
        else:
            ch.basic_ack(method.delivery_tag)

    channel.basic_consume(queue.name, on_message)
    channel.start_consuming()
    connection.close()


def strikes_pika(queue: Queue, amqp: str, redis: str) -> None:
    from strikes.pika import Consumer

    counter = Counter.from_url(redis, prefix="bench:" + uuid.uuid4().hex)
    work = Work(lambda: consumer.stop())
    consumer = Consumer(
        queue.name, lambda d: work(d.id), amqp=amqp, counter=counter, prefetch=PREFETCH, backoff=lambda n: 0
    )
    consumer.run()
    counter.close()


async def bare_aiormq(queue: Queue, amqp: str) -> None:
    connection = await aiormq.connect(amqp)
    channel = await connection.channel(publisher_confirms=False)
    await channel.basic_qos(prefetch_count=PREFETCH)
    over = asyncio.Event()
    work = Work(over.set)

    async def on_message(m):
        try:
            work(m.header.properties.message_id)
        except ValueError:
            await channel.basic_nack(m.delivery.delivery_tag, requeue=True)
        else:
            await channel.basic_ack(m.delivery.delivery_tag)

    await channel.basic_consume(queue.name, on_message)
    await over.wait()
    await connection.close()


async def strikes_aiormq(queue: Queue, amqp: str, redis: str) -> None:
    from strikes.aio_pika import Consumer

    counter = AsyncCounter.from_url(redis, prefix="bench:" + uuid.uuid4().hex)
    work = Work(lambda: consumer.stop())

    async def handle(delivery):
        work(delivery.id)

    consumer = Consumer(queue.name, handle, amqp=amqp, counter=counter, prefetch=PREFETCH, backoff=lambda n: 0)
    await consumer.run()
    await counter.close()


PAIRS = {
    "pika": (bare_pika, strikes_pika),
    "asyncio": (lambda q, a, r: asyncio.run(bare_aiormq(q, a)), lambda q, a, r: asyncio.run(strikes_aiormq(q, a, r))),
}


def timed(run, queue: Queue, amqp: str, redis: str, percent: int) -> float:
    fill(queue, percent)
    began = time.perf_counter()
    run(queue, amqp, redis)
    return MESSAGES / (time.perf_counter() - began)


def measure(amqp: str, redis: str) -> None:
    print(
        f"{MESSAGES} messages of 100 bytes, quorum queue, prefetch {PREFETCH}, one handler, median of {ROUNDS} rounds"
    )
    print(f"{'client':8} {'failing':>8} {'bare/s':>8} {'strikes/s':>10} {'ratio':>6}")
    for name, pair in PAIRS.items():
        for percent in (0, 10):
            rates = []
            for _ in range(ROUNDS):
                queue = Queue(amqp, "quorum")
                rates.append([timed(run, queue, amqp, redis, percent) for run in pair])
                queue.close()
            bare, mine = (statistics.median(r[i] for r in rates) for i in (0, 1))
            ratio = statistics.median(r[1] / r[0] for r in rates)
            print(f"{name:8} {percent:>7}% {bare:>8.0f} {mine:>10.0f} {ratio:>6.2f}", flush=True)


if __name__ == "__main__":
    measure(os.environ["AMQP_URL"], os.environ["REDIS_URL"])  # make client-python-bench starts them
