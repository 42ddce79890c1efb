"""Fills a running broker: many topics and queues, three index entries a message.

    python -m torture.load ENDPOINT COUNT SEED

Concurrent senders send batches of 1 to 60 messages to random queues. Prints the acknowledged
numbers: {"messages": …, "queues": …}.
"""

import asyncio
import json
import random
import sys

from pocketmq.client import AsyncClient, Message, Wait

TOPIC_COUNT = 50
QUEUE_COUNT = 8
IN_FLIGHT = 8
BATCH_MAX = 60
TAGS = ["paid", "shipped", "returned", "取消", ""]


def topic_name(number: int) -> str:
    """Returns the name of a topic."""
    return f"torture-{number:02d}"


async def fill(endpoint: str, count: int, seed: int) -> str:
    """Sends messages; returns the acknowledged numbers as JSON."""
    chance = random.Random(seed)
    pool = chance.randbytes(70_000)
    acknowledged, number = 0, 0
    queues: set[tuple[str, int]] = set()

    async def one_sender(client: AsyncClient) -> None:
        nonlocal acknowledged, number
        while number < count:
            size = min(chance.randint(1, BATCH_MAX), count - number)
            topic, queue_id = (
                topic_name(chance.randrange(TOPIC_COUNT)),
                chance.randrange(QUEUE_COUNT),
            )
            batch = []
            for index in range(number, number + size):
                begin = chance.randrange(64_000)
                body = pool[begin : begin + chance.randint(500, 1500)]
                key = f"order-{index}" if index % 50 else f"订单-{index} extra-{index}"
                batch.append(
                    Message(
                        topic=topic, queue_id=queue_id, body=body, keys=key.split(" "),
                        tag=TAGS[index % len(TAGS)] or None,
                    )
                )  # fmt: skip
            number += size
            receipts = await client.send_many(batch, wait=Wait.APPENDED)
            acknowledged += len(receipts)
            queues.add((topic, queue_id))

    async with AsyncClient(endpoint, timeout_ms=60_000, retry_ms=0) as client:
        for topic in range(TOPIC_COUNT):
            await client.admin.create_topic(topic_name(topic), queue_count=QUEUE_COUNT)
        await asyncio.gather(*(one_sender(client) for _ in range(IN_FLIGHT)))
    return json.dumps({"messages": acknowledged, "queues": len(queues)})


if __name__ == "__main__":
    print(asyncio.run(fill(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
