"""A broker that has content for each page of the console."""

from pathlib import Path
from typing import Final

from pocketmq.client import AsyncClient, Message, ReceiveQuery
from pocketmq.client.values import GrantState
from tests.golden_stores import GoldenStores

PAGES: Final = {
    "overview": "/", "topics": "/topics?sort=size", "topic": "/topic?name=orders",
    "messages": "/messages?topic=orders&by=key&q=order-1042",
    "message": "/message?topic=orders&{at}",
    "tail": "/tail?topic=orders", "send": "/send?topic=orders", "groups": "/groups?sort=lag",
    "group": "/group?name=billing", "clients": "/clients", "dead-letters": "/dead-letters",
    "dead-letter": "/dead-letters/group?group=billing", "delayed": "/delayed",
    "transactions": "/transactions", "broker-store": "/store",
    "access": "/access?{explain}", "settings": "/settings?only=set",
    "plan": "/topic/plan?name=orders&what=purge", "login": "/login",
}  # fmt: skip
"""Name -> path; {at} is the place of one message, {explain} a question about a right."""
EXPLAIN: Final = "user=shop&action=sub&resource=group:billing&source=10.0.0.7"
TOPICS: Final = {"orders": 60, "payments": 40, "emails": 24, "audit": 12, "invoices": 6}
HOUR_MS: Final = 3_600_000


async def fill(client: AsyncClient) -> str:
    """Gives a broker topics, groups, dead letters, delays, transactions and users.

    Returns   the place of a message of the topic orders, as parameters of a URL
    """
    place = ""
    for topic, count in TOPICS.items():
        for number in range(count):
            sent = await client.send(_message(topic, number))
            if (topic, number) == ("orders", 42):
                place = f"queue={sent.queue_id}&at={sent.queue_offset}"
    for group, topic, taken in (
        ("billing", "orders", 12), ("shipping", "orders", 24), ("ledger", "payments", 40),
    ):  # fmt: skip
        await _consume(client, group, topic, taken)
    for minutes in (1, 3, 8, 45, 90, 90, 300, 1_200):
        await client.send(
            Message("reminders", b"call back", delay_ms=minutes * 60_000, keys=[f"call-{minutes}"])
        )
    for number in range(3):
        await client.send(
            Message("transfers", b"from a to b", transactional=True, producer_group="bank",
                    keys=[f"transfer-{number}"])
        )  # fmt: skip
    rights = client.admin.access
    await rights.create_user("ops", "a-secret-of-ops", admin=True)
    await rights.create_user("shop", "a-secret-of-shop")
    await rights.add_grant(GrantState("shop", ["pub"], "topic:orders"))
    await rights.add_grant(GrantState("shop", ["sub"], "group:billing", sources=["10.0.0.0/8"]))
    await rights.add_grant(GrantState("shop", ["all"], "topic:audit", deny=True))
    return place


def _message(topic: str, number: int) -> Message:
    body = (
        f'{{"order": {1000 + number}, "customer": "c-{number * 7 % 50}", '
        f'"total": {number * 37 % 400 + 9.5}, "items": {number % 5 + 1}}}'
    )
    return Message(
        topic, body.encode(), keys=[f"order-{1000 + number}"],
        tag=("paid", "new", "shipped")[number % 3],
        properties={"region": ("eu", "us")[number % 2], "source": "web-shop"},
    )  # fmt: skip


async def _consume(client: AsyncClient, group: str, topic: str, count: int) -> None:
    """Lets two members of a group consume; the last message becomes a dead letter."""
    await client.admin.create_group(group)
    taken = 0
    while taken < count:
        query = ReceiveQuery(
            group, topic, max_messages=min(count - taken, 8), begin="min", wait_ms=5_000,
            client_id=f"{group}-{taken // 8 % 2 + 1}@10.0.0.{taken // 8 % 2 + 4}",
        )  # fmt: skip
        got = await client.receive(query)
        handles = [one.receipt_handle for one in got]
        if group == "billing" and taken == 0:
            await client.forward_to_dead_letters(group, topic, handles[:2])
            handles = handles[2:]
        elif group == "billing":
            handles = handles[1:]  # One message stays in flight.
        await client.ack(group, topic, handles)
        taken += len(got)


def damaged(golden: GoldenStores, target: Path) -> Path:
    """Makes a store of RocketMQ with 8 lost messages."""
    copy = golden.copy("basic", target)
    file = copy / "commitlog" / "00000000000001310720"
    content = bytearray(file.read_bytes())
    content[20_000:23_000] = b"\xff" * 3_000
    file.write_bytes(content)
    return copy
