"""Pending work in our store is written as a real RocketMQ writes it.

Each kind of record beside one of a golden store: the same properties in the same order, values of
the same form, bodies of the journal with the same members of the same types.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.format.properties import encode_properties
from pocketmq.format.record import decode_record
from pocketmq.model.batch import Destination
from pocketmq.model.message import StoredMessage
from pocketmq.model.step import Now
from pocketmq.model.system_topics import TIMER_TOPIC
from pocketmq.model.topic import SCHEDULE_TOPIC
from pocketmq.services.delay.levels import Schedule
from pocketmq.store.job import Job
from tests.golden_stores import GoldenStores
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, ConsumeDesk, consuming
from tests.kit.golden_log import open_log
from tests.kit.rows import Row, batch
from tests.kit.store_language import BORN_HOST, STORE_HOST

SENT = {
    "UNIQ_KEY": "FD0000000000000000000000000000024E854E0E2F2A67213E08000", "CLUSTER": "c",
    "MSG_REGION": "DefaultRegion", "TAGS": "A", "KEYS": "k", "WAIT": "true", "TRACE_ON": "true",
}  # fmt: skip
Kind = Callable[[StoredMessage], bool]


def is_sent(message: StoredMessage) -> bool:
    """Whether a message carries what ours carry, and nothing of a user's own."""
    names = set(message.properties)
    return names >= set(SENT) and not any(n.startswith(("prop", "属性")) for n in names)


KINDS: dict[str, Kind] = {
    "checkpoint": lambda m: (m.topic, m.tag) == (TIMER_TOPIC, "ck"),
    "ack": lambda m: (m.topic, m.tag) == (TIMER_TOPIC, "ack"),
    "waits before it is retried": lambda m: (
        is_sent(m) and m.topic == SCHEDULE_TOPIC and "RETRY_TOPIC" in m.properties
    ),
    "retried": lambda m: (
        is_sent(m) and m.topic.startswith("%RETRY%") and "RETRY_TOPIC" in m.properties
    ),
    "lease over": lambda m: is_sent(m) and "1ST_POP_TIME" in m.properties,
    "dead letter": lambda m: is_sent(m) and m.topic.startswith("%DLQ%"),
}


def form(text: str) -> str:
    """Returns what a value looks like: digits and hexadecimal as such, words as they are."""
    if re.fullmatch(r"[0-9]+", text):
        return f"{'time' if len(text) == 13 else 'number'}"
    if re.fullmatch(r"[0-9A-F]{16,}", text):
        return "id"
    if "@" in text:
        return "@".join(form(part) for part in text.split("@"))
    return "truth" if text in ("true", "false") else "word"


def shape(message: StoredMessage) -> tuple[object, ...]:
    """Returns what of a record does not depend on the message itself."""
    said = [(name, form(text)) for name, text in message.properties.items()]
    body: list[tuple[str, str]] = []
    if message.topic == TIMER_TOPIC:
        body = [(k, type(v).__name__) for k, v in json.loads(message.body).items()]
    return said, body, message.system_flag, message.reconsume_times, message.queue_id == 0


@pytest.fixture(scope="module")
def real(golden: GoldenStores) -> list[StoredMessage]:
    """All messages of the golden store."""
    log = open_log(golden, "semantics")
    found = [
        decode_record(bytes(file.view[position : position + size]))
        for _, file, position, size in log.scan(0)
    ]
    log.close()
    return found


async def ours(directory: Path) -> list[StoredMessage]:
    """Returns the log of a store where everything was done once."""
    async with consuming(directory) as desk:
        rows = [
            Row(b"x", encode_properties(SENT), 7, desk.clock.wall, BORN_HOST, SENT["UNIQ_KEY"],
                "k", "A")
            for _ in range(4)
        ]  # fmt: skip
        await desk.store.writing.put([(Destination(TOPIC, 0, STORE_HOST), batch(*rows))])
        await desk.settled()
        got = await desk.receive()
        await desk.consume.ack(GROUP, TOPIC, got.handles[:1])
        await desk.consume.send_back(GROUP, TOPIC, [(got.handles[1], 1)])
        await desk.consume.forward_to_dead_letters(GROUP, TOPIC, got.handles[2:3])
        await desk.step(INVISIBLE_MS)
        await deliver(desk)
        found = []
        place = 0
        while place < desk.store.appended:
            message = desk.store.reading.message_at(place)
            assert isinstance(message, StoredMessage)
            found.append(message)
            place += message.store_size
    return found


async def deliver(desk: ConsumeDesk) -> None:
    """Delivers every message that waits for a level."""
    schedule = Schedule(desk.store, STORE_HOST)
    while True:
        now = Now(desk.clock.monotonic_ms(), desk.clock.wall_ms())
        following = schedule.step(now)
        if isinstance(following.mark, Job):
            await following.mark.reached()
        elif following.at_ms is None or following.at_ms > now.monotonic_ms:
            break
    await desk.settled()


async def test_records_look_as_a_real_brokers_do(real: list[StoredMessage], tmp_path: Path) -> None:
    found = await ours(tmp_path / "s")
    for name, is_kind in KINDS.items():
        wanted = {str(shape(message)) for message in real if is_kind(message)}
        own = {str(shape(message)) for message in found if is_kind(message)}
        assert wanted, name
        assert own, name
        assert own <= wanted, name
