"""Retries a RabbitMQ message at the head of its queue exactly N times, then dead-letters it."""
