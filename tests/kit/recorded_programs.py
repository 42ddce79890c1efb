"""Programs that a tap recorded between them and a RocketMQ 5.5.0, request by request.

The rows are in `remoting/programs.jsonl.gz`: 46 runs of clients for Java and Go, and 101 of
mqadmin, Dashboard and exporter. Each kind of request of a run is recorded at most three times, and
bodies up to 1.5 KB; so a run is no complete session. A `World` gives a broker the messages, offsets
and clients that the recorded replies show, as far as no recorded request makes them.
"""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.message import KEYS, TAGS, UNIQUE_KEY, StoredMessage
from pocketmq.wire.remoting import Command
from tests.kit.remoting_pair import RemotingPair
from tests.kit.rows import Row, batch
from tests.kit.store_broker import StoreBroker
from tests.kit.store_language import BORN_HOST, STORE_HOST

RECORDED: Final = Path(__file__).parent / "remoting" / "programs.jsonl.gz"
NOW_MS: Final = 1_795_697_700_000
"""A time after every recorded message."""
KEY: Final = re.compile(r"([{,])(\{[^{}]*\}|\d+):")
DELAY: Final = re.compile("DELAY\x01(\\d+)")
OWN_SUBSCRIPTION: Final = 4
"""Bit of a pull with a subscription of its own."""
POPS: Final = {200050, 3442}
PULLS: Final = {11, 361}
SENDS: Final = {310, 10, 320}
OFFSETS: Final = {29, 30}
QUERY, QUERY_OFFSET, COMMIT, HEARTBEAT, MEMBERS = 12, 14, 15, 34, 38
SETTING, ROUTE, GROUPS, RATE, TOPIC, ASSIGN, POP_MODE = 100, 105, 300, 315, 351, 400, 401
DEFAULT_TOPIC, DELAYS = "TBW102", "SCHEDULE_TOPIC_XXXX"
Frame = Mapping[str, Any]
"""A recorded frame: code, fields, text or b64 (its body), remark, size (of a body cut short)."""


def programs() -> dict[str, list[Frame]]:
    """Returns the requests of each run, in order, each with its reply if that was recorded."""
    found: dict[str, list[Frame]] = {}
    for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines():
        row = json.loads(line)
        found.setdefault(row["program"], []).append(row)
    return found


def body_of(frame: Frame) -> bytes:
    """Returns the recorded part of a body."""
    return base64.b64decode(frame["b64"]) if "b64" in frame else frame.get("text", "").encode()


def is_cut(frame: Frame) -> bool:
    """Returns whether only the beginning of a body was recorded."""
    return "size" in frame


def request_of(row: Frame) -> Command:
    """Returns a recorded request as it was sent."""
    return Command(
        row["code"], row.get("fields", {}), body_of(row), row["opaque"], row.get("flag", 0),
        row.get("remark", ""), row.get("language", "JAVA"), row["version"], row.get("ser", 0),
    )  # fmt: skip


def content_of(text: str) -> Any:
    """Returns the content of JSON as RocketMQ writes it: keys may be objects or numbers."""
    return json.loads(KEY.sub(lambda m: f"{m[1]}{json.dumps(m[2])}:", text))


def json_of(frame: Frame) -> dict[str, Any]:
    """Returns a frame's body, if that is a JSON object recorded whole; else {}."""
    text = frame.get("text", "")
    return content_of(text) if text.startswith("{") and not is_cut(frame) else {}


def messages_of(body: bytes) -> list[StoredMessage]:
    """Returns the messages whose records a body contains whole."""
    found, place = [], 0
    while place + 4 <= len(body):
        size = int.from_bytes(body[place : place + 4])
        if place + size > len(body):
            break
        found.append(decode_record(body, place))
        place += size
    return found


