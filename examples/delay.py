"""Sends delayed messages, and recalls one of them: python examples/delay.py [HOST:PORT].

The topic has a type: pocketmq topic create reminders --type delay
"""

import sys
import time

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
producer = Producer(configuration, ("reminders",))
producer.startup()
receipts = []
for body, seconds in ((b"drink tea", 2), (b"go to bed", 3600)):
    message = Message()
    message.topic, message.body = "reminders", body
    message.delivery_timestamp = int(time.time()) + seconds
    receipts.append(producer.send(message))
producer.recall_message("reminders", receipts[1].recall_handle)
producer.shutdown()

consumer = SimpleConsumer(configuration, "desk", {"reminders": FilterExpression()}, 4)
consumer.startup()
for message in consumer.receive(16, 15):
    print(message.body.decode())
    consumer.ack(message)
consumer.shutdown()
