"""Requests that were put to a real RocketMQ 5.5, and what it answered, beside our answers.

`tests/golden/wire-examples.json.gz` holds them as text: every request, its answers, their code, and
of a receive its frames (S status, M message, D time). Where another code is given here, DIFFERENT
says which, and why; where a field of an answer is not there, or says something else, UNSAID and
OTHERWISE. Handles and ids in requests are those of this run (`LIVE`).
"""

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf import text_format

from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.service_table import MESSAGING
from tests.kit.official import OfficialDesk, receive, sent
from tests.kit.store_broker import store_broker
from tests.sim.clock import FakeClock

EXAMPLES: Final = json.loads(
    gzip.decompress(Path(__file__).parents[2].joinpath("golden/wire-examples.json.gz").read_bytes())
)
CASES: Final[dict[str, dict[str, Any]]] = {case["case"]: case for case in EXAMPLES["cases"]}
JAVA: Final[dict[str, dict[str, Any]]] = EXAMPLES["java"]
NOW_MS: Final = 1_795_221_256_000
"""When the requests were made: times in them are near it."""

ACCIDENT: Final = "an exception of the real one; here it is told what is wrong"
SETTINGS: Final = "settings are never required: clients go on without them after a restart"
TELEMETRY: Final = (
    "told inside the stream, which goes on: a client that reconnects for ever helps nobody"
)
ENDED: Final = "a lease that is over is told as such; clients stop at either"
SERVED: Final = "served here"

DIFFERENT: Final[dict[str, tuple[str, str]]] = {
    "heartbeat-no-settings": ("OK", SETTINGS),
    "receive-no-settings": ("MESSAGE_NOT_FOUND", SETTINGS),
    "terminate-no-settings": ("OK", SETTINGS),
    "ack-no-settings-bad-handle": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "telemetry-no-settings-content": ("BAD_REQUEST", TELEMETRY),
    "telemetry-no-client-type": ("BAD_REQUEST", TELEMETRY),
    "telemetry-unknown-group": ("CONSUMER_GROUP_NOT_FOUND", TELEMETRY),
    "telemetry-illegal-group": ("ILLEGAL_CONSUMER_GROUP", TELEMETRY),
    "telemetry-illegal-topic": ("ILLEGAL_TOPIC", TELEMETRY),
    "assignment-unknown-group": ("CONSUMER_GROUP_NOT_FOUND", "nothing could be received"),
    "heartbeat-unknown-group": ("CONSUMER_GROUP_NOT_FOUND", "the name is fine, the group is not"),
    "send-unknown-topic": ("TOPIC_NOT_FOUND", "the real one checks the type of nothing first"),
    "send-negative-priority": ("BAD_REQUEST", ACCIDENT),
    "receive-invisible-1s": ("MESSAGE_NOT_FOUND", "shorter leases harm nobody"),
    "send-wrong-digest": ("MESSAGE_CORRUPTED", "a digest is there to be verified"),
    "end-transaction-commit-again": ("OK", "said again, a decision is the same"),
    "end-transaction-rollback-after-commit": ("INVALID_TRANSACTION_ID", "the first one holds"),
    "end-transaction-unknown-id": ("INVALID_TRANSACTION_ID", ACCIDENT),
    "recall-garbage": ("BAD_REQUEST", ACCIDENT),
    "recall-empty": ("BAD_REQUEST", ACCIDENT),
    "receive-empty-poll-unset-3s-deadline": ("MESSAGE_NOT_FOUND", "a call of 3 s can wait for 1"),
    "receive-unknown-topic": ("TOPIC_NOT_FOUND", ACCIDENT),
    "receive-unknown-group": ("CONSUMER_GROUP_NOT_FOUND", ACCIDENT),
    "receive-bad-sql": ("ILLEGAL_FILTER_EXPRESSION", ACCIDENT),
    "ack-twice": ("INVALID_RECEIPT_HANDLE", ENDED),
    "change-invisible-after-ack": ("INVALID_RECEIPT_HANDLE", ENDED),
    "change-invisible-garbage-handle": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "change-invisible-empty-handle": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "ack-garbage-handle": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "ack-empty-handle": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "ack-no-entries": ("BAD_REQUEST", ACCIDENT),
    "ack-unknown-topic": ("TOPIC_NOT_FOUND", ACCIDENT),
    "ack-unknown-group": ("CONSUMER_GROUP_NOT_FOUND", ACCIDENT),
    "forward-dlq-garbage": ("INVALID_RECEIPT_HANDLE", ACCIDENT),
    "get-offset": ("ILLEGAL_TOPIC", SERVED),
    "update-offset": ("ILLEGAL_TOPIC", SERVED),
    "query-offset": ("ILLEGAL_TOPIC", SERVED),
}
"""Case -> the code of our answer, and why it is another one."""

