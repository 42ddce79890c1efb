"""How little garbage collection has to look at for each lease, and for each receive that waits."""

import gc
from collections import Counter
from collections.abc import Iterable
from contextvars import Context
from inspect import isawaitable
from types import MethodType

from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.format.receipt_handle import NORMAL
from pocketmq.model.step import Now
from pocketmq.services.consume.leases import Lease, LeaseTable
from tests.kit.consuming import ConsumeDesk
from tests.kit.store_language import turns

COUNT = 64


def looked_at(kinds: Iterable[type]) -> Counter[type]:
    """Returns how many objects of some types are looked at."""
    gc.collect()
    found = Counter(type(one) for one in gc.get_objects())
    return Counter({kind: found[kind] for kind in kinds})


def test_what_a_lease_holds_is_not_looked_at() -> None:
    batched = Batched("g", "orders", 0, 7, 1_000, "broker-a")
    queue = LeaseTable().queue("g", "orders", 0, NORMAL)
    lease = Lease(queue, PopCheckpoint(batched, [7, 9], 30_000, 0), 0, first_popped_ms=1_000)
    gc.collect()
    assert [*lease.queue_offsets] == [7, 9]
    assert not gc.is_tracked(lease.queue_offsets)


async def test_waits_that_end_at_once_let_others_have_their_turn(desk: ConsumeDesk) -> None:
    waiting = [desk.consume.receive(desk.asked(wait_ms=20_000)) for _ in range(600)]
    desk.clock.advance(20_000)
    left = []
    while desk.consume.waiter_count:
        now = Now(desk.clock.monotonic_ms(), desk.clock.wall_ms())
        desk.consume.step(now)
        await turns()
        left.append(desk.consume.waiter_count)
    assert left == [344, 88, 0]
    assert all([isawaitable(one) and not (await one).handles for one in waiting])


async def test_receives_that_wait_share_what_they_can(desk: ConsumeDesk) -> None:
    kinds = [Context, MethodType]
    await desk.receive()
    before = looked_at(kinds)
    waiting = [desk.consume.receive(desk.asked(wait_ms=20_000)) for _ in range(COUNT)]
    assert (looked_at(kinds) - before).total() < COUNT // 2
    assert desk.consume.waiter_count == COUNT
    desk.consume.drain()
    assert all([isawaitable(one) and not (await one).handles for one in waiting])
