"""Pulls of classic consumers by shortcut: same answers and effects as by the usual path."""

from itertools import product
from typing import Any

import pytest

from pocketmq.model.administration import GroupSettings
from pocketmq.model.errors import GroupInUse
from pocketmq.rpc.classic.pull_shortcut import ANSWER_SIZE_MAX
from pocketmq.rpc.own.remoting_fast_path import REPLIES_SIZE_MAX
from pocketmq.wire.remoting import BINARY, Command, decode, encode
from tests.kit.remoting_pair import RemotingPair, outside_of_tasks
from tests.kit.store_broker import CALL, StoreBroker
from tests.rpc.classic.consumer import beat, fields

SUBSCRIBED = {"sysFlag": "4", "subscription": "*"}
COMMITTING = {"sysFlag": "5", "subscription": "*"}
MESSAGES = 12


@pytest.fixture(autouse=True)
async def orders(broker: StoreBroker) -> None:
    """Stores MESSAGES messages in each of two queues, by turns; they share the group `g`."""
    for number in range(MESSAGES):
        for queue_id in (0, 1):
            body = b"%d-%d" % (queue_id, number) * (number + 1)
            await broker.add("orders", body, queue_id=queue_id, TAGS="x")
    await broker.store.tables.groups.ensure("g")


def frame(changed: dict[str, str], code: int = 11, opaque: int = 7) -> bytes:
    """Returns a pull of the group `g` from the topic `orders`."""
    return encode(Command(code, fields("g", "orders") | changed, opaque=opaque))


def quick(broker: StoreBroker, raw: bytes) -> bytes | None:
    """Returns the answer of the shortcut."""
    found = broker.classic.consume.pull_shortcut(raw, CALL.peer_host, CALL.metadata)
    assert found is None or isinstance(found, bytes)
    return found


def usual(client: RemotingPair, raw: bytes) -> bytes:
    """Returns the answer of the usual path: no shortcut serves a header with a blank."""
    header = raw[8:].replace(b'{"code":', b'{"code": ', 1)
    client.wire.written.clear()
    with outside_of_tasks():
        sizes = (4 + len(header)).to_bytes(4) + len(header).to_bytes(4)
        client.server.data_received(sizes + header)
    return b"".join(client.wire.written)


def effects(broker: StoreBroker) -> tuple[list[int | None], dict[Any, int], dict[Any, int]]:
    """Returns the committed offsets, and what is counted as delivered."""
    delivered = broker.pull.delivered
    committed = [broker.store.tables.offsets.find("g", "orders", n) for n in (0, 1)]
    return committed, dict(delivered.messages_out.values), dict(delivered.bytes_out.values)


async def test_both_ways_answer_alike(broker: StoreBroker, client: RemotingPair) -> None:
    offsets, counts = ("0", "1", "11"), ("1", "5", "12", "32")
    for code, queue_id, offset, count in product((11, 361), "01", offsets, counts):
        raw = frame(
            {"queueId": queue_id, "queueOffset": offset, "maxMsgNums": count, **SUBSCRIBED}, code
        )
        answer = quick(broker, raw)
        assert answer is not None
        assert answer == usual(client, raw)
        found = decode(answer)
        assert (found.code, found.opaque, found.remark) == (0, 7, "FOUND")
        assert found.fields["nextBeginOffset"] == str(min(int(offset) + int(count), MESSAGES))


async def test_limits_of_bytes_are_kept_alike(broker: StoreBroker, client: RemotingPair) -> None:
    records = broker.records()
    for size in (1, len(records[0]), len(records[0]) + len(records[1]), 100_000):
        raw = frame({"maxMsgBytes": str(size), **SUBSCRIBED})
        answer = quick(broker, raw)
        assert answer in (None, usual(client, raw))
        assert (answer is not None) == (size == 100_000)


async def test_the_subscription_of_a_heartbeat_counts(
    broker: StoreBroker, client: RemotingPair
) -> None:
    raw = frame({"subVersion": "7"})
    assert quick(broker, raw) is None
    await beat(client, "g", "orders", version=7)
    assert quick(broker, raw) == usual(client, raw)
    assert quick(broker, frame({"subVersion": "8"})) is None
    await beat(client, "g", "orders", filter="x", version=8)
    assert quick(broker, frame({"subVersion": "8"})) is None
    await beat(client, "g", "orders", model="BROADCASTING", version=9)
    assert quick(broker, frame({"subVersion": "9"})) is None


