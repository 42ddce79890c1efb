"""Recorded sessions of real consumers get the answers that RocketMQ 5.5.0 gave them."""

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.wire.remoting import Command, CommandReader
from tests.kit import remoting_pair
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import until

RECORDED: Final = Path(remoting_pair.__file__).parent / "remoting"
LEFT_OUT: Final = {"IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"}
"""Fields of the answer to a heartbeat that offer its second version, which is not served."""
PULL: Final = 11
ROUTE: Final = 105
"""Its answers name the broker's own addresses and queues; test_routes.py has them."""
SESSIONS: Final = {
    "j53-push-tag-6": ("az", "zzzzz", "zz", ""),
    "go-push-13": ("aaa", "aaaaaaa", "aaaa", "aaa"),
}
"""Name -> tags of the messages in each of the topic's four queues."""


def commands(name: str) -> list[Command]:
    """Returns the commands in a file."""
    found = CommandReader(lambda code: 1 << 24).receive((RECORDED / name).read_bytes())
    return [one for one in found if isinstance(one, Command)]


def shown(reply: Command) -> dict[str, Any]:
    """Returns the parts of an answer that do not depend on its messages."""
    fields = {name: reply.fields[name] for name in reply.fields if name not in LEFT_OUT}
    content = json.loads(reply.body) if reply.body.startswith(b"{") else bool(reply.body)
    return {"code": reply.code, "fields": fields, "remark": reply.remark, "body": content}


def has_reply(client: RemotingPair, number: int) -> bool:
    """Returns whether a request was answered."""
    client.take()
    return number in client.replies


@pytest.mark.parametrize("name", SESSIONS)
async def test_answers_are_rocketmqs(broker: StoreBroker, client: RemotingPair, name: str) -> None:
    broker.auto_create_groups = True
    broker.store.tables.topics.adopt("RawTopic", 4)
    for queue_id, tags in enumerate(SESSIONS[name]):
        for tag in tags:
            await broker.add("RawTopic", b"x", queue_id=queue_id, TAGS=tag)
    for request in commands(f"{name}.up"):
        client.put(request)
        await client.settled()
        if request.code != PULL and not request.is_one_way:
            await until(partial(has_reply, client, request.opaque))
    broker.pull.drain()  # Ends the wait of pulls.
    await client.settled()
    down = commands(f"{name}.down")
    expected = {one.opaque: shown(one) for one in down if one.is_reply}
    asked = {one.opaque: one.code for one in commands(f"{name}.up")}
    compared = [number for number in expected if asked[number] != ROUTE]
    assert len(compared) > 20
    found = {number: shown(client.replies[number]) for number in compared}
    assert found == {number: expected[number] for number in compared}
    notified = [(one.code, one.fields) for one in down if not one.is_reply]
    assert [(one.code, one.fields) for one in client.asked] == notified
