"""Prints a topic as it grows: python examples/own/tail.py TOPIC [HOST:PORT] [COUNT]."""

import sys
from itertools import islice

from pocketmq import Client, ClientError, TailQuery


def main(topic: str, endpoint: str = "127.0.0.1:8081", count: str = "") -> None:
    """Follows all queues of a topic, over restarts of the broker too; Ctrl-C ends it."""
    with Client(endpoint) as client:
        messages = client.tail(TailQuery(topic, last_count=10))
        for message in islice(messages, int(count) if count else None):
            print(message.queue_id, message.queue_offset, message.tag, message.body.decode())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except ClientError as error:
        sys.exit(str(error))
