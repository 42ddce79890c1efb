"""Each round ships what is new, and every archived moment comes back."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from pocketmq.format.order_row import QueueOrder
from pocketmq.format.timer_layout import TimerProgress, decode_progress
from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive import append_only as module
from pocketmq.tools.archive.catalog import LOG, MOMENTS, TIMER, LogPart, parts_of
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.archived import Archive, BusyObjects, FailingObjects, Stopped
from tests.kit.backed_up import fill, stocked
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import views
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import golden_tool_sizes
from tests.sim.quick_disk import QuickDisk

FILE_SIZE = 4096
HOUR_MS = 3_600_000


def numbered(end: int) -> list[str]:
    return [f"body {number}" for number in range(end)]


def spans(archive: Archive) -> list[tuple[int, int]]:
    return [(part.begin, part.end) for part in parts_of(archive.objects.names(LOG))]


async def test_every_moment_of_a_growing_store_comes_back(tmp_path: Path) -> None:
    archive, moments = Archive(tmp_path), []
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 90, 7):
            await fill(store, count, count + 7)
            await store.store.tables.topics.create(f"N{count}", queue_count=1)
            shipped = archive.ship()
            assert shipped.is_new
            assert shipped.upto == store.store.flushed
            moments.append((archive.now_ms, count + 7))
    for at_ms, count in moments:
        assert await archive.bodies(at_ms) == numbered(count)
        topics = (archive.restored(at_ms) / "config/topics.json").read_text()
        assert f'"N{count - 7}"' in topics
        assert f'"N{count}"' not in topics


async def test_a_round_without_news_writes_nothing(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 5)
        archive.ship()
        archive.ship()
        before = sorted((tmp_path / "a").rglob("*"))
        assert not archive.ship().is_new
        assert sorted((tmp_path / "a").rglob("*")) == before
        await fill(store, 5, 6)
        assert archive.ship().is_new


@pytest.mark.parametrize("grows", [False, True])
async def test_a_log_that_was_cut_and_goes_on_otherwise_is_not_mixed_with_the_archived_one(
    tmp_path: Path, *, grows: bool
) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 5)
        archive.ship()
        before = store.killed(tmp_path / "before")
        await fill(store, 5, 9)
        archive.ship()
        upto = store.store.flushed
    shutil.rmtree(tmp_path / "s")
    before.rename(tmp_path / "s")
    async with store_at(tmp_path / "s") as store:
        await fill(store, 20, 30 if grows else 21)
        assert (store.store.flushed > upto) is grows
        with pytest.raises(NotAStore, match=f"was cut below {upto}.*begin a new archive"):
            archive.ship()
    assert spans(archive)[-1][1] == upto
    assert await archive.bodies() == numbered(9)


async def test_a_full_file_becomes_one_part(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 90, 5):
            await fill(store, count, count + 5)
            archive.ship()
        end = store.store.flushed
    found = spans(archive)
    assert found[:2] == [(0, FILE_SIZE), (FILE_SIZE, 2 * FILE_SIZE)]
    assert found[-1][1] == end
    assert await archive.bodies() == numbered(90)


async def test_many_small_parts_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL_MAX", 3)
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for count in range(12):
            await fill(store, count, count + 1)
            archive.ship()
            assert len(spans(archive)) <= 4
    assert await archive.bodies() == numbered(12)


async def test_rounds_go_on_while_small_parts_become_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL_MAX", 3)
    archive = Archive(tmp_path)
    busy = BusyObjects(archive.objects)
    archive.begin(busy)
    async with store_at(tmp_path / "s") as store:
        for count in range(9):
            await fill(store, count, count + 1)
            assert archive.ship_alone().is_new
        assert len(spans(archive)) == 9, "no round waits for a merge"
        await fill(store, 9, 10)
        lost_ms = 0

        def round_meanwhile() -> None:
            nonlocal lost_ms
            assert archive.ship_alone().is_new
            lost_ms = archive.now_ms

        busy.call = round_meanwhile
        assert archive.upkeep() == ""
        assert lost_ms, "the upkeep wrote a large part"
        assert len(spans(archive)) == 2
        assert await archive.bodies(lost_ms) == numbered(10)
        await fill(store, 10, 30)
        archive.ship()
    assert await archive.bodies() == numbered(30)
    archive.begin()
    assert not archive.ship().size


async def test_no_round_ships_more_than_small_parts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL_SIZE", 1000)
    archive, before = Archive(tmp_path), list[tuple[int, int]]()
    counts = (0, 2, 3, 4, 5, 25, 26, 27, 28, 40, 60, 61, 90)
    async with store_at(tmp_path / "s") as store:
        for first, last in pairwise(counts):
            await fill(store, first, last)
            archive.ship()
            found, archived = spans(archive), max((end for _, end in before), default=0)
            again = [part for part in found if part not in before and part[0] < archived]
            assert sum(min(end, archived) - begin for begin, end in again) < 1000
            assert {part for part in before if part[1] - part[0] >= 1000} <= set(found)
            before = found
    assert all(part[1] == later[0] for part, later in pairwise(before))
    assert not any(later[1] - part[0] < 1000 for part, later in pairwise(before[:-1]))
    assert await archive.bodies() == numbered(90)


async def test_offsets_settled_in_order_come_back(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 4)
        orders = store.store.tables.orders
        for settled in range(1, 4):
            orders.change("g", "T", 0, partial(QueueOrder, settled))
            await orders.saved()
            archive.ship()
    async with store_at(archive.restored()) as again:
        assert again.store.tables.orders.find("g", "T", 0, 0).next_offset == 3


@asynccontextmanager
async def before_a_third_round(place: Path, count: int) -> AsyncIterator[list[Archive]]:
    """Archives of one running store: two rounds have 30 of its 60 messages."""
    archives = [Archive(place, str(place / f"a{number}")) for number in range(count)]
    async with store_at(place / "s") as store:
        for begin in (0, 15):
            await fill(store, begin, begin + 15)
            for archive in archives:
                archive.ship()
        await fill(store, 30, 60)
        yield archives


async def test_a_killed_shipper_goes_on_where_it_was(tmp_path: Path) -> None:
    """It is killed before each write of a round that completes a file."""
    async with before_a_third_round(tmp_path, 9) as archives:
        for fails_at, archive in enumerate(archives):
            archive.begin(FailingObjects(archive.objects, fails_at))
            with suppress(Stopped):
                archive.ship()
            archive.begin()
            archive.ship()
    for archive in archives:
        assert await archive.bodies() == numbered(60)


async def test_a_merge_of_parts_beyond_the_last_moment_is_undone_for_a_restored_store(
    tmp_path: Path,
) -> None:
    """The upkeep merged parts of a round, whose machine was lost before it wrote the moment."""
    async with before_a_third_round(tmp_path, 6) as archives:
        for fails_at, archive in enumerate(archives):
            objects = FailingObjects(archive.objects, fails_at)
            archive.begin(objects)
            with suppress(Stopped):
                archive.ship_alone()
            objects.mend()
            archive.upkeep()
    for archive in archives:
        lost_ms, kept = archive.now_ms, await archive.bodies()
        async with store_at(archive.restored()) as store:
            archive.follow(store.directory)
            archive.begin()
            assert await archive.bodies(lost_ms) == kept
            await store.send("T", "again")
            await store.settled()
            archive.ship()
        assert await archive.bodies() == [*kept, "again"]


@pytest.mark.parametrize("more", [1, 60])
async def test_a_restored_store_goes_on_with_its_archive(tmp_path: Path, more: int) -> None:
    """Its machine was lost before each write of a round that completes a file."""
    async with before_a_third_round(tmp_path, 9) as archives:
        for fails_at, archive in enumerate(archives):
            archive.begin(FailingObjects(archive.objects, fails_at))
            with suppress(Stopped):
                archive.ship()
    for archive in archives:
        lost_ms, kept = archive.now_ms, await archive.bodies()
        assert len(kept) in (30, 60)
        async with store_at(archive.restored()) as store:
            archive.follow(store.directory)
            archive.begin()
            assert await archive.bodies(lost_ms) == kept, "this machine may be lost as well"
            for number in range(more):
                await store.send("T", f"again {number}")
            await store.settled()
            archive.ship()
        again = [f"again {number}" for number in range(more)]
        assert await archive.bodies() == kept + again
        assert await archive.bodies(lost_ms) == kept
        assert archive.now_ms > lost_ms
        archive.begin()
        assert not archive.ship().size


async def test_a_store_of_an_earlier_moment_does_not_go_on(tmp_path: Path) -> None:
    archive, moments = Archive(tmp_path), []
    async with store_at(tmp_path / "s") as store:
        for count in (0, 15):
            await fill(store, count, count + 15)
            archive.ship()
            moments.append(archive.now_ms)
    async with store_at(archive.restored(moments[0])) as store:
        archive.follow(store.directory)
        with pytest.raises(NotAStore, match="or this store was restored from an earlier moment"):
            archive.begin()
    assert await archive.bodies() == numbered(30)


async def test_a_restored_timer_log_goes_on_where_its_moment_ends(
    golden: GoldenStores, tmp_path: Path
) -> None:
    source, sizes = golden.store("semantics"), golden_tool_sizes(golden, "semantics")
    archive = Archive(tmp_path, store=source, sizes=sizes)
    archive.ship()
    before = parts_of(archive.objects.names(TIMER))
    end = before[-1].end
    lost = LogPart(end, end + 7, sha256(b"of lost").hexdigest())
    archive.objects.put(f"{TIMER}/{lost.name}", [b"of lost"])
    archive.follow(archive.restored())
    archive.begin()
    assert parts_of(archive.objects.names(TIMER)) == before
    again = archive.restored()
    archive.follow(again)
    for path in (again / "timerlog").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(NotAStore, match="its timer log differs from that of the store"):
        archive.begin()


async def test_a_clock_that_was_set_back_makes_no_earlier_moment(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 5)
        archive.ship()
        await fill(store, 5, 9)
        archive.now_ms -= HOUR_MS
        archive.begin()
        archive.ship()
        await fill(store, 9, 12)
        archive.ship()
    assert await archive.bodies() == numbered(12)


async def test_what_retention_removed_first_is_told(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        await fill(store, 0, 10)
        archive.ship()
        early = archive.now_ms
        await fill(store, 10, 150)
        image = store.killed(tmp_path / "image")
    shutil.rmtree(tmp_path / "s")
    image.rename(tmp_path / "s")
    for name in sorted((tmp_path / "s/commitlog").iterdir())[:2]:
        name.unlink()
    shipped = archive.ship()
    assert shipped.gap == 2 * FILE_SIZE - spans(archive)[0][1]
    assert await archive.bodies(early) == numbered(10)
    bodies = await archive.bodies()
    assert bodies == numbered(150)[-len(bodies) :]
    assert 60 < len(bodies) < 90


async def test_an_archive_of_another_store_is_refused(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 30)
    archive = Archive(tmp_path)
    archive.ship()
    shutil.rmtree(tmp_path / "s")
    await stocked(tmp_path / "s", 1, 40)
    with pytest.raises(NotAStore, match="differs from that of the store between"):
        archive.begin()
    shutil.rmtree(tmp_path / "s")
    await stocked(tmp_path / "s", 0, 3)
    with pytest.raises(NotAStore, match="its log ends at"):
        archive.begin()


async def test_a_directory_of_other_files_is_refused(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 3)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/notes.txt").touch()
    with pytest.raises(NotAStore, match=r"notes\.txt"):
        Archive(tmp_path).begin()
    (tmp_path / "a/archive.json").write_text('{"format": "pocketmq archive 2"}')
    with pytest.raises(NotAStore, match="'pocketmq archive 2', not 'pocketmq archive 1'"):
        Archive(tmp_path).begin()


async def test_damage_is_shipped_as_it_is_and_told(tmp_path: Path) -> None:
    await stocked(tmp_path / "s", 0, 10)
    path = tmp_path / "s/commitlog/00000000000000000000"
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:4])
    content[size + 90] ^= 1
    path.write_bytes(content)
    archive = Archive(tmp_path)
    shipped = archive.ship()
    assert f"{path} at {size}: " in shipped.damage
    restored = archive.restored() / "commitlog/00000000000000000000"
    assert restored.read_bytes()[: shipped.upto] == content[: shipped.upto]


async def test_damage_is_told_after_an_upkeep_whose_target_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stocked(tmp_path / "s", 0, 10)
    path = tmp_path / "s/commitlog/00000000000000000000"
    content = bytearray(path.read_bytes())
    content[int.from_bytes(content[:4]) + 90] ^= 1
    path.write_bytes(content)
    archive = Archive(tmp_path)
    archive.begin()
    archive.ship_alone()

    def failed(self: module.AppendOnly) -> None:
        raise OSError("no network")

    with monkeypatch.context() as failing:
        failing.setattr(module.AppendOnly, "merge", failed)
        with pytest.raises(OSError, match="no network"):
            archive.upkeep()
    assert str(path) in archive.upkeep()


async def test_old_hours_are_removed_with_the_log_before_them(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    async with store_at(tmp_path / "s") as store:
        for hour in range(4):
            await fill(store, hour * 20, hour * 20 + 20)
            archive.ship()
            archive.now_ms += HOUR_MS
        archive.prune(2 * HOUR_MS)
        assert len(archive.objects.names(MOMENTS)) == 2
        assert await archive.bodies() == numbered(80)
        image = store.killed(tmp_path / "image")
    shutil.rmtree(tmp_path / "s")
    image.rename(tmp_path / "s")
    (tmp_path / "s/commitlog/00000000000000000000").unlink()
    archive.ship()
    archive.now_ms += 9 * HOUR_MS
    archive.ship()
    archive.prune(HOUR_MS)
    assert spans(archive)[0][0] == FILE_SIZE
    assert 30 < len(await archive.bodies()) < 60


async def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "s/commitlog").mkdir(parents=True)
    archive = Archive(tmp_path)
    assert archive.ship() == (0, 0, True, 0, "")
    assert await archive.bodies() == []


async def test_a_real_brokers_store_comes_back_byte_for_byte(
    golden: GoldenStores, tmp_path: Path
) -> None:
    source = golden.store("rebuild-base")
    sizes = golden_tool_sizes(golden, "rebuild-base")
    archive = Archive(tmp_path, store=source, sizes=sizes)
    assert archive.ship().damage == ""
    again = archive.restored()
    async with store_at(again) as store:
        await store.settled()
    assert views(again) == views(source)


def test_a_real_brokers_timer_comes_back(golden: GoldenStores, tmp_path: Path) -> None:
    source, sizes = golden.store("semantics"), golden_tool_sizes(golden, "semantics")
    archive = Archive(tmp_path, store=source, sizes=sizes)
    archive.ship()
    again = archive.restored()
    check = (source / "config/timercheck").read_bytes()
    assert (again / "config/timercheck").read_bytes() == check
    log = b"".join(files_below(source / "timerlog").values())
    restored = b"".join(files_below(again / "timerlog").values())
    flushed = (decode_progress(check) or TimerProgress()).log_flushed
    begin = int(min(path.name for path in (source / "timerlog").iterdir()))
    assert restored == log[: flushed - begin].ljust(len(restored), b"\0")
    assert flushed > begin
    found = verify(QuickDisk(), again, sizes, VerifyOptions(log_only=True))
    assert found.counts == {}


async def test_a_url_is_written_through_pyarrow(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    archive = Archive(tmp_path, f"file://{tmp_path}/a")
    async with store_at(tmp_path / "s") as store:
        for count in range(0, 60, 20):
            await fill(store, count, count + 20)
            archive.ship()
        archive.now_ms += 3 * HOUR_MS
        archive.ship()
        archive.prune(HOUR_MS)
    assert len(archive.objects.names(MOMENTS)) == 1
    assert not list((tmp_path / "a").rglob("*.draft"))
    assert await archive.bodies() == numbered(60)
