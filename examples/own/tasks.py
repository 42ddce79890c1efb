"""A producer and a consumer as tasks of asyncio: python examples/own/tasks.py [HOST:PORT]."""

import asyncio
import sys

from pocketmq import AsyncClient, ClientError, Message, PullQuery

TOPIC, GROUP, COUNT = "example-tasks", "example-readers", 10


async def produce(client: AsyncClient) -> None:
    """Sends messages, each by itself; they keep their order by their group."""
    for number in range(COUNT):
        message = Message(TOPIC, f"step {number}".encode(), message_group="customer-7", queue_id=0)
        try:
            await client.send(message)
        except ClientError as error:
            if not error.is_uncertain:
                raise
            # The answer got lost: it may be stored. Send it again only if it is not there.
            print("look for", error.message_ids, "before sending again")


async def consume(client: AsyncClient) -> None:
    """Reads where the group stands, and let it stand behind what was read."""
    position = await client.fetch_offset(GROUP, TOPIC, 0) or 0
    left = COUNT
    while left > 0:
        page = await client.pull(PullQuery(TOPIC, 0, position, group=GROUP, wait_ms=5_000))
        for message in page.messages:
            print(message.queue_offset, message.body.decode())
        left -= len(page.messages)
        position = page.next_begin_offset
        await client.commit_offset(GROUP, TOPIC, 0, position)


async def main(endpoint: str) -> None:
    """Uses one client for both."""
    async with AsyncClient(endpoint) as client:
        await client.admin.create_topic(TOPIC, queue_count=1, type_name="FIFO")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consume(client))
            tasks.create_task(produce(client))


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"))
    except ClientError as error:
        sys.exit(str(error))
