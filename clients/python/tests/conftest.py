from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def until(condition, seconds: float = 20.0, what: str = "the condition"):
    """Wait for a condition, and return what it returned."""
    end = time.monotonic() + seconds
    while not (got := condition()):
        if time.monotonic() > end:
            pytest.fail(f"{what} did not hold within {seconds} s")
        time.sleep(0.02)
    return got


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RedisServer:
    """A private Redis that can be stopped and started."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.process = directory, free_port(), None
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        args = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory), "--save", "", "--appendonly", "yes"]
        self.process = subprocess.Popen(["redis-server", *args], stdout=subprocess.DEVNULL)
        until(self.answers, what="redis-server")

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


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture
def prefix() -> str:
    return "t:" + uuid.uuid4().hex


class Broker:
    """A private RabbitMQ, of the version that is installed."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.process = directory, free_port(), None
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
        program = found[-1] / "rabbitmq-server" if found else "rabbitmq-server"
        (self.directory / "rabbitmq.conf").write_text("log.console = false\n")
        (self.directory / "enabled_plugins").write_text("[].\n")
        env = {
            **os.environ, "HOME": str(self.directory), "RABBITMQ_NODENAME": f"py{self.port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(free_port()), "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_MNESIA_BASE": str(self.directory / "db"), "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
        }
        epmd = subprocess.Popen(["epmd"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        server = subprocess.Popen([str(program)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.process = [server, epmd]
        until(self.answers, 90, "rabbitmq-server")

    def answers(self) -> bool:
        import pika

        try:
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
            return True
        except (pika.exceptions.AMQPError, OSError):
            return False

    def stop(self) -> None:
        for process in self.process or []:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def amqp_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if url := os.environ.get("AMQP_URL"):
        yield url
        return
    broker = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker.url
    finally:
        broker.stop()


class Queue:
    """A queue with a dead-letter queue, and what is in them."""

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

    def publish(self, body: bytes = b"", message_id: object = None, headers: dict | None = None, properties: object = None) -> None:
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
    """The command, which make client-python builds."""
    program = ROOT.parents[1] / "bin/strikes"
    if not program.exists():
        subprocess.run(["go", "build", "-o", str(program), "./cmd/strikes"], cwd=ROOT.parents[1], check=True)
    return str(program)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run both types of queues with pika, and quorum queues with asyncio: the adapters know no types."""
    out = [item for item in items if item.name.endswith("[aio-pika-classic]")]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
