from __future__ import annotations

import os
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
