"""Steps of consume walks: operators' actions and the final comparison."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from pocketmq.format.record import decode_record
from pocketmq.model.administration import GroupSettings, ResetTarget
from pocketmq.model.errors import GroupDisabled
from pocketmq.model.reading import ReadRange
from pocketmq.model.topic import dead_letter_topic
from pocketmq.services.admin.groups import delete_group
from pocketmq.services.admin.positions import reset_offsets
from pocketmq.services.admin.redrive import Redrive
from pocketmq.store.read.cold_read import value_of
from tests.kit.store_language import STORE_HOST
from tests.models.consume_model import DEAD, LEFT, Asked
from tests.models.consume_settling import ack
from tests.models.consume_walk import GROUPS, ConsumeWalk

END_ROUNDS: Final = 40


async def bodies_of(walk: ConsumeWalk, topic: str, queue_id: int) -> list[str]:
    """Returns the bodies of a queue; "" for each removed message."""
    while walk.store.dispatched < walk.store.appended:
        await walk.loop.pause(0.005)
    lower, end = walk.store.reading.queue_range(topic, queue_id)
    found = [""] * lower
    while len(found) < end:
        asked = ReadRange(topic, queue_id, len(found), 99, 1 << 20)
        result = await value_of(walk.store.reading.pull(asked))
        found += [decode_record(record).body.decode() for record in result.records]
    return found


async def check_topics(walk: ConsumeWalk) -> None:
    """Compares the sent messages with the pulled ones."""
    for (topic, queue_id), sent in walk.sent.items():
        floor = walk.floors.get((topic, queue_id), 0)
        left = [body for body, _ in sent[floor:]]
        found = await bodies_of(walk, topic, queue_id)
        assert found[floor:] == left
        assert not any(found[:floor])


async def reset(
    walk: ConsumeWalk,
    group: str,
    target: ResetTarget,
    queue_ids: list[int],
    turns: int | None = None,
) -> None:
    """Sets a group's offsets, except in topics that contain a message twice."""
    topic, model = GROUPS[group], walk.models[group]
    if topic in walk.redriven:
        return
    walk.note("resets", group, target, queue_ids, turns)
    planned = await reset_offsets(
        walk.store, group, topic, target, queue_ids=queue_ids, dry_run=True
    )
    walk.calls.append(f"  {[(queue_id, old, at) for _, queue_id, old, at in planned]}")
    call = partial(reset_offsets, walk.store, group, topic, target, queue_ids=queue_ids)
    moved = await walk.answered(call, turns)
    model.begin(walk.now_ms, is_told=moved is not None)
    for _, queue_id, _, at in planned:
        floor = walk.floors.get((topic, queue_id), 0)
        sent = walk.sent.get((topic, queue_id), [])
        if len(sent) > floor:
            check_place(target, sent, at, floor)
        model.reset(queue_id, at, is_told=moved is not None)
    await walk.seen()


def check_place(target: ResetTarget, sent: list[tuple[str, int]], at: int, floor: int) -> None:
    """Compares an offset of a queue with when its messages were sent; those below `floor` are gone.

    Shape    not all messages are gone
    """
    if target.time_ms is None:
        wanted = (len(sent) if target.latest else floor) if target.queue_offset is None else at
        assert at == wanted
        return
    before = sum(after_ms < target.time_ms for _, after_ms in sent[1:])
    after = sum(before_ms < target.time_ms for _, before_ms in sent)
    least, most = max(before, floor), max(after, floor)
    assert least <= at <= most, (target, at, before, after, floor, sent)


async def redrive(walk: ConsumeWalk, group: str, count: int, turns: int | None = None) -> None:
    """Redrives dead letters that have no other copy in any group."""
    topic = GROUPS[group]
    desk = Redrive(walk.store, STORE_HOST)
    planned = [one.message_id for one in await desk.redrive(group, count, dry_run=True)]
    readers = [model for name, model in walk.models.items() if GROUPS[name] == topic]
    if len({*planned}) < len(planned) or not planned:
        return
    if not all(model.kinds(body) <= {DEAD} for model in readers for body in planned):
        return
    walk.note("redrives", group, count, planned, turns)
    walk.redriven.add(topic)
    before_ms = walk.now_ms
    done = await walk.answered(partial(desk.redrive, group, count), turns)
    if done is not None:
        assert [one.message_id for one in done] == planned
    for queue_id in range(walk.queues[topic]):
        queue = walk.sent.setdefault((topic, queue_id), [])
        for body in (await bodies_of(walk, topic, queue_id))[len(queue) :]:
            place, old = len(queue), readers[0].messages[body]
            assert body in planned, f"{body} was sent again"
            planned.remove(body)
            queue.append((body, before_ms))
            for model in readers:
                model.sent(old._replace(queue_id=queue_id, queue_offset=place))
    assert done is None or not planned, f"{planned} were not sent again"
    await walk.seen()


async def turn(walk: ConsumeWalk, group: str, *, is_on: bool) -> None:
    """Turns a group on or off; a receive of a group that is off must be refused."""
    walk.note("turns", group, is_on)
    await walk.leave()
    await walk.store.tables.groups.update(group, GroupSettings(enabled=is_on))
    if not is_on:
        try:
            await walk.received(walk.request(group, Asked(1, "", walk.now_ms), 1_000))
        except GroupDisabled:
            walk.counts["receives while off"] += 1
        else:
            raise AssertionError(f"{group} is off, and received")


async def make_again(
    walk: ConsumeWalk, group: str, meanwhile: Callable[[], Awaitable[None]]
) -> None:
    """Deletes a group with its topics, and creates it again, not where a message stands twice."""
    if GROUPS[group] in walk.redriven:
        return
    walk.note("new groups", group)
    await walk.leave()
    await delete_group(walk.store, group, with_topics=True)
    walk.models[group].made_again()
    walk.handles = [handle for handle in walk.handles if handle.group != group]
    await meanwhile()
    await walk.create_group(group)
    await walk.seen()


async def leave_order(walk: ConsumeWalk, group: str) -> None:
    """Switches a group from ordered to unordered receiving, with its open leases."""
    walk.note("leaves order", group)
    await walk.leave()
    await walk.store.tables.groups.update(group, GroupSettings(fifo=False))
    walk.models[group].leave_order()
    for key in [key for key in walk.attempts if key[0] == group]:
        del walk.attempts[key]


async def end(walk: ConsumeWalk) -> None:
    """Settles all deliveries until none is left, then compares the rest."""
    await walk.leave()
    walk.handles.clear()
    for _ in range(END_ROUNDS):
        for group in GROUPS:
            while await walk.receive(group):
                mine = [handle for handle in walk.handles if handle.group == group]
                await ack(walk, group, mine)
                walk.handles.clear()
        if not any(model.kinds(b) & LEFT for model in walk.models.values() for b in model.messages):
            break
        walk.loop.clock.advance(61_000)
        await walk.steps()
    await check_topics(walk)
    for group, model in walk.models.items():
        dead = await bodies_of(walk, dead_letter_topic(group), 0)
        walk.counts["dead letters"] += len(dead)
        model.check_end(dead)
    walk.counts["sent"] += walk.number
    await walk.close()
