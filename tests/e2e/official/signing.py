"""RocketMQ's own client for Python with an access key, run as a process of its own.

python signing.py ENDPOINT KEY SECRET send|receive TOPIC [GROUP]      one JSON document
"""

import json
import sys

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)


def main(endpoint: str, key: str, secret: str, action: str, topic: str, group: str = "") -> None:
    """Runs one action under a user's keys and prints the outcome."""
    configuration = ClientConfiguration(endpoint, Credentials(key, secret), request_timeout=5)
    try:
        if action == "send":
            told = send(Producer(configuration, (topic,)), topic)
        else:
            told = receive(
                SimpleConsumer(configuration, group, {topic: FilterExpression()}, await_duration=5)
            )
    except Exception as error:  # noqa: BLE001 - what the client makes of a refusal is told
        told = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(told), flush=True)


def send(producer: Producer, topic: str) -> dict[str, str]:
    """Sends a message."""
    producer.startup()
    message = Message()
    message.topic, message.body = topic, b"signed"
    message_id = producer.send(message).message_id
    producer.shutdown()
    return {"message_id": message_id}


def receive(consumer: SimpleConsumer) -> dict[str, str]:
    """Receives and acknowledge a message."""
    consumer.startup()
    (got,) = consumer.receive(1, 15)
    consumer.ack(got)
    consumer.shutdown()
    return {"body": got.body.decode()}


if __name__ == "__main__":
    main(*sys.argv[1:])
