"""Consumers of both adapters behind one face, so that each test runs on both."""

from __future__ import annotations

import threading

from strikes import AsyncCounter, Counter


class Running:
    """A consumer that runs in a thread."""

    def __init__(self, adapter: str, queue: str, handler, amqp: str, redis: str, prefix: str, **settings) -> None:
        self.events, self.error = [], None
        settings.setdefault("observer", self.events.append)
        settings.setdefault("backoff", lambda failed: 0.01)
        self.consumer, self._run = ADAPTERS[adapter](queue, handler, amqp, redis, prefix, settings)
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as err:
            self.error = err

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def outcomes(self) -> list[str]:
        return [e.outcome.value for e in self.events]

    def stop(self) -> None:
        self.consumer.stop()
        self._thread.join(120)
        assert self.ended, "the consumer did not stop"
        if self.error:
            raise self.error


def _pika(queue, handler, amqp, redis, prefix, settings):
    from strikes.pika import Consumer

    counter = settings.pop("counter", None) or Counter.from_url(redis, prefix=prefix)
    consumer = Consumer(queue, handler, amqp=amqp, counter=counter, **settings)
    return consumer, consumer.run


ADAPTERS = {"pika": _pika}


def _aio(queue, handler, amqp, redis, prefix, settings):
    import asyncio

    from strikes.aio_pika import Consumer

    async def handle(delivery):
        await asyncio.to_thread(handler, delivery)

    counter = AsyncCounter.from_url(redis, prefix=prefix)
    consumer = Consumer(queue, handle, amqp=amqp, counter=counter, **settings)

    async def main():
        try:
            await consumer.run()
        finally:
            await counter.close()

    return consumer, lambda: asyncio.run(main())


ADAPTERS["aio-pika"] = _aio
