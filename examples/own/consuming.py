"""Consumes as a group does, with retries: python examples/own/consuming.py [HOST:PORT]."""

import sys

from pocketmq import Client, ClientError, Leased, Message, PullQuery, ReceiveQuery, errors

TOPIC, GROUP = "example-consuming", "example-workers"


def work(one: Leased) -> None:
    """Do what a message asks for; one of them fails."""
    print(one.message.body.decode(), "attempt", one.attempt)
    if one.message.tag == "broken":
        raise ValueError("this one cannot be worked off")


def main(endpoint: str) -> None:
    """Sends some messages, and settles each as its work went."""
    with Client(endpoint) as client:
        client.admin.create_topic(TOPIC, queue_count=1)
        try:
            client.admin.create_group(GROUP)
        except errors.GroupExists:
            print("the group has other settings; they stay")

        # A group begins where it is first heard of: receive once, then what is sent is for it.
        client.receive(ReceiveQuery(GROUP, TOPIC))
        client.send_many([Message(TOPIC, b"invoice %d" % n) for n in range(3)])
        client.send(Message(TOPIC, b"nonsense", tag="broken"))

        # One by one: what the body got through is acknowledged when it asks for the next.
        for one in client.consume(ReceiveQuery(GROUP, TOPIC), count_max=3):
            work(one)

        # By hand: each lease is settled by its handle before it ends.
        for one in client.receive(ReceiveQuery(GROUP, TOPIC, wait_ms=5_000)):
            try:
                work(one)
                client.ack(GROUP, TOPIC, [one.receipt_handle])
            except ValueError as error:
                print("given up:", error)
                client.forward_to_dead_letters(GROUP, TOPIC, [one.receipt_handle])

        # What a group gave up is its own to read; `pocketmq dlq redrive` sends it again.
        given_up = PullQuery(f"%DLQ%{GROUP}", 0, 0, group=GROUP, wait_ms=5_000)
        print("dead letter:", client.pull(given_up).messages[0].body.decode())


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081")
    except ClientError as error:
        sys.exit(str(error))