UNSAID: Final = {
    "entries.offset": "the first in its queue here",
    "message.system_properties.queue_id": "0 here",
    "message.system_properties.tag": "of another message",
    "message.system_properties.keys": "of another message",
    "message.user_properties": "of another message; in order, a leak of the real one",
    "message_queues.id": "there is one queue, 0",
    "assignments.message_queue.id": "there is one queue, 0",
}
"""Fields that the real answer has and ours, of the same code, has not."""
OTHERWISE: Final = {
    "telemetry-simple-consumer": ("subscription.long_polling_timeout", "a client keeps its own"),
}
"""Of settings, by case: the one field that differs."""

TOPICS: Final = {
    "w-normal": ("NORMAL", 2), "w-normal2": ("NORMAL", 2), "w-fifo": ("FIFO", 4),
    "w-delay": ("DELAY", 2), "w-tx": ("TRANSACTION", 2), "w-prio": ("PRIORITY", 2),
    "w-lite": ("LITE", 2), "w-void": ("NORMAL", 2), "w-empty": ("NORMAL", 2),
}  # fmt: skip
LOG_FILE_BYTES: Final = 1 << 23
"""Has room for the largest body."""
GROUPS: Final = {"w-g": 17, "w-gempty": 17, "w-gvoid": 17, "w-gfifo": 3, "w-g2": 2}
"""Group -> how often a message is delivered."""
UNNAMED: Final = frozenset(
    {"route-no-client-id", "send-no-client-id", "receive-no-client-id", "telemetry-no-client-id"}
)


@pytest.fixture
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[OfficialDesk]:
    """A client of a broker as the real one was set up."""
    clock = FakeClock(NOW_MS)
    sizes: dict[str, Any] = {}
    if "send-body-" in request.node.name:
        sizes["commit_log_file_size_bytes"] = LOG_FILE_BYTES
    async with store_broker(clock=clock, **sizes) as broker:
        tables = broker.store.tables
        for topic, (kind, count) in TOPICS.items():
            attributes = {"message.type": kind}
            await tables.topics.create(topic, queue_count=count, attributes=attributes)
        for group, attempts in GROUPS.items():
            is_fifo = group == "w-gfifo"
            await tables.groups.create(group, GroupSettings(max_attempts=attempts, fifo=is_fifo))
        broker.send.take(broker.send._rules._replace(auto_create_topics=False))
        yield OfficialDesk(broker)


# -- what a request is about -----------------------------------------------------------------------


async def visible(desk: OfficialDesk) -> None:
    """Returns when all that was sent can be received."""
    await desk.broker.store.flush()
    await desk.broker.talking.settled()


async def leased(desk: OfficialDesk) -> str:
    """Returns the handle of a message under a lease."""
    await desk.broker.add("w-normal", b"m", UNIQ_KEY="1")
    (got,) = await desk.received("w-g", "w-normal")
    return got.system_properties.receipt_handle


async def changed(desk: OfficialDesk) -> str:
    """Returns a handle that a change of time has replaced."""
    handle = await leased(desk)
    await desk.broker.consume.change_invisible("w-g", "w-normal", [(handle, 30_000)])
    return handle


async def changed_anew(desk: OfficialDesk) -> str:
    """Returns the handle that a change of time gave."""
    handle = await leased(desk)
    (new,) = await desk.broker.consume.change_invisible("w-g", "w-normal", [(handle, 30_000)])
    return new.handle


async def acknowledged(desk: OfficialDesk) -> str:
    """Returns the handle of a message that is done."""
    handle = await leased(desk)
    await desk.broker.consume.ack("w-g", "w-normal", [handle])
    return handle


async def taken_again(desk: OfficialDesk) -> str:
    """Returns the handle of a lease that is over, its message given out again."""
    handle = await leased(desk)
    await desk.broker.pass_time(10_001)
    assert len(await desk.received("w-g", "w-normal")) == 1
    return handle


async def leased_in_order(desk: OfficialDesk) -> str:
    """Returns the handle of a message of a topic in order."""
    await desk.broker.add("w-fifo", b"m", UNIQ_KEY="1", __SHARDINGKEY="g")
    (got,) = await desk.received("w-gfifo", "w-fifo")
    return got.system_properties.receipt_handle


