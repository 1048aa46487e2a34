from __future__ import annotations

import os
import random
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120  # seconds


def until(condition, what: str = "the condition"):
    """Wait for a condition, and return its result. The time only ends a test that hangs."""
    end = time.monotonic() + PATIENCE
    while not (got := condition()):
        if time.monotonic() > end:
            pytest.fail(f"{what} did not hold within {PATIENCE} s")
        time.sleep(0.02)
    return got


def reserve_port() -> socket.socket:
    """Reserve a TCP port by a UDP socket on it, as the servers of Go's tests do.

    It is below the ephemeral ports: there a client that dials a server which is down can connect to itself.
    """
    for port in random.sample(range(26000, 32000), 1000):
        reservation = socket.socket(type=socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
            return reservation
        except OSError:
            reservation.close()
    pytest.fail("no free port")


class RedisServer:
    """A private Redis that can be stopped and started."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.reservation, self.process = directory, reserve_port(), None
        self.port = self.reservation.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        args = [
            "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory), "--save", "",
            "--appendonly", "yes",
        ]
        self.process = subprocess.Popen(["redis-server", *args], stdout=subprocess.DEVNULL)
        until(self.answers, "redis-server")

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.settimeout(1)
                s.sendall(b"PING\r\n")
                return s.recv(100).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()
    server.reservation.close()


@pytest.fixture
def prefix() -> str:
    return "t:" + uuid.uuid4().hex


def required(name: str) -> str:
    """Return the variable that make client-python sets."""
    if url := os.environ.get(name):
        return url
    pytest.exit(f"{name} is not set: run make client-python, which starts private servers and builds the command", 1)


@pytest.fixture(scope="session")
def amqp_url() -> str:
    return required("AMQP_URL")


@pytest.fixture(scope="session")
def redis_url() -> str:
    return required("REDIS_URL")


class Queue:
    """A queue with a dead-letter queue, and their messages."""

    def __init__(self, url: str, kind: str) -> None:
        import pika

        self.url, self.name, self.dead = url, "py-" + uuid.uuid4().hex[:12], ""
        self.dead = self.name + ".dlq"
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(self.dead, durable=True)
        arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        if kind == "quorum":
            arguments["x-delivery-limit"] = 1000
        self.channel.queue_declare(self.name, durable=True, arguments=arguments)

    def publish(
        self, body: bytes = b"", message_id: object = None, headers: dict | None = None, properties: object = None
    ) -> None:
        import pika

        properties = properties or pika.BasicProperties(message_id=message_id, headers=headers, delivery_mode=2)
        self.channel.basic_publish("", self.name, body, properties, mandatory=True)

    def depth(self, name: str | None = None) -> int:
        return self.channel.queue_declare(name or self.name, passive=True).method.message_count

    def get(self, name: str | None = None):
        return self.channel.basic_get(name or self.dead, auto_ack=True)

    def dead_letters(self) -> list:
        found = []
        while (got := self.get())[0] is not None:
            found.append(got)
        return found

    def close(self) -> None:
        self.channel.queue_delete(self.name)
        self.channel.queue_delete(self.dead)
        self.connection.close()


@pytest.fixture(params=["classic", "quorum"])
def queue(request, amqp_url: str) -> Iterator[Queue]:
    made = Queue(amqp_url, request.param)
    yield made
    made.close()


@pytest.fixture
def classic(amqp_url: str) -> Iterator[Queue]:
    made = Queue(amqp_url, "classic")
    yield made
    made.close()


@pytest.fixture(scope="session")
def strikes() -> str:
    return required("STRIKES")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run both types of queues with pika, and quorum queues with asyncio: the adapters know no types."""
    out = [item for item in items if item.name.endswith("[aio-pika-classic]")]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
