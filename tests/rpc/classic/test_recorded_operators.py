"""Recorded requests of mqadmin, Dashboard and exporter get replies like those of RocketMQ 5.5.0.

A reply is compared by its code, the names of its fields, and the members of its body with their
types. Members of maps by name, as of topics, count as one.
"""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pocketmq.wire.remoting import Command
from tests.kit import remoting_pair
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker
from tests.rpc.classic.consumer import beat

RECORDED: Final = Path(remoting_pair.__file__).parent / "remoting" / "operators.jsonl"
KEY: Final = re.compile(r"([{,])(\{[^{}]*\}|\d+):")
MAPS: Final = (
    "offsetTable", "brokerAddrTable", "brokerAddrs", "clusterAddrTable", "subscriptionTable",
    "data", "attributes", "filterServerTable",
)  # fmt: skip
"""Members that are maps by name."""
EXPLAINED: Final = {
    ("mqadmin", 15, "ScTopic"): "a commit creates its group (broker.auto_create_groups)",
    ("mqadmin", 105, "%RETRY%c-hold"): "the recorded group had no client then",
}
"""(program, code, what its fields name) -> why the reply is another one."""
OWN_FIELD: Final = "x-request-id"
"""Field of PocketMQ's refusals, for their line in the log."""


class Shape(NamedTuple):
    """The parts of a reply that do not depend on the store's content."""

    code: int
    fields: list[str]
    body: Any


def shape_of(value: Any, *, is_map: bool = False) -> Any:
    """Returns a JSON value with types in place of values."""
    if type(value) is dict and is_map:
        return [shape_of(one) for one in value.values()][:1]
    if type(value) is dict:
        return {key: shape_of(value[key], is_map=key in MAPS) for key in sorted(value)}
    if type(value) is list:
        return [shape_of(one) for one in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


def shape(code: int, fields: dict[str, str], body: str) -> Shape:
    """Returns the shape of a reply."""
    found = json.loads(KEY.sub(lambda m: f"{m[1]}{json.dumps(m[2])}:", body)) if body else None
    return Shape(code, sorted(fields.keys() - {OWN_FIELD}), shape_of(found))


def subject_of(row: dict[str, Any]) -> str:
    """Returns what a request is about."""
    names = ("statsKey", "topic", "consumerGroup", "producerGroup", "groupName", "key")
    return next((row["fields"][name] for name in names if name in row["fields"]), "")


async def stocked(broker: StoreBroker, client: RemotingPair) -> None:
    """Makes the topics, groups and clients that the recorded requests name."""
    broker.auto_create_groups = True
    topics = broker.store.tables.topics
    topics.adopt("ScTopic", 4)
    for queue_id, count in enumerate((6, 8, 14, 14)):
        await broker.add("ScTopic", *[b"x"] * count, queue_id=queue_id, TAGS="a")
    for topic in ("ReqTopic", "HoldTopic", "RMQ_SYS_TRANS_HALF_TOPIC"):
        topics.adopt(topic, 1)
        broker.send.counts.count(topic, "normal", 1, 10)
    for group in ("c-push", "c-assign", "go-pull", "c-hold"):
        await beat(client, group, "ScTopic")
        offset = {"consumerGroup": group, "queueId": "0"}
        await client.ask(15, {**offset, "topic": "ScTopic", "commitOffset": "0"})
    held = {"consumerGroup": "c-hold", "queueId": "0", "topic": "%RETRY%c-hold"}
    await client.ask(15, {**held, "commitOffset": "0"})
    made = {"clientID": "p1", "producerDataSet": [{"groupName": "p-hold"}]}
    await client.ask(34, {}, json.dumps(made).encode())
    for group in ("c-assign", "go-pull"):
        await client.ask(35, {"clientID": "c1", "consumerGroup": group})


@pytest.mark.parametrize("program", ["exporter", "dashboard", "mqadmin"])
async def test_replies_are_like_rocketmqs(
    broker: StoreBroker, client: RemotingPair, program: str
) -> None:
    await stocked(broker, client)
    rows = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
    found, expected = {}, {}
    for row in rows:
        key = (program, row["code"], subject_of(row))
        if row["program"] != program or key in EXPLAINED:
            continue
        reply: Command = await client.ask(row["code"], row["fields"], row["body"].encode())
        told = row["reply"]
        found[key] = shape(reply.code, dict(reply.fields), reply.body.decode())
        expected[key] = shape(told["code"], told["fields"], told["body"])
    assert len(found) > 8
    different = {key: (found[key], expected[key]) for key in found if found[key] != expected[key]}
    assert not different
