"""Sends messages for later and takes one back: python examples/own/delays.py [HOST:PORT]."""

import sys

from pocketmq import Client, ClientError, Message, ReceiveQuery

TOPIC, GROUP = "example-delays", "example-desk"


def main(endpoint: str) -> None:
    """Sends reminders, recall one, and receive those that are left when they are due."""
    with Client(endpoint) as client:
        client.admin.create_topic(TOPIC, queue_count=1, type_name="delay")
        client.admin.create_group(GROUP)
        client.receive(ReceiveQuery(GROUP, TOPIC))  # the group begins here

        client.send(Message(TOPIC, b"in two seconds", delay_ms=2_000))
        client.send(Message(TOPIC, b"when level 2 is over", delay_level=2))
        later = client.send(Message(TOPIC, b"in an hour", delay_ms=3_600_000))

        for waiting in client.admin.list_delayed(TOPIC).items:
            print("waits:", waiting.message_id, "until", waiting.deliver_at_ms)
        print("taken back:", client.recall(TOPIC, later.recall_handle))

        for one in client.consume(ReceiveQuery(GROUP, TOPIC, wait_ms=10_000), count_max=2):
            print("due:", one.message.body.decode())


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081")
    except ClientError as error:
        sys.exit(str(error))
