import asyncio, os
from strikes import AsyncCounter
from strikes.aio_pika import Consumer
e = os.environ
async def handle(d): print(d.id, flush=True)
counter = AsyncCounter.from_url(e["REDIS"])
async def main(): await Consumer(e["QUEUE"], handle, amqp=e["AMQP"], counter=counter, max_retries=1).run()
asyncio.run(main())
