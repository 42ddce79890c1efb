"""Receives orders until there are no more: python examples/simple_consumer.py [HOST:PORT]."""

import sys

from rocketmq import ClientConfiguration, Credentials, FilterExpression, SimpleConsumer

endpoint = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
consumer = SimpleConsumer(
    ClientConfiguration(endpoint, Credentials()),
    "auditors",
    {"orders": FilterExpression("paid")},
    await_duration=2,
)
consumer.startup()
try:
    # Messages are invisible to the group for 15 s; unacknowledged ones are then redelivered.
    while messages := consumer.receive(16, 15):
        for message in messages:
            print(message.body.decode(), message.keys, message.properties)
            consumer.ack(message)
finally:
    consumer.shutdown()