def queues_of(content: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Yields topic, queue and values of each row of an offsetTable."""
    for key, value in content.get("offsetTable", {}).items():
        queue = json.loads(key)
        row = value if type(value) is dict else {"brokerOffset": value, "consumerOffset": value}
        yield queue["topic"], queue["queueId"], row


class World:
    """Messages, offsets and clients that a broker has to contain for a run.

    invariant   a queue's recorded messages are put at their recorded queue offsets
    """

    def __init__(self, broker: StoreBroker, rows: list[Frame]) -> None:
        self.broker, self.rows = broker, rows
        self.queue_counts: dict[str, int] = {}
        self.absent: set[str] = set()
        """Topics that did not exist when the run began."""
        self.permissions: dict[str, int] = {}
        self.topics: dict[str, Frame] = {}
        """Topic -> its recorded settings."""
        self.consumers: dict[str, Frame] = {}
        """Group -> its recorded clients and subscriptions."""
        self.ids: dict[str, str] = {}
        """Group -> id of a client in the run."""
        self.recorded: dict[tuple[str, int, int], StoredMessage] = {}
        self.subscribed: set[tuple[str, str]] = set()
        """Group and topic of the heartbeats so far."""
        self._offsets: set[tuple[str, ...]] = set()
        self._keeper = RemotingPair(broker.classic.service())
        self.others: dict[tuple[str, str], RemotingPair] = {}
        """Group and id -> client of another run, which was connected too."""
        for row in rows:
            self._look(row)

    # -- what a run shows ----------------------------------------------------------------------
    def _look(self, row: Frame) -> None:
        fields, reply = row.get("fields", {}), row.get("reply", {})
        topic, told = fields.get("topic") or fields.get("b", ""), json_of(reply)
        if row["code"] == ROUTE and reply.get("code") == 17 and topic not in self.queue_counts:
            self.absent.add(topic)
        for one in messages_of(body_of(reply)) if "b64" in reply else ():
            self.recorded[one.topic, one.queue_id, one.queue_offset] = one
            self._count(one.topic, one.queue_id + 1)
        for name in ("queueId", "e"):
            self._count(topic, int(fields.get(name, "-1")) + 1)
        for group, name in subscriptions(row):
            self.ids[group] = json_of(row)["clientID"]
            if name != f"%RETRY%{group}":
                self._count(name, 4)
        self._count(json_of(row).get("topic", ""), 1)
        for queues in told.get("queueDatas", ()):
            self._count(topic, queues["writeQueueNums"])
            self.permissions[topic] = queues["perm"]
        if row["code"] == GROUPS:
            self._count(topic, 1)
        if row["code"] == MEMBERS and told:
            self.ids[fields["consumerGroup"]] = told["consumerIdList"][0]
        for name, queue_id, _ in queues_of(told):
            self._count(name, queue_id + 1)
        if row["code"] == TOPIC and told:
            self._count(topic, told["writeQueueNums"])
            self.topics[topic] = told
        if "connectionSet" in told and "consumerGroup" in fields:
            self.consumers[fields["consumerGroup"]] = told

    def _count(self, topic: str, count: int) -> None:
        if topic and count:
            self.queue_counts[topic] = max(count, self.queue_counts.get(topic, 0))

    # -- before the run, and before each request -----------------------------------------------
    async def begin(self) -> None:
        """Sets the clock, and creates the topics that exist from the start."""
        fields = [row.get("fields", {}) for row in self.rows]
        sent = [int(one["g"]) for one in fields if "g" in one]
        ends = [int(one["endTimestamp"]) - 1_000 for one in fields if "endTimestamp" in one]
        clock = self.broker.clock
        clock.advance(min([NOW_MS, *ends, *sent]) - clock.wall)
        topics = self.broker.store.tables.topics
        for topic, count in self.queue_counts.items():
            if topic not in self.absent and topic != DEFAULT_TOPIC:
                topics.adopt(topic, count)
        rates = [row for row in self.rows if row["code"] == RATE and "text" in row["reply"]]
        for key in [row["fields"]["statsKey"] for row in rates]:
            topics.adopt(key, 1)
            self.broker.send.counts.count(key, "normal", 1, 10)
        for topic, permission in self.permissions.items():
            if topic not in self.absent and topic != DEFAULT_TOPIC:
                await topics.update(topic, permission=permission)
        for topic, told in self.topics.items():
            if topic not in self.absent:
                attributes = told["attributes"]
                await topics.update(topic, order=told["order"], attributes=attributes)

    async def before(self, row: Frame) -> None:
        """Adds what the recorded reply to a request shows."""
        self.subscribed.update(subscriptions(row))
        reply, fields, code = row.get("reply", {"code": 0}), row.get("fields", {}), row["code"]
        if reply["code"] not in (0, 3, 19, 21):
            return
        told, topic = reply.get("fields", {}), fields.get("topic", "")
        queue_id = int(fields.get("queueId", "-1"))
        if code in PULLS:
            await self._before_pull(row, topic, queue_id)
        elif code in SENDS and "queueOffset" in told:
            await self._before_send(fields, told)
        elif code in OFFSETS and "offset" in told:
            await self.fill(topic, queue_id, int(told["offset"]))
        elif code == COMMIT:
            await self.fill(topic, queue_id, int(fields["commitOffset"]))
        elif code == QUERY_OFFSET and "offset" in told:
            await self.commit(fields["consumerGroup"], topic, queue_id, int(told["offset"]))
        elif code == QUERY or code in POPS:
            await self._fill_messages(reply)
            end = self.broker.store.reading.queue_range(topic, 0)[1]
            await self.fill(topic, 0, end + (code in POPS))
        elif code == SETTING + 1:
            await self._keeper.ask(SETTING, {**fields, "value": told["value"]})
        else:
            await self._before_json(row, json_of(reply))

    async def _before_send(self, fields: Mapping[str, str], told: Mapping[str, str]) -> None:
        end, properties = int(told["queueOffset"]), fields.get("i") or fields.get("properties", "")
        if level := DELAY.search(properties):
            await self.fill(DELAYS, int(level[1]) - 1, end)
        elif "TRAN_MSG" not in properties:
            await self.fill(fields.get("b") or fields["topic"], int(told["queueId"]), end)

    async def _before_pull(self, row: Frame, topic: str, queue_id: int) -> None:
        reply, group = row.get("reply", {}), row["fields"]["consumerGroup"]
        has_own = int(row["fields"]["sysFlag"]) & OWN_SUBSCRIPTION
        if (group, topic) not in self.subscribed and not has_own:
            await self._join(group, topic, version=int(row["fields"]["subVersion"]))
        await self._fill_messages(reply)
        await self.fill(topic, queue_id, int(reply.get("fields", {}).get("maxOffset", "0")))

    async def _before_json(self, row: Frame, content: dict[str, Any]) -> None:
        code, fields = row["code"], row.get("fields", {})
        group = fields.get("consumerGroup") or fields.get("group", "")
        for topic, queue_id, values in queues_of(content):
            await self.fill(topic, queue_id, values.get("brokerOffset", values.get("maxOffset", 0)))
            if "consumerOffset" in values:
                await self.commit(group, topic, queue_id, values["consumerOffset"])
        for name in content.get("groupList", ()):
            await self.commit(name, fields["topic"], 0, 0)
            self._offsets.discard((name, fields["topic"], "0"))
        if code == MEMBERS and content and not self._has_members(group):
            await self._join(group, "", content["consumerIdList"])
        elif code == 203 and content:
            self.consumers[group] = content
            names = {one["clientId"] for one in content["connectionSet"]}
            await self._leave(lambda key: key[0] == group and key[1] not in names)
            await self._join(group, "")
        elif code == 307 and (group, fields["clientId"]) not in self.others:
            self.consumers.pop(group, None)
            await self._join(group, "", [fields["clientId"]])
        elif code == 204:
            for one in content["connectionSet"]:
                await self.join(fields["producerGroup"], one)
        elif code == 328 and content:
            clients = {
                (name, one["clientId"]): one
                for name, group in content["data"].items()
                for one in group
            }
            await self._leave(lambda key: key not in clients)
            for key, one in clients.items():
                await self.join(key[0], one)
        elif code == 321:
            await self.fill(fields["topic"], int(fields["queueId"]), content["maxQueueIndex"])
        elif code == 201:
            await self._join("c-other", "")
        elif code == ASSIGN and '"mode":"POP"' in row["reply"]["text"]:
            asked = json_of(row)
            mode = {"mode": "POP", "popShareQueueNum": 0}
            mode |= {name: asked[name] for name in ("topic", "consumerGroup")}
            await self._keeper.ask(POP_MODE, {}, json.dumps(mode).encode())

    # -- clients -------------------------------------------------------------------------------
    def _has_members(self, group: str) -> bool:
        return any(name == group for name, _ in self.subscribed)

    async def _leave(self, is_gone: Callable[[tuple[str, str]], bool]) -> None:
        for key in [key for key in self.others if is_gone(key)]:
            self.others.pop(key).lose()

    async def _join(
        self, group: str, topic: str, names: Iterable[str] = (), version: int = 0
    ) -> None:
        """Has the recorded clients of a group send heartbeats, or others if none is recorded."""
        names = names or [self.ids.get(group, "another")]
        usual = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING", "subscriptionTable": {},
            "connectionSet": [{"clientId": n, "language": "JAVA", "version": 479} for n in names],
        }  # fmt: skip
        content = self.consumers.get(group, usual)
        table = {**content["subscriptionTable"]}
        if topic and topic not in table:
            table[topic] = {"topic": topic, "subString": "*", "expressionType": "TAG"}
            table[topic]["subVersion"] = version
        self.subscribed.update((group, name) for name in ("", *table))
        consumer = {
            **{name: content[name] for name in usual if name.startswith(("consume", "message"))},
            "groupName": group, "subscriptionDataSet": [*table.values()], "unitMode": False,
        }  # fmt: skip
        for one in content["connectionSet"]:
            await self.join(group, one, consumer)

    async def join(self, group: str, one: Frame, consumer: Frame | None = None) -> None:
        """Has another client send a heartbeat, as a producer or a consumer of a group."""
        key = group, one["clientId"]
        if key not in self.others:
            self.others[key] = RemotingPair(self.broker.classic.service())
        body = {
            "clientID": one["clientId"], "consumerDataSet": [consumer] if consumer else [],
            "producerDataSet": [] if consumer else [{"groupName": group}],
        }  # fmt: skip
        raw, own = json.dumps(body).encode(), {name: one[name] for name in ("language", "version")}
        await self.others[key].ask(HEARTBEAT, {}, raw, **own)

    async def commit(self, group: str, topic: str, queue_id: int, end: int) -> None:
        """Commits an offset, unless one was committed already."""
        key = group, topic, str(queue_id)
        if key in self._offsets or end < 0:
            return
        self._offsets.add(key)
        await self.fill(topic, queue_id, end)
        fields = dict(zip(("consumerGroup", "topic", "queueId"), key, strict=True))
        await self._keeper.ask(COMMIT, {**fields, "commitOffset": str(end)})

    # -- messages ------------------------------------------------------------------------------
    async def _fill_messages(self, reply: Frame) -> None:
        for one in messages_of(body_of(reply)):
            await self.fill(one.topic, one.queue_id, one.queue_offset + 1)

    async def fill(self, topic: str, queue_id: int, end: int) -> None:
        """Puts messages into a queue until it ends at an offset: recorded ones, or others."""
        await self.broker.talking.settled()
        begin = self.broker.store.reading.queue_range(topic, queue_id)[1]
        for offset in range(begin, end):
            await self._put(topic, queue_id, self.recorded.get((topic, queue_id, offset)))
        if begin < end:
            await self.broker.talking.settled()

    async def _put(self, topic: str, queue_id: int, one: StoredMessage | None) -> None:
        row, flag = Row(b"other", b"", 0, NOW_MS, BORN_HOST), 0
        if one is not None:
            names, flag = one.properties, one.system_flag
            row = Row(
                one.body, encode_properties(names), one.flag, one.born_timestamp_ms, one.born_host,
                names.get(UNIQUE_KEY, ""), names.get(KEYS, ""), names.get(TAGS, ""),
                one.reconsume_times,
            )  # fmt: skip
        where = Destination(topic, queue_id, STORE_HOST, flag)
        await self.broker.store.writing.put([(where, batch(row))])


def subscriptions(row: Frame) -> Iterator[tuple[str, str]]:
    """Yields group and topic of each subscription in a heartbeat, and each group with ""."""
    for consumer in json_of(row).get("consumerDataSet", ()) if row["code"] == HEARTBEAT else ():
        yield consumer["groupName"], ""
        for one in consumer["subscriptionDataSet"]:
            yield consumer["groupName"], one["topic"]
