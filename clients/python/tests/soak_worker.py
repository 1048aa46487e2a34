"""A consumer process of the soak: integration/lab/soak/languages.go describes its work, and starts it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import pika  # noqa: E402

import strikes.pika  # noqa: E402
from strikes import Counter, Delivery, Event, Reject  # noqa: E402
from strikes.steps import Call  # noqa: E402

SECOND = 1e9  # durations come in nanoseconds
EARLY = 0.1  # the client's deadline is a little before that of its handler's own clock

spec = json.loads(os.environ["STRIKES_WORKER"])
log = os.open(Path(spec["History"]) / f"{spec['Number']:06d}.ndjson", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)


class Job(Exception):
    """The job says so."""


class Sessions:
    """Numbers the connections of this process."""

    def __init__(self) -> None:
        self.number = 0
        self.stopping = False


sessions = Sessions()


def write(kind: str, **fields: Any) -> None:
    """Append an event to the history, in one write."""
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    event = {
        "kind": kind, "at": now, "process": spec["Number"], **{name: value for name, value in fields.items() if value},
    }
    os.write(log, json.dumps(event).encode() + b"\n")


class Watching(Counter):
    """A Counter that writes down that BEGUN is sent."""

    def run(self, call: Call) -> Any:
        if call.name == "begun":  # the process may die before the handler begins
            write("asked", id=text(call.args[2]), token=str(call.args[1]))
        return super().run(call)


class Wire(strikes.pika.Wire):
    """A connection that writes down its beginning, and its end unless the process stops."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        sessions.number += 1
        self.session = sessions.number
        write("opened", session=self.session)

    def close(self) -> None:
        if hasattr(self, "session") and (self.lost or not sessions.stopping):
            write("lost", session=self.session, err=str(self.lost or "hung up"))
        super().close()


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def handle(delivery: Delivery) -> None:
    attempt = delivery.attempt
    job: Mapping[str, Any] = json.loads(delivery.body)
    run = {"id": text(delivery.id), "token": attempt.token, "session": sessions.number}
    write("began", **run)
    deadline = time.monotonic() + spec["HandlerTimeout"] / SECOND - EARLY
    outcome = "ok"
    try:
        work(job, delivery)
    except Reject:
        outcome = "rejected"
        raise
    except Job:
        outcome = "failed"
        raise
    except SystemExit:
        outcome = "panicked"
        raise
    except TimeoutError:
        outcome = "timed-out" if time.monotonic() >= deadline else "cancelled"
        raise
    finally:
        write("ended", outcome=outcome, **run)


def work(job: Mapping[str, Any], delivery: Delivery) -> None:
    """Do the job. Kill does not return."""
    attempt, do = delivery.attempt, job["do"]
    if not rest(job["ms"] / 1000, delivery):
        raise TimeoutError
    if do in ("succeed", "slow") or do == "fail" and attempt.number > job["times"]:
        return
    if do == "reject":
        raise Reject("the job says so")
    if do == "panic":
        raise SystemExit("the job says so")
    if do == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    if do in ("hang", "deaf"):
        while not attempt.cancelled:
            time.sleep(0.005)
        if do == "deaf":
            time.sleep(3)
        raise TimeoutError
    raise Job("the job says so")


def rest(seconds: float, delivery: Delivery) -> bool:
    """Wait. It reports whether the handler was not cancelled meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not delivery.attempt.cancelled:
        time.sleep(min(left, 0.01))
    return not delivery.attempt.cancelled


def observe(event: Event) -> None:
    if event.outcome.value == "dead-letter":
        write("decided", id=text(event.id), token=event.token)


def die_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


def main() -> None:
    logging.basicConfig(level=logging.CRITICAL)
    threading.Thread(target=die_with_parent, daemon=True).start()
    strikes.pika.Wire = Wire  # type: ignore[misc]
    first, most = spec["FirstBackoff"] / SECOND, spec["MostBackoff"] / SECOND
    parameters = pika.URLParameters(spec["AMQP"])
    parameters.heartbeat = int(spec["Heartbeat"] / SECOND)
    consumer = strikes.pika.Consumer(
        spec["Queue"], handle, amqp=parameters, counter=Watching.from_url(spec["Redis"]),
        max_retries=spec["MaxRetries"], concurrency=spec["Concurrency"], prefetch=spec["Prefetch"],
        backoff=lambda failed: min(first * 2 ** min(failed, 20), most),
        handler_timeout=spec["HandlerTimeout"] / SECOND, consumer_timeout=spec["ConsumerTimeout"] / SECOND,
        drain_timeout=5, observer=observe,
    )

    def stop(*_: Any) -> None:
        sessions.stopping = True
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    error: Exception | None = None
    try:
        consumer.run()
    except Exception as err:
        error = err
    if error:
        print(f"worker: {error}", file=sys.stderr)
        os._exit(1)
    os._exit(0)  # threads of abandoned handlers may run


main()
