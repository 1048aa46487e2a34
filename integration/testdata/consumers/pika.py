import os
from strikes import Counter
from strikes.pika import Consumer
e = os.environ
Consumer(e["QUEUE"], lambda d: print(d.id, flush=True), amqp=e["AMQP"], counter=Counter.from_url(e["REDIS"]),
    max_retries=1).run()
