"""Sends two messages, reads them, looks them up: python examples/own/blocking.py [HOST:PORT]."""

import sys

from pocketmq import Client, ClientError, KeyQuery, Message, PullQuery, errors

WAIT_MS = 5_000


def main(endpoint: str) -> None:
    """Uses a broker as a program without an event loop does."""
    with Client(endpoint) as client:
        try:
            topic = client.admin.create_topic("example-blocking", queue_count=1)
        except errors.TopicExists as error:
            print("the topic has", error.queue_count, "queues already")
            topic = client.admin.describe_topic("example-blocking")

        paid = Message(topic.name, b"order 42 paid", keys=["order-42"], tag="paid")
        shipped = Message(topic.name, b"order 42 shipped", keys=["order-42"], tag="shipped")
        first, second = client.send_many([paid, shipped])
        print("stored:", first.message_id, "and", second.message_id)

        # Messages can be read once they are in their queue: a pull at its end waits for them.
        tagged = PullQuery(topic.name, 0, first.queue_offset, expression="paid", wait_ms=WAIT_MS)
        page = client.pull(tagged)
        print("pulled:", page.messages[0].body.decode())

        found = client.query_by_key(KeyQuery(topic.name, "order-42", count_max=2))
        print("by key:", [message.body.decode() for message in found.messages])
        print("by id:", client.query_by_id(topic.name, second.message_id).body.decode())


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081")
    except ClientError as error:
        sys.exit(str(error))
