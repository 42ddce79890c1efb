"""Recorded runs of clients, mqadmin, Dashboard and exporter get the replies that RocketMQ gave.

Each request is sent as it was recorded, on a connection of its own where it had one, to a broker
with the messages, offsets and other clients that the recorded replies show. Code, remark, fields
and body of each reply are compared: JSON by its content, messages by their parts, and of a body cut
short the messages or names in its recorded part. The tables here explain each difference.
"""

import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from pocketmq.model.message import StoredMessage
from pocketmq.wire.remoting import Command
from tests.kit.recorded_programs import (
    Frame,
    World,
    body_of,
    content_of,
    is_cut,
    json_of,
    messages_of,
    programs,
    request_of,
    subscriptions,
)  # fmt: skip
from tests.kit.remoting_pair import RemotingPair
from tests.kit.store_broker import StoreBroker, store_broker
from tests.kit.store_language import until

RUNS: Final = programs()
TEXTS: Final = (
    (re.compile(r"/?\b(127\.0\.0\.1|10\.0\.0\.9|192\.0\.2\.1):\d+"), "ADDRESS"),
    (re.compile(r"\b17\d{11}\b"), "0"),
)
"""Addresses and times -> what stands for them."""
FIELDS: Final = {
    "IS_SUPPORT_HEART_BEAT_V2": "the second version of heartbeats is not served",
    "IS_SUB_CHANGE": "the same",
    "x-request-id": "PocketMQ's refusals have it, for their line in the log",
    "indexLastUpdateTimestamp": "time and place of the newest message found, not of the index",
    "indexLastUpdatePhyoffset": "the same",
    "version": "PocketMQ's settings have no version",
    "totalTopicNum": "the recorded broker had topics of its own",
    "totalGroupNum": "the recorded broker had groups of its own",
    "wipeTopicCount": "the recorded broker had topics of its own",
    "addTopicCount": "the same",
}
"""Fields that differ -> why."""
MEMBERS: Final = {
    "consumeTps": "messages of a run are delivered in no time",
    "pullOffset": "PocketMQ knows what a group has committed, not what it pulled since",
    "masterCommitLogMaxOffset": "the size of the log", "physicOffset": "place in the log",
    "physicSize": "the size of another message", "tagsCode": "the tag of another message",
    "topicPutTps": "messages of a run are stored in no time",
    "sum": "counts of other messages", "tps": "the same", "avgpt": "the same",
    "topicList": "the recorded broker had topics of its own",
    "brokerVersionDesc": "PocketMQ's version",
}  # fmt: skip
OPTIONAL: Final = {
    "orderTopicConf": "topics in order have it also without a setting (dashboard.md)"
}
"""Members of JSON that RocketMQ's reply may lack -> why."""
"""Members of JSON whose values differ -> why."""
BY_NAMES: Final = {28: "numbers of another broker"}
"""Code of requests of whose replies only the members' names are compared -> why."""
NAME: Final = re.compile(r'"([a-z][a-zA-Z]+)":')
"""A member's name in JSON that may be cut."""
ROUTE, SEND_BACK, END, REPLY, MEMBERS_CHANGED = 105, 36, 37, 325, 40
UNSET: Final = "not set any response code"
"""Remark of some of RocketMQ's good replies; no client reads it."""
EXPLAINED: Final = {
    25: "only settings that PocketMQ has can be changed: waitTimeMillsInSendQueue is refused",
    3442: "a pop in the binary header, whose code is cut to 16 bits, is served",
    200050: "queues are asked in another order; test_pop.py compares the fields",
    200051: "the receipt of a recorded pop; test_pop.py has acks",
    **dict.fromkeys((3001, 3003, 3004, 3005, 3006, 3008, 3010), "that broker had no users"),
}
"""Code of requests whose replies differ -> why."""
EXPLAINED_OF: Final = {
    (11, "%RETRY%c-pop"): "a group that pops may not pull",
    (15, "c-clone"): "a commit creates its group (broker.auto_create_groups)",
    (208, "CID_RMQ_SYS_TRANS"): "no group of PocketMQ reads half messages",
    (300, "RMQ_SYS_TRANS_HALF_TOPIC"): "the same",
    (310, "ReqTopic"): "its message was put for a pull, which waited for it and is sent before",
    (315, "RMQ_SYS_TRANS_HALF_TOPIC"): "only messages of clients are counted",
    (315, "SCHEDULE_TOPIC_XXXX"): "the same",
    (315, "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"): "the same",
    (328, "exporter"): "the end of a client was not recorded",
    (400, "%RETRY%c-pop"): "pops include the retry topic, so it is assigned to no client",
}
"""Code, and topic or group, of requests whose replies differ -> why."""


