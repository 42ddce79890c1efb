"""Steps of consume walks: operators purge, extend and delete topics, and create them again."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from pocketmq.model.administration import PurgedQueue, ResetTarget, TopicChange
from pocketmq.model.errors import TopicNotFound
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.topics import delete_topic, update_topic
from tests.models.consume_model import Asked
from tests.models.consume_operators import check_place
from tests.models.consume_walk import GROUPS, QUEUES, QUIET_S, ConsumeWalk

QUEUES_MAX: Final = 4


async def purge(
    walk: ConsumeWalk, topic: str, queue_ids: list[int], before_ms: int, turns: int | None = None
) -> None:
    """Purges a topic and its retries, or some queues; again, if it was cut off."""
    walk.note("purges", topic, queue_ids, before_ms, turns)
    call = partial(purge_topic, walk.store, topic, queue_ids=queue_ids, before_ms=before_ms)
    planned = await call(dry_run=True)
    if await walk.answered(call, turns) is None:
        again = partial(purge_topic, walk.store, topic, queue_ids=queue_ids, before_ms=before_ms)
        await again()
    _purged(walk, topic, queue_ids, before_ms, planned)
    await walk.seen()


def _purged(
    walk: ConsumeWalk, topic: str, queue_ids: list[int], before_ms: int, planned: list[PurgedQueue]
) -> None:
    """Compares what is left with what was planned, and tells the models."""
    floors = {one.queue_id: one.new_min_offset for one in planned if one.topic == topic}
    for queue_id in queue_ids or range(walk.queues[topic]):
        sent = walk.sent.get((topic, queue_id), [])
        floor = walk.floors.get((topic, queue_id), 0)
        target = ResetTarget(time_ms=before_ms) if before_ms else ResetTarget(latest=True)
        at = floors.get(queue_id, floor)
        if at > floor or len(sent) > floor:
            check_place(target, sent, max(at, floor), floor)
        walk.floors[topic, queue_id] = at
        walk.counts["purged"] += at - floor
        lower, upper = walk.store.reading.queue_range(topic, queue_id)
        assert at == floor or (lower, upper) == (at, len(sent))
    walk.emptied(topic, {**floors}, is_whole=not queue_ids)


async def extend(walk: ConsumeWalk, topic: str, turns: int | None = None) -> None:
    """Adds a queue to a topic; again, if it was cut off."""
    if walk.queues[topic] >= QUEUES_MAX:
        return
    walk.note("added queues", topic, turns)
    count = walk.queues[topic] + 1
    change = TopicChange(read_queue_count=count, write_queue_count=count)
    if await walk.answered(partial(update_topic, walk.store, topic, change), turns) is None:
        await update_topic(walk.store, topic, change)
    walk.queues[topic] = count
    await walk.seen()


async def remove(
    walk: ConsumeWalk, topic: str, meanwhile: Callable[[], Awaitable[None]],
    turns: int | None = None,
) -> None:  # fmt: skip
    """Deletes a topic, again if it was cut off, and creates it again after something else."""
    walk.note("removes", topic, turns)
    if turns is None:
        await walk.served()
    else:
        await walk.leave()
    waiting = [one for one in walk.parked if GROUPS[one.group] == topic]
    is_told = await walk.answered(partial(delete_topic, walk.store, topic), turns) is not None
    if not is_told and walk.store.tables.topics.find(topic) is not None:
        is_told = bool(await delete_topic(walk.store, topic))
    for group in [group for group, its in GROUPS.items() if its == topic]:
        walk.models[group].removed(is_told=is_told)
    for queue_id in range(QUEUES_MAX):
        walk.floors[topic, queue_id] = len(walk.sent.get((topic, queue_id), []))
    walk.emptied(topic, {n: walk.floors[topic, n] for n in range(QUEUES_MAX)}, is_whole=True)
    walk.parked = [one for one in walk.parked if one not in waiting]
    await walk.steps()
    await walk.loop.pause(QUIET_S)
    for one in waiting:
        assert isinstance(one.answer.exception(), TopicNotFound)
        walk.counts["waits ended"] += 1
    for group in [group for group, its in GROUPS.items() if its == topic]:
        try:
            await walk.received(walk.request(group, Asked(1, "", walk.now_ms), 1_000))
        except TopicNotFound:
            continue
        raise AssertionError(f"{group} received from {topic}, which is removed")
    await meanwhile()
    walk.note("creates again", topic)
    await walk.create(topic)
    walk.queues[topic] = QUEUES
    await walk.seen()
