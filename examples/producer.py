"""Sends three messages: python examples/producer.py [HOST:PORT]."""

import sys

from rocketmq import ClientConfiguration, Credentials, Message, Producer

endpoint = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
producer = Producer(ClientConfiguration(endpoint, Credentials()), ("orders",))
producer.startup()
try:
    for number in range(40, 43):
        message = Message()
        message.topic = "orders"
        message.body = f"order {number} paid".encode()
        message.tag = "paid"
        message.keys = f"order-{number}"
        message.add_property("country", "NO")
        receipt = producer.send(message)
        print("sent", receipt.message_id)
finally:
    producer.shutdown()