def plain(text: str) -> str:
    """Returns a text without addresses and times."""
    for part, name in TEXTS:
        text = part.sub(name, text)
    return text


def settled(value: Any) -> Any:
    """Returns a JSON value without the values that differ, and with lists in order."""
    if type(value) is dict:
        return {n: "" if n in MEMBERS else settled(value[n]) for n in value if n not in OPTIONAL}
    if type(value) is list:  # A client of the world and of the run has two connections.
        found = sorted(map(settled, value), key=str)
        return [one for one, before in zip(found, (None, *found), strict=False) if one != before]
    return value


def parts(one: StoredMessage) -> tuple[Any, ...]:
    """Returns the parts of a message, without hosts, store time and its place in the log."""
    return (
        one.topic, one.queue_id, one.queue_offset, one.body, one.properties, one.flag,
        one.system_flag, one.reconsume_times, one.born_timestamp_ms,
    )  # fmt: skip


def body_shown(body: bytes, told: Frame, *, by_names: bool) -> Any:
    """Returns what is compared of a body.

    told      the recorded reply, which decides how much is compared
    by_names  only the names of members
    """
    raw = body_of(told)
    if raw[:1] == b"\0":
        count = len(messages_of(raw)) if is_cut(told) else None
        return [parts(one) for one in messages_of(body)[:count]]
    if is_cut(told) or by_names:
        wanted = {*NAME.findall(raw.decode(errors="replace"))}
        return sorted(wanted & set(NAME.findall(body.decode())))
    if body[:1] in (b"{", b"["):
        return settled(json.loads(plain(json.dumps(content_of(body.decode())))))
    return body


def shown(request: Frame, reply: Command, told: Frame) -> dict[str, Any]:
    """Returns what is compared of a reply."""
    fields = {name: plain(text) for name, text in reply.fields.items() if name not in FIELDS}
    if "msgId" in fields and request["code"] == REPLY:
        del fields["msgId"], fields["queueOffset"]  # Replies are passed on, and not stored.
    elif "msgId" in fields:  # Each contains address and place of a message.
        fields["msgId"] = " ".join(str(len(one)) for one in fields["msgId"].split(","))
        if "TRAN_MSG" in request["fields"].get("i", request["fields"].get("properties", "")):
            del fields["queueOffset"]  # All half messages share one queue.
    remark = "" if reply.remark == UNSET else plain(reply.remark)
    if request["code"] == ROUTE and reply.code:
        remark = ""  # PocketMQ's states the next step.
    return {
        "code": reply.code, "remark": remark, "fields": fields,
        "body": body_shown(reply.body, told, by_names=request["code"] in BY_NAMES),
    }  # fmt: skip


def names_in(row: Frame) -> set[str]:
    """Returns the names by which a request may be listed."""
    return {*row.get("fields", {}).values(), json_of(row).get("topic", ""), row["program"]}


def is_explained(row: Frame) -> bool:
    """Returns whether the reply to a request is listed as another one."""
    pairs = {(row["code"], name) for name in names_in(row)}
    return row["code"] in EXPLAINED or not EXPLAINED_OF.keys().isdisjoint(pairs)


