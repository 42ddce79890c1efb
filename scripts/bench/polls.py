"""Memory of parked pulls, and their cost to senders: store and service in one process.

    python -m bench.polls COUNT QUEUES KIND        one measurement in a separate process, as JSON

COUNT pulls wait at QUEUES queues, for every message or by a filter that no sent message matches.
They are parked as the API parks them, but without a transport.
"""

import asyncio
import gc
import json
import os
import sys
from statistics import median
from time import process_time
from typing import Final

from bench.serving_inside import HOST, batch_like, opened
from harness.figures import Extent, Figure
from harness.process import anonymous_mib, apart
from pocketmq.filter.parsing import parse_filter
from pocketmq.format.named_properties import property_block
from pocketmq.format.record import encode_records, record_sizes
from pocketmq.model.batch import Destination
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_message import drafts_of
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull, PullRequest
from pocketmq.store.message_store import MessageStore

QUEUES_PER_TOPIC: Final = 8
SENDS: Final = 1_000
ROUNDS_OF_SENDS: Final = 5
WAIT_MS: Final = 600_000
EXPRESSIONS: Final = {
    "compare": "a > 5",
    "between": "a BETWEEN 2 AND 4 AND b = 'x'",
    "in": "TAGS IN ('TagA', 'TagB', 'TagC') AND a <> 3",
    "texts": "a > 5.5 OR b CONTAINS 'y' OR TAGS STARTSWITH 'Tag'",
}


def poll_figures(extent: Extent) -> list[Figure]:
    """Bytes of a parked pull, and the cost of a send beside 0, 10,000 and 100,000 parked pulls."""
    figures: list[Figure] = []
    most = extent.count(100_000)
    for queues in (1, 10_000):
        found = [apart("bench.polls", most, queues, "all") for _ in range(extent.rounds)]
        what = f"a parked pull, of {most:,} at {queues:,} queues"
        size = [run["bytes_each"] for run in found]
        figures.append(Figure.of(f"poll_bytes_{queues}", what, size, "B", "≤ 1024"))
    for kind, where in (("all", "another queue"), ("tag", "the same queue")):
        for count in (0, most // 10, most):
            found = [apart("bench.polls", count, 1, kind) for _ in range(extent.rounds)]
            name = "other_us" if kind == "all" else "same_us"
            what = f"CPU of a send beside {count:,} pulls parked at {where}"
            times = [run[name] for run in found]
            figures.append(Figure.of(f"poll_send_{kind}_{count}", what, times, "µs"))
    return figures


def filter_figures(extent: Extent) -> list[Figure]:
    """Evaluations of SQL over stored records, on one core."""
    records = [_record(number) for number in range(1_000)]
    figures = []
    for name, expression in EXPRESSIONS.items():
        matches = parse_filter(expression, is_sql=True).matches
        rates = []
        for _ in range(extent.rounds):
            begun = process_time()
            for _ in range(extent.count(100)):
                for record in records:
                    matches(record)
            rates.append(extent.count(100) * len(records) / (process_time() - begun) / 1000)
        what = f"`{expression}` over stored records, thousands a second"
        figures.append(Figure.of(f"sql_{name}", what, rates, "k/s", "≥ 300"))
    assert all(property_block(record) for record in records)
    return figures


def _record(number: int) -> bytes:
    pairs = {
        "UNIQ_KEY": f"{number:032X}", "KEYS": f"key-{number}", "WAIT": "true",
        "TAGS": f"Tag{'ABCDE'[number % 5]}", "a": str(number % 10), "b": "xyz"[number % 3],
        "CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    block = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    batch = batch_like(bytes(1024), [block], [""], [""])
    run = Destination("bench", 0, HOST)
    sizes = record_sizes(run, batch)
    return encode_records(
        run, batch, sizes, queue_offset=number, physical_offset=0, store_timestamp_ms=1
    )


async def _look(count: int, queues: int, kind: str) -> dict[str, float]:
    async with opened() as (store, send):
        for number in range(-(-queues // QUEUES_PER_TOPIC)):
            store.tables.topics.adopt(f"t{number}", QUEUES_PER_TOPIC)
        store.tables.topics.adopt("other", QUEUES_PER_TOPIC)
        await _send_us(send, store, "other")  # Creates everything that is created once.
        pull = Pull(store)
        gc.collect()
        before, begun = _resident_bytes(), process_time()
        kept = [_parked(pull, number % queues, kind) for number in range(count)]
        parked_us = (process_time() - begun) * 1e6 / max(count, 1)
        gc.collect()
        each = (_resident_bytes() - before) / max(count, 1)
        other_us = await _send_us(send, store, "other")
        same_us = await _send_us(send, store, "t0") if kind != "all" or not count else 0.0
        assert pull.waiter_count == len(kept) == count
        pull.drain()
    return {
        "bytes_each": each, "parked_us": parked_us, "other_us": other_us, "same_us": same_us,
    }  # fmt: skip


def _parked(pull: Pull, queue: int, kind: str) -> "asyncio.Future[PullResult]":
    wanted = parse_filter("TagZ" if kind == "tag" else "", is_sql=False)
    topic = f"t{queue // QUEUES_PER_TOPIC}"
    place = ReadRange(topic, queue % QUEUES_PER_TOPIC, 0, 32, 1 << 20)
    request = PullRequest(place, wanted, WAIT_MS, f"group-{queue % 100}")
    found = pull.pull(request)
    assert isinstance(found, PullResult)
    return pull.park(request, found, lambda result: result)


async def _send_us(send: Send, store: MessageStore, topic: str) -> float:
    """Returns the processor time of sending 1 KiB, until it can be pulled."""
    message = pb.Message(topic=topic, queue_id=0, body=bytes(1024), tag="TagA", keys=["key"])
    drafts = drafts_of(pb.SendMessageRequest(messages=[message]))._replace(wait=False)
    rounds = []
    for _ in range(ROUNDS_OF_SENDS):
        begun = process_time()
        for _ in range(SENDS):
            await send.send(drafts, HOST)
            await asyncio.sleep(0)
        await store.marks.dispatched.reached(store.appended)
        rounds.append((process_time() - begun) * 1e6 / SENDS)
    return median(rounds)


def _resident_bytes() -> float:
    """Returns the anonymous memory of this process."""
    return anonymous_mib(os.getpid()) * (1 << 20)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_look(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))))
