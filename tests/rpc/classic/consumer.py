"""A classic consumer, request by request.

await beat(client, "readers", "orders", id="c1")
reply = await pull(client, "readers", "orders", offset="0")
"""

import json
from typing import Any

from pocketmq.format.record import decode_record
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair


def heartbeat(
    group: str,
    *topics: str,
    id: str = "c1",
    filter: str = "*",
    type: str = "TAG",
    version: int = 7,
    model: str = "CLUSTERING",
) -> bytes:
    """Returns the body of a heartbeat as the client for Java writes it."""
    subscriptions = [
        {
            "classFilterMode": False, "codeSet": [], "expressionType": type, "subString": filter,
            "subVersion": version, "tagsSet": [], "topic": topic,
        }
        for topic in topics
    ]  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": group, "messageModel": model, "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }  # fmt: skip
    content = {
        "clientID": id, "consumerDataSet": [consumer], "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}], "withoutSub": False,
    }  # fmt: skip
    return json.dumps(content).encode()


async def beat(client: RemotingPair, group: str, *topics: str, **own: Any) -> Command:
    """Sends a heartbeat, and returns its reply."""
    return await client.ask(34, {}, heartbeat(group, *topics, **own))


def fields(group: str, topic: str, offset: str = "0", **changed: str) -> dict[str, str]:
    """Returns the fields of a pull that neither waits nor commits."""
    usual = {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": offset,
        "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "15000",
        "subVersion": "0", "expressionType": "TAG", "subscription": "",
    }  # fmt: skip
    return usual | changed


async def pull(client: RemotingPair, group: str, topic: str, **changed: str) -> Command:
    """Sends a pull, and returns its reply."""
    return await client.ask(11, fields(group, topic, **changed))


def bodies(reply: Command) -> list[bytes]:
    """Returns the bodies of the messages in a reply."""
    found, place = [], 0
    while place < len(reply.body):
        message = decode_record(reply.body, place)
        found.append(message.body)
        place += message.store_size
    return found
