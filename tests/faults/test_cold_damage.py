"""D3: damage in old files of the log costs exactly the damaged records, and is named.

Stores of fifteen log files; bits are flipped and bytes zeroed in a file that recovery need not
look at, then the real store is started and everything is read. RocketMQ's own recovery of the
same bytes, as a small model, loses everything behind the first bad record.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from pocketmq.format.record import RECORD_HEAD, BadRecord, check_record, split_record
from pocketmq.model.errors import StoreDamaged
from pocketmq.store.recovery import recovery_plan
from tests.kit.damaged_image import Seen, Stock, file_of, flip, stocked, write
from tests.sim.disk_image import Image

FILE_SIZE = 4_096
COUNT = 180
CASES = 60
"""Of each way to start, some 8 ms a case; `scripts/torture/run flips` takes each bit of the log."""
SEED = 20261121


@pytest.fixture(scope="module")
def stock() -> Stock:
    return asyncio.run(stocked(file_size=FILE_SIZE, count=COUNT))


@pytest.fixture(scope="module")
def killed() -> Stock:
    return asyncio.run(stocked(file_size=FILE_SIZE, count=COUNT, killed=True))


WAYS = ("body", "properties", "crc", "head", "size", "magic", "own place", "topic", "blank",
        "zero record", "zero sector", "zero byte")  # fmt: skip


def damage(stock: Stock, image: Image, way: str, chance: random.Random) -> tuple[int, int]:
    """Damage one of the first eight files; returns which bytes of the log, as [begin, end)."""
    place = chance.choice([p for p in stock.places if p < 8 * FILE_SIZE])
    size = stock.places[place][2]
    position, path = place % FILE_SIZE, stock.path(place)
    content = file_of(image, path).content
    _, body, topic, topic_end, block, block_end = split_record(content, position)
    fields = {
        "body": (body, topic - 1),
        "properties": (block, block_end - 20),
        "crc": (block_end - 20, block_end),
        "head": (position + 8, position + RECORD_HEAD.size),
        "size": (position, position + 4),
        "magic": (position + 4, position + 8),
        "own place": (position + 28, position + 36),
        "topic": (topic - 1, topic_end),
        "blank": (FILE_SIZE - 8, FILE_SIZE),
    }
    if way == "blank":
        last = max(p for p in stock.places if stock.path(p) == path)
        position = last % FILE_SIZE + stock.places[last][2]
        fields["blank"] = (position, position + 8)
    if way in fields:
        at = chance.randrange(*fields[way])
        flip(image, path, 8 * at + chance.randrange(8))
        begin, end = at, at + 1
    elif way == "zero record":
        begin, end = position, position + size
    else:
        begin = position + chance.randrange(size)
        begin, end = (begin // 512 * 512, begin // 512 * 512 + 512) if "sector" in way else (
            begin, begin + 1
        )  # fmt: skip
    if way.startswith("zero"):
        was = content[begin:end]
        write(image, path, begin, bytes(end - begin))
        end = begin if was == bytes(end - begin) else end
    base = place - place % FILE_SIZE
    return base + begin, base + end


def judged(stock: Stock, seen: Seen, begin: int, end: int) -> None:
    """Exactly the damaged records are lost; each of them is named with its file and place."""
    assert not stock.complaints(seen)
    hit = stock.hit(begin, end)
    assert stock.lost(seen) == hit
    for (key, number), error in seen.reported.items():
        (place,) = [p for p, row in stock.places.items() if row[:2] == (key, number)]
        assert (error.path, error.physical_offset) == (str(stock.path(place)), place)
        assert error.file_position == place % FILE_SIZE
        assert (error.queue_offset, error.next_begin_offset) == (number, number + 1)
    if seen.damaged is None:
        assert seen.sent == "sent"
    else:
        told = seen.damaged
        assert seen.sent == StoreDamaged.__name__
        assert told.begin < end
        assert begin < told.end
        assert told.path == str(stock.path(begin))


def cases(stock: Stock, seed: int) -> Iterator[tuple[Image, str, int, int]]:
    """Yields damaged images, every way in turn."""
    for number in range(CASES):
        chance = random.Random(seed + number)
        image, way = stock.image(), WAYS[number % len(WAYS)]
        begin, end = damage(stock, image, way, chance)
        print(f"repro: case {number}, seed {seed}: {way} at {begin} to {end}")
        yield image, way, begin, end


@pytest.mark.parametrize("way", ["cold", "looked_at", "killed"])
async def test_damage_costs_exactly_the_damaged_records(
    stock: Stock, killed: Stock, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Where a start does not look, where it does after an orderly end, and after a kill."""
    if way == "cold":
        monkeypatch.setattr(recovery_plan, "WALK_BACK", 0)
    chosen = killed if way == "killed" else stock
    counts: Counter[str] = Counter()
    for image, kind, begin, end in cases(chosen, SEED):
        seen = await chosen.opened(image, send=True)
        judged(chosen, seen, begin, end)
        counts[kind] += 1
        counts["taken"] += seen.damaged is None
    print(f"cases of {way}: {dict(counts)}")
    assert sum(counts[kind] for kind in WAYS) == CASES
    if way == "cold":
        assert counts["taken"] == CASES


# -- what RocketMQ makes of the same bytes ---------------------------------------------------------
def recovered_abnormally(stock: Stock, image: Image) -> int:
    """Returns where the log ends after RocketMQ's recovery from a kill.

    It begins with the newest file whose first record is older than the checkpoint, two files before
    the end at most, and ends at the first bad record, whatever lies behind it.
    Source: CommitLog.recoverAbnormally, isMappedFileMatchedRecover
    """
    paths = list(stock.files("/commitlog/"))
    contents = [file_of(image, path).content for path in paths]
    upper = max(p for p in stock.places) // FILE_SIZE
    for number in range(max(upper - 2, 0), upper + 1):
        position, base = 0, number * FILE_SIZE
        while position + 8 <= FILE_SIZE:
            try:
                size = check_record(contents[number], position, base + position)
            except BadRecord:
                return base + position
            if not size:
                break
            position += size
    return stock.end


@pytest.mark.parametrize("accepts", [False, True])
async def test_rocketmq_would_have_lost_everything_behind_it(killed: Stock, accepts: bool) -> None:
    """Same bytes, one flipped bit: one message lost here, all that follow there."""
    theirs = ours = cases_seen = 0
    last = max(killed.places) // FILE_SIZE
    recent = [p for p in killed.places if p // FILE_SIZE in (last - 2, last - 1)]
    for place in recent:
        image = killed.image()
        position = place % FILE_SIZE
        body = split_record(file_of(image, killed.path(place)).content, position)[1]
        flip(image, killed.path(place), 8 * body + 1)
        end = recovered_abnormally(killed, image)
        assert end == place
        theirs += sum(1 for other in killed.places if other >= end)
        seen = await killed.opened(image, send=True, accept_damage=accepts)
        assert not killed.complaints(seen, may_lose=True)
        assert killed.lost(seen) == {killed.places[place][:2]}
        if accepts:
            assert (seen.damaged, seen.sent) == (None, "sent")
        else:
            assert seen.damaged is not None
            assert (seen.damaged.path, seen.damaged.begin) == (str(killed.path(place)), place)
            assert seen.sent == StoreDamaged.__name__
        ours += 1
        cases_seen += 1
    print(f"{cases_seen} flipped bits: {ours} messages lost here, {theirs} by RocketMQ's recovery")
    assert cases_seen >= 10
    assert theirs > 5 * ours