async def given_up(desk: OfficialDesk) -> str:
    """Returns the handle of a message that is a dead letter already."""
    handle = await leased_in_order(desk)
    request = pb.ForwardMessageToDeadLetterQueueRequest()
    text_format.Parse(CASES["forward-dlq"]["request"], request)
    request.receipt_handle = handle
    assert await desk.code("ForwardMessageToDeadLetterQueue", request) == "OK"
    return handle


async def half(desk: OfficialDesk) -> str:
    """Returns the id of an undecided transaction."""
    answer = await desk.ask("SendMessage", sent("w-tx", b"m", message_type=pb.TRANSACTION))
    await visible(desk)
    return str(answer.entries[0].transaction_id)


async def committed(desk: OfficialDesk) -> str:
    """Returns the id of a transaction that is committed."""
    transaction_id = await half(desk)
    request = pb.EndTransactionRequest()
    text_format.Parse(CASES["end-transaction-commit"]["request"], request)
    request.transaction_id = transaction_id
    assert await desk.code("EndTransaction", request) == "OK"
    return transaction_id


async def delayed(desk: OfficialDesk) -> str:
    """Returns what a message that waits is recalled by."""
    request = pb.SendMessageRequest()
    text_format.Parse(CASES["send-delay"]["request"], request)
    answer = await desk.ask("SendMessage", request)
    return str(answer.entries[0].recall_handle)


async def recalled(desk: OfficialDesk) -> str:
    """Returns what a message was recalled by."""
    handle = await delayed(desk)
    await desk.broker.send.recall.recall("w-delay", handle, desk.call().peer_host)
    return handle


LIVE: Final[dict[str, Callable[[OfficialDesk], Awaitable[str]]]] = {
    "change-invisible-ok": leased,
    "change-invisible-old-handle": changed,
    "change-invisible-zero": leased,
    "change-invisible-13h": leased,
    "change-invisible-negative": leased,
    "change-invisible-after-ack": acknowledged,
    "change-invisible-expired": taken_again,
    "ack-ok": changed_anew,
    "ack-twice": acknowledged,
    "ack-with-handle-replaced-by-change": changed,
    "ack-expired-handle": taken_again,
    "forward-dlq": leased_in_order,
    "forward-dlq-again": given_up,
    "end-transaction-commit": half,
    "end-transaction-commit-again": committed,
    "end-transaction-rollback-after-commit": committed,
    "end-transaction-rollback": half,
    "end-transaction-unspecified": half,
    "recall-delay": delayed,
    "recall-again": recalled,
}
"""Case -> what the handle or id in its request stands for."""


async def some_messages(desk: OfficialDesk) -> None:
    """Sends messages that a receive of the examples gets."""
    await desk.broker.add("w-normal", b"m", UNIQ_KEY="1")


async def three_messages(desk: OfficialDesk) -> None:
    """Sends three messages, one of which is delivered for the second time."""
    await leased(desk)
    await desk.broker.add("w-normal", b"m1", b"m3", UNIQ_KEY="2")
    await desk.broker.pass_time(10_001)


async def two_in_order(desk: OfficialDesk) -> None:
    """Sends two messages of two message groups."""
    await desk.broker.add("w-fifo", b"m", UNIQ_KEY="1", __SHARDINGKEY="g")
    await desk.broker.add("w-fifo", b"m", queue_id=1, UNIQ_KEY="2", __SHARDINGKEY="g1")


WAITING: Final[dict[str, Callable[[OfficialDesk], Awaitable[None]]]] = {
    "receive-normal": some_messages,
    "receive-redelivered": three_messages,
    "receive-fifo-auto-renew": two_in_order,
}


async def request_of(desk: OfficialDesk, case: dict[str, Any]) -> Any:
    """Returns the request of a case, as it is in this run."""
    kind = desk.methods[case["rpc"]].request
    request: Any = kind()
    text_format.Parse(case["request"], request)
    name = case["case"]
    if name in LIVE:
        text = await LIVE[name](desk)
        fields = ("receipt_handle", "transaction_id", "recall_handle")
        for holder in (request, *getattr(request, "entries", ())):
            for field in fields:
                if getattr(holder, field, ""):
                    setattr(holder, field, text)
    if name in ("send-body-max", "send-body-too-large"):
        request.messages[0].body = bytes((4 << 20) + (name == "send-body-too-large"))
    if name == "send-properties-too-large":
        request.messages[0].user_properties["a"] = "v" * 16_384
    if name == "receive-redelivered":
        request.batch_size = 3
    return request