async def test_offsets_are_committed_and_messages_counted_alike(
    broker: StoreBroker, client: RemotingPair
) -> None:
    one, two = frame({"commitOffset": "3", **COMMITTING}), frame({"queueId": "1", **COMMITTING})
    usual(client, one)
    before = effects(broker)
    assert quick(broker, frame({"queueId": "1", "commitOffset": "3", **COMMITTING})) is not None
    (first, second), messages, sizes = effects(broker)
    assert (first, second) == (3, 3)
    assert list(messages.values()) == [2 * MESSAGES]
    assert list(sizes.values()) == [2 * next(iter(before[2].values()))]
    assert quick(broker, frame({"commitOffset": str(MESSAGES + 1), **COMMITTING})) is not None
    assert quick(broker, frame({"commitOffset": "5", **SUBSCRIBED})) is not None
    assert quick(broker, two) is not None
    assert effects(broker)[0] == [3, 3]


@pytest.mark.parametrize(
    "changed",
    [
        {"queueOffset": str(MESSAGES)}, {"queueOffset": "99"}, {"queueOffset": "-1"},
        {"queueOffset": "x"}, {"queueId": "2"}, {"queueId": "-1"}, {"queueId": ""},
        {"maxMsgNums": "0"}, {"maxMsgNums": "99999999999"}, {"maxMsgBytes": "0"},
        {"subscription": "x"}, {"expressionType": "SQL92"}, {"sysFlag": "x"}, {"sysFlag": "0"},
        {"subVersion": "-1"}, {"topic": "absent"}, {"topic": "%RETRY%g"}, {"topic": ""},
        {"topic": "SCHEDULE_TOPIC_XXXX"}, {"consumerGroup": "absent"}, {"consumerGroup": ""},
        {"consumerGroup": "sealed"},
    ],
    ids=str,
)  # fmt: skip
async def test_everything_else_is_left_to_the_usual_path_unchanged(
    broker: StoreBroker, changed: dict[str, str]
) -> None:
    groups = broker.store.tables.groups
    await groups.create("sealed", GroupSettings(enabled=False))
    before = effects(broker)
    assert quick(broker, frame(COMMITTING | {"commitOffset": "5"} | changed)) is None
    assert effects(broker) == before
    assert groups.find("absent") is None


def test_binary_one_way_and_cut_frames_are_left_to_the_usual_path(broker: StoreBroker) -> None:
    request = Command(11, fields("g", "orders", **SUBSCRIBED))
    assert quick(broker, encode(request)) is not None
    assert quick(broker, encode(request._replace(serialization=BINARY))) is None
    assert quick(broker, encode(request._replace(flag=2))) is None
    assert quick(broker, encode(request)[:-1]) is None


async def test_a_group_of_pop_clients_is_refused(broker: StoreBroker) -> None:
    await broker.store.tables.modes.put("g", "orders", "POP", 1)
    with pytest.raises(GroupInUse):
        quick(broker, frame(SUBSCRIBED))


async def test_large_answers_are_left_to_the_usual_path(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", bytes(ANSWER_SIZE_MAX))
    assert quick(broker, frame({"queueOffset": str(MESSAGES), **SUBSCRIBED})) is None
    whole = frame(SUBSCRIBED)
    assert quick(broker, whole) is None
    reply = decode(usual(client, whole))
    assert reply.fields["nextBeginOffset"] == str(MESSAGES + 1)


async def test_many_pulls_of_one_read_are_all_answered_in_order(
    broker: StoreBroker, client: RemotingPair
) -> None:
    await broker.add("orders", bytes(ANSWER_SIZE_MAX // 2))
    count = 3 * REPLIES_SIZE_MAX // ANSWER_SIZE_MAX
    raws = [
        frame({"queueOffset": str(MESSAGES), **SUBSCRIBED}, opaque=100 + number)
        for number in range(count)
    ]
    position = client.edge.quick_frames.serve(client.server, b"".join(raws))
    served, frames = position // len(raws[-1]), client.server.frames
    assert REPLIES_SIZE_MAX < sum(map(len, frames)) < REPLIES_SIZE_MAX + ANSWER_SIZE_MAX
    assert 0 < served == len(frames) < count
    frames.clear()
    client.feed(b"".join(raws))
    await client.settled()
    assert [reply.opaque for reply in client.all_replies] == list(range(100, 100 + count))
    assert {reply.code for reply in client.all_replies} == {0}


async def test_while_pulls_are_watched_the_usual_path_reports_each_record(
    broker: StoreBroker, client: RemotingPair
) -> None:
    pulled: list[int] = []
    broker.pull.on_pulled = lambda request, records: pulled.append(len(records))
    raw = frame(SUBSCRIBED)
    assert quick(broker, raw) is None
    assert decode(usual(client, raw)).code == 0
    assert pulled == [MESSAGES]
