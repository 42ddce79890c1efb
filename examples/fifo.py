"""Keeps the steps of each order in sequence: python examples/fifo.py [HOST:PORT].

The topic has a type: pocketmq topic create steps --type fifo
"""

import sys

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

endpoint = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
configuration = ClientConfiguration(endpoint, Credentials())
producer = Producer(configuration, ("steps",))
producer.startup()
for step in ("paid", "packed", "shipped"):
    for order in ("order-1", "order-2"):
        message = Message()
        message.topic, message.message_group = "steps", order
        message.body = f"{order} {step}".encode()
        producer.send(message)
producer.shutdown()

consumer = SimpleConsumer(configuration, "warehouse", {"steps": FilterExpression()}, 2)
consumer.startup()
while messages := consumer.receive(16, 15):
    for message in messages:
        print(message.body.decode())
        consumer.ack(message)
consumer.shutdown()