def frames(answers: list[Any]) -> str:
    """Returns what a receive was answered, a letter for each frame."""
    letters = {"status": "S", "message": "M", "delivery_timestamp": "D"}
    return "".join(letters[answer.WhichOneof("content")] for answer in answers)


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_an_answer_is_the_real_ones_or_a_better_one(
    desk: OfficialDesk, case: dict[str, Any]
) -> None:
    request = await request_of(desk, case)
    if prepare := WAITING.get(case["case"]):
        await prepare(desk)
    call = desk.call(x_mq_client_id="") if case["case"] in UNNAMED else desk.call()
    asked = [request] if case["rpc"] == "Telemetry" else request
    answers = await desk.all(case["rpc"], asked, call)
    wanted, _ = DIFFERENT.get(case["case"], (case["code"], ""))
    first = answers[0].status
    assert pb.Code.Name(first.code) == wanted, first.message
    assert first.message
    if case["frames"]:
        assert frames(answers) == case["frames"]
    if case["case"] not in DIFFERENT:
        given = [read_answer(case, text) for text in case["answers"]]
        for ours, real in zip(answers, given, strict=False):
            assert fields_of(real) - fields_of(ours) <= UNSAID.keys()
        if case["rpc"] == "Telemetry":
            theirs, mine = flat(given[0].settings), flat(answers[0].settings)
            names = {name for name in theirs.keys() | mine if theirs.get(name) != mine.get(name)}
            assert names == {OTHERWISE[name][0] for name in OTHERWISE if name == case["case"]}


def read_answer(case: dict[str, Any], text: str) -> Any:
    """Returns an answer of the real one."""
    kind = MESSAGING.methods_by_name[case["rpc"]].output_type.name
    return text_format.Parse(text, getattr(pb, kind)())


def flat(message: Any, path: str = "") -> dict[str, list[Any]]:
    """Returns the values of a message by the paths of their fields; a time is one value."""
    found: dict[str, list[Any]] = {}
    for field, value in message.ListFields():
        name = f"{path}{field.name}"
        kind = field.message_type
        is_map = kind is not None and kind.GetOptions().map_entry
        for one in [value] if is_map or not field.is_repeated else value:
            if kind is None or is_map or kind.file is not MESSAGING.file:
                found.setdefault(name, []).append(str(one))
            else:
                found |= flat(one, f"{name}.") or {name: []}
    return found


def fields_of(message: Any) -> set[str]:
    """Returns the paths of fields that a message has."""
    return set(flat(message))


def test_every_difference_is_one() -> None:
    assert DIFFERENT.keys() <= CASES.keys()
    assert all(CASES[name]["code"] != code for name, (code, _) in DIFFERENT.items())
    assert (LIVE.keys() | WAITING.keys()) <= CASES.keys()
    assert OTHERWISE.keys() <= CASES.keys() - DIFFERENT.keys()
    assert len(CASES) == len(EXAMPLES["cases"]) == 148
    assert len(JAVA) == 26


async def test_an_old_handle_settles_where_the_real_one_only_says_so(desk: OfficialDesk) -> None:
    request = await request_of(desk, CASES["ack-with-handle-replaced-by-change"])
    assert await desk.code("AckMessage", request) == "OK"
    await desk.broker.pass_time(60_000)
    assert not await desk.received("w-g", "w-normal")


async def test_a_receive_of_the_examples_is_answered_with_what_was_sent(
    desk: OfficialDesk,
) -> None:
    request = await request_of(desk, CASES["send-normal"])
    await desk.ask("SendMessage", request)
    await visible(desk)
    status, got, _ = await desk.all("ReceiveMessage", receive("w-g", "w-normal"))
    message = request.messages[0]
    assert status.status.code == pb.OK
    assert got.message.user_properties == message.user_properties
    for field in ("tag", "keys", "message_id", "message_type", "born_host"):
        given = getattr(message.system_properties, field)
        assert getattr(got.message.system_properties, field) == given


@pytest.mark.parametrize("name", JAVA)
def test_what_the_java_client_says_and_reads_is_known_here(name: str, desk: OfficialDesk) -> None:
    method = desk.methods[JAVA[name]["rpc"]]
    for is_request, text in JAVA[name]["messages"]:
        message: Any = (method.request if is_request else method.response)()
        if "…(shortened)" not in text and text != "(empty)":
            text_format.Parse(text, message)
            assert message.ByteSize() > 0