class Run:
    """A recorded run, sent to a broker."""

    def __init__(self, broker: StoreBroker, rows: list[Frame]) -> None:
        self.broker, self.rows = broker, rows
        self.world = World(broker, rows)
        self.clients: dict[int, RemotingPair] = {}
        self.halves: dict[str, Command] = {}
        """Id of a transaction -> reply to the send of its half message."""
        self.answered: set[tuple[int, int]] = set()

    def client(self, number: int) -> RemotingPair:
        """Returns the connection with this number in the recording."""
        if number not in self.clients:
            self.clients[number] = RemotingPair(self.broker.classic.service())
        return self.clients[number]

    def notified(self) -> set[tuple[int, str]]:
        """Returns connection and group of the broker's notices so far."""
        for client in self.clients.values():
            client.take()
        return {
            (number, one.fields["consumerGroup"])
            for number, client in self.clients.items()
            for one in client.asked
            if one.code == MEMBERS_CHANGED
        }

    async def ask(self, row: Frame) -> Command | None:
        """Sends a request; returns its reply, None of a one-way request."""
        client, request = self.client(row["conn"]), await self.translated(row)
        client.put(request)
        if request.is_one_way:
            await client.idle()
            return None
        await until(lambda: self._has_reply(client, request.opaque))
        reply = client.replies.pop(request.opaque)
        self.halves[reply.fields.get("transactionId", "")] = reply
        return reply

    def _has_reply(self, client: RemotingPair, opaque: int) -> bool:
        self._pass_on()
        return client.has_reply(opaque)

    def _pass_on(self) -> None:
        """Answers the broker's questions to consumers as the recorded consumers did."""
        for client in (*self.clients.values(), *self.world.others.values()):
            client.take()
            for one in client.asked:
                key = id(client), one.opaque
                told = self._recorded_answer(one)
                if told is not None and key not in self.answered:
                    self.answered.add(key)
                    client.put(
                        Command(told["code"], {}, body_of(told), one.opaque, flag=1, remark=UNSET)
                    )

    def _recorded_answer(self, question: Command) -> Frame | None:
        same = [
            row["reply"] for row in self.rows if row["code"] == question.code and "reply" in row
        ]
        return same[0] if same else None

    async def translated(self, row: Frame) -> Command:
        """Returns a request with places of messages in this broker's log."""
        request = request_of(row)
        changed = {}
        if request.code == END:
            sent = self.halves[request.fields["transactionId"]].fields
            changed = {
                "tranStateTableOffset": sent["queueOffset"],
                "commitLogOffset": str(int(sent["msgId"][-16:], 16)),
            }
        elif request.code == SEND_BACK:
            key = request.fields["originMsgId"]
            (found,) = [one for one in await self.broker.messages() if one.unique_key == key]
            changed = {"offset": str(found.physical_offset)}
        return request._replace(fields={**request.fields, **changed})


@pytest.fixture
async def wide() -> AsyncIterator[StoreBroker]:
    """A broker that creates topics and groups like the recorded one; its pulls do not wait."""
    async with store_broker(queue_count=8) as broker:
        broker.auto_create_groups = True
        broker.pull.drain()
        yield broker


@pytest.mark.parametrize("name", RUNS)
async def test_replies_are_rocketmqs(wide: StoreBroker, name: str) -> None:
    run = Run(wide, RUNS[name])
    await run.world.begin()
    found, expected = [], []
    for row in run.rows:
        if row.get("way") == "down":
            continue
        await run.world.before(row)
        reply, told = await run.ask(row), row.get("reply")
        if told is None or is_explained(row):
            continue
        assert reply is not None
        found.append((row["code"], "", shown(row, reply, told)))
        theirs = Command(
            told["code"], told.get("fields", {}), body_of(told), remark=told.get("remark", "")
        )
        expected.append((row["code"], "", shown(row, theirs, told)))
    assert found == expected
    await until(lambda: notices(run.rows) <= run.notified())


def notices(rows: list[Frame]) -> set[tuple[int, str]]:
    """Returns connection and group of recorded notices to clients whose heartbeats are recorded."""
    beats = {(row["conn"], group) for row in rows for group, _ in subscriptions(row)}
    told = [row for row in rows if row.get("way") == "down" and row["code"] == MEMBERS_CHANGED]
    return beats & {(row["conn"], row["fields"]["consumerGroup"]) for row in told}


def test_explanations_are_of_recorded_requests() -> None:
    rows = [row for rows in RUNS.values() for row in rows if "reply" in row and "way" not in row]
    assert len(rows) == 998
    codes = {row["code"] for row in rows}
    assert EXPLAINED.keys() <= codes
    assert sum(not is_explained(row) for row in rows) == 962
    pairs = {(row["code"], name) for row in rows for name in names_in(row)}
    assert EXPLAINED_OF.keys() <= pairs
