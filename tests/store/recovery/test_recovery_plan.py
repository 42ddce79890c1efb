"""Recovery of stores that were left in every state there is."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.consume_unit import PRE_BLANK_SIZE, UNIT
from pocketmq.format.index_layout import ENTRY_SIZE, IndexGeometry
from pocketmq.format.record import SIZE_AND_MAGIC, decode_record
from pocketmq.log.checkpoint import FlushedMark, StoreCheckpoint
from pocketmq.model.errors import LogMissing, StoreDamaged
from pocketmq.model.reading import PullResult, ReadRange
from pocketmq.store.message_store import MessageStore
from pocketmq.store.recovery import bulk_dispatch
from pocketmq.store.recovery.components import StoreComponents
from pocketmq.store.recovery.start import start_at_once
from pocketmq.store.settings import StoreSettings
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, index_contents
from tests.kit.store_golden import golden_copy, golden_parts, golden_sizes, recovered
from tests.kit.store_language import (
    TalkingStore,
    rebuilt_views,
    small_settings,
    store_at,
    view_files,
)
from tests.sim.clock import FakeClock
from tests.sim.quick_disk import QuickDisk

FILE_SIZE = 4096
BODY = "x" * 300

# -- damage ----------------------------------------------------------------------------------------


def copied(source: Path, to: Path) -> Path:
    """Copies a store; returns the copy."""
    shutil.copytree(source, to)
    return to


def overwrite(store: Path, physical_offset: int, content: bytes) -> None:
    """Puts bytes over what the log of a store holds."""
    path = store / "commitlog" / f"{physical_offset - physical_offset % FILE_SIZE:020d}"
    with path.open("r+b") as file:
        file.seek(physical_offset % FILE_SIZE)
        file.write(content)


def flip(store: Path, *physical_offsets: int) -> None:
    """Changes one byte in the body of each record (heads take 88 bytes)."""
    for place in physical_offsets:
        overwrite(store, place + 100, b"\0")


async def a_killed_store(tmp_path: Path) -> tuple[Path, list[int]]:
    """A store of four messages after kill -9, the last two not flushed, and their offsets."""
    async with store_at(tmp_path / "s") as store:
        places = [(await store.send("T", f"{n}{BODY}", key="k")).physical_offsets[0] for n in "ab"]
        await store.pulled("T")
        for n in "cd":
            result = await store.send("T", f"{n}{BODY}", key="k", wait=False)
            places += result.physical_offsets
        return store.killed(tmp_path / "killed"), places


def letters_of(store: MessageStore, *, count: int = 1) -> str:
    """Returns the first letters of all bodies, "-" for a damaged one, nothing for a pre-blank."""
    lower, upper = store.reading.queue_range("T", 0)
    letters = ""
    for queue_offset in range(lower, upper):
        found = store.reading.pull(ReadRange("T", 0, queue_offset, 1, 1))
        if not isinstance(found, PullResult):  # It would be searched for, and told.
            letters += "-"
            continue
        letters += "".join(decode_record(record).body.decode()[:count] for record in found.records)
    return letters


async def first_letters(store: TalkingStore) -> str:
    await store.settled()
    return letters_of(store.store)


async def label_of(image: Path) -> tuple[str, str]:
    """Opens a store; returns the plan's label and the first letters of what can be pulled."""
    async with store_at(image) as store:
        label = store.store._start.recovery.plan.label
        return label, await first_letters(store)


class Served(NamedTuple):
    """State and contents of a damaged store: first letters of bodies, "-" for a damaged one."""

    damage: StoreDamaged
    letters: str


async def served_of(image: Path) -> Served:
    """Opens a damaged store twice and tries to send; the log must stay as it was."""
    before = files_below(image)
    for _ in range(2):
        async with store_at(image) as store:
            assert store.store.state == "damaged"
            with pytest.raises(StoreDamaged) as caught:
                await store.send("T", "more")
            letters = letters_of(store.store)
    after = files_below(image)
    kept = ("commitlog", "checkpoint", "abort", "pocketmq")
    assert {n: c for n, c in after.items() if n.startswith(kept)} == {
        n: c for n, c in before.items() if n.startswith(kept)
    }
    return Served(caught.value, letters)


async def accepted(image: Path) -> str:
    """Opens a store over its damage; returns the first letters of what can be pulled."""
    async with store_at(image, accept_damage=True) as store:
        await store.send("T", f"z{BODY}", key="k")
        letters = await first_letters(store)
        assert len(await store.found("T", "k")) == len(letters)
    assert await label_of(image) == ("@clean", letters)
    copy = copied(image, image.with_name(f"{image.name}-views"))
    assert view_files(image) == await rebuilt_views(copy, image.with_name(f"{image.name}-anew"))
    return letters


async def test_what_lay_in_the_log_survives_a_kill(tmp_path: Path) -> None:
    image, _ = await a_killed_store(tmp_path)
    assert await label_of(image) == ("@behind", "abcd")


class CountingDisk(QuickDisk):
    """Counts the bytes of files that are read in a row."""

    __slots__ = ("read_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def read_into(self, descriptor: int, position: int, buffer: memoryview) -> int:
        count = super().read_into(descriptor, position, buffer)
        self.read_bytes += count
        return count


@pytest.mark.parametrize(("ahead_max", "times"), [(1 << 20, 1), (20, 2)])
async def test_a_log_behind_the_checkpoint_is_read_once_as_far_as_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_max: int, times: int
) -> None:
    monkeypatch.setattr(bulk_dispatch, "AHEAD_MAX", ahead_max)
    async with store_at(tmp_path / "s") as store:
        for number in range(60):
            await store.stocked()
            await store.send("T", f"{number}{BODY}", key=f"k{number}", queue_id=number % 3)
        await store.settled()
        log_bytes = store.store.appended
        killed = store.killed(tmp_path / "killed")
    shutil.rmtree(killed / "consumequeue")
    shutil.rmtree(killed / "index")
    (killed / "checkpoint").unlink()
    disk = CountingDisk()
    async with store_at(killed, disk=disk) as store:
        read = disk.read_bytes
        await store.settled()
    assert log_bytes * times * 0.9 < read + FILE_SIZE * (times - 1) < log_bytes * (times + 0.1)
    assert view_files(killed) == view_files(tmp_path / "s")


async def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    image, (_, _, third, _) = await a_killed_store(tmp_path)
    overwrite(image, third + 150, bytes(FILE_SIZE - third - 150))
    assert await label_of(image) == ("@torn_tail", "ab")


async def test_damage_above_the_mark_is_cut_with_all_behind_it_for_good(tmp_path: Path) -> None:
    # A record of the same size in the place of the cut one would lead to the stale one behind it.
    image, (_, _, third, fourth) = await a_killed_store(tmp_path)
    flip(image, third)
    async with store_at(image) as store:
        assert store.store._start.recovery.plan.label == "@torn_tail"
        assert await first_letters(store) == "ab"
        result = await store.send("T", f"e{BODY}", key="k")
        assert (result.physical_offsets, result.end) == ([third], fourth)
        again = store.killed(tmp_path / "again")
    assert await label_of(again) == ("@behind", "abe")


async def test_a_lost_tail_is_named_and_what_is_left_is_served(tmp_path: Path) -> None:
    image, (_, second, *_) = await a_killed_store(tmp_path)
    overwrite(image, second, bytes(FILE_SIZE - second))
    damage, letters = await served_of(image)
    assert (damage.begin, damage.file_position) == (second, second)
    assert "were durable" in damage.why
    assert "commitlog" in damage.path
    assert letters.startswith("a")
    assert await accepted(image) == "az"


async def test_a_lost_tail_is_found_after_an_orderly_stop_too(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        await store.send("T", f"a{BODY}")
        second = (await store.send("T", f"b{BODY}")).physical_offsets[0]
    overwrite(tmp_path / "s", second, bytes(FILE_SIZE - second))
    damage, letters = await served_of(tmp_path / "s")
    assert (damage.begin, letters) == (second, "a-")


@pytest.mark.parametrize("is_killed", [True, False])
async def test_lost_log_files_are_missed(tmp_path: Path, is_killed: bool) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(30):
            await store.send("T", f"{number % 10}{BODY}", key=f"k{number}")
        await store.settled()
        image = store.killed(tmp_path / "killed")
    image = image if is_killed else tmp_path / "s"
    logs = sorted((image / "commitlog").iterdir())
    for path in logs[2:]:
        path.unlink()
    damage, letters = await served_of(image)
    assert damage.begin > FILE_SIZE
    assert letters.startswith("0123456789")
    shutil.rmtree(image / "commitlog")
    (image / "commitlog").mkdir()
    with pytest.raises(LogMissing, match="--accept-damage"):
        await served_of(image)


async def test_damage_below_the_mark_is_named_and_all_else_is_served(tmp_path: Path) -> None:
    image, (_, second, third, _) = await a_killed_store(tmp_path)
    flip(image, second)
    damage, letters = await served_of(image)
    assert (damage.begin, damage.end, damage.file_position) == (second, third, second)
    assert Path(damage.path).name == f"{0:020d}"
    assert "CRC" in damage.why
    assert letters == "acd"  # The damaged one has a pre-blank unit.


async def test_accepted_damage_is_set_aside_and_the_store_goes_on(tmp_path: Path) -> None:
    image, (_, second, third, _) = await a_killed_store(tmp_path)
    flip(image, second)
    flipped = (image / "commitlog" / f"{0:020d}").read_bytes()[second:third]
    assert await accepted(image) == "acdz"
    (copy,) = (image / "pocketmq" / "quarantine").glob(f"*/*@{second}")
    assert copy.read_bytes() == flipped


async def test_damage_at_the_end_below_the_mark_loses_only_itself(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        places = [(await store.send("T", f"{n}{BODY}", key="k")).physical_offsets[0] for n in "abc"]
        image = store.killed(tmp_path / "killed")
    flip(image, places[2])
    damage, letters = await served_of(image)
    assert (damage.begin, letters[:2]) == (places[2], "ab")
    assert await accepted(image) == "abz"


async def test_without_a_mark_damage_with_sound_records_behind_is_quarantined(
    tmp_path: Path,
) -> None:
    image, (_, second, _, fourth) = await a_killed_store(tmp_path)
    (image / "pocketmq" / "watermark").unlink()
    torn = copied(image, tmp_path / "torn")
    flip(image, second)
    async with store_at(image) as store:
        assert store.store._start.recovery.plan.label == "@foreign_hole"
        assert await first_letters(store) == "acd"
        assert (await store.send("T", f"e{BODY}", key="k")).queue_offset == 4
    assert await label_of(image) == ("@clean", "acde")
    assert view_files(image) == await rebuilt_views(image, tmp_path / "rebuilt")
    flip(torn, fourth)
    assert await label_of(torn) == ("@torn_tail", "abc")


async def test_without_a_mark_damage_at_a_files_end_is_a_hole_if_the_next_file_begins_soundly(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as store:
        places = [(await store.send("T", BODY)).physical_offsets[0] for _ in range(20)]
        image = store.killed(tmp_path / "killed")
    (image / "pocketmq" / "watermark").unlink()
    last_of_file = max(place for place in places if place < FILE_SIZE)
    overwrite(image, last_of_file, SIZE_AND_MAGIC.pack(-1, 0x01020304))
    async with store_at(image) as store:
        assert store.store._start.recovery.plan.label == "@foreign_hole"
        assert len(await first_letters(store)) == len(places) - 1
    assert view_files(image) == await rebuilt_views(image, tmp_path / "rebuilt")


async def test_where_rocketmq_would_cut_nothing_sound_is_lost(tmp_path: Path) -> None:
    # Its recovery ends at the first bad record: here that is the third of 30.
    async with store_at(tmp_path / "s") as store:
        places = [(await store.send("T", f"{n:02d}{BODY}")).physical_offsets[0] for n in range(30)]
        image = store.killed(tmp_path / "killed")
    flip(image, *(places[number] for number in (2, 11, 20)))
    async with store_at(image, accept_damage=True) as store:
        await store.settled()
        kept = letters_of(store.store, count=2)
    assert kept == "".join(f"{n:02d}" for n in range(30) if n not in (2, 11, 20))


async def test_views_of_a_log_that_is_elsewhere_stay_and_the_store_is_refused(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s") as store:
        for _ in range(30):
            await store.send("T", BODY, key="k")
    shutil.rmtree(tmp_path / "s" / "commitlog")
    shutil.rmtree(tmp_path / "s" / "pocketmq")
    was = view_files(tmp_path / "s")
    with pytest.raises(LogMissing, match="storePathCommitLog"):
        await label_of(tmp_path / "s")
    assert view_files(tmp_path / "s") == was
    assert not (tmp_path / "s" / "pocketmq").exists()
    for name in ("consumequeue", "index"):
        shutil.rmtree(tmp_path / "s" / name)
    assert await label_of(tmp_path / "s") == ("@no_log", "")


def without_last_file(store: Path, how: str) -> Path:
    """Takes the newest file of a log that holds records, or its bytes; returns its path."""
    last = max(path for path in (store / "commitlog").iterdir() if any(path.read_bytes()))
    for path in (store / "commitlog").iterdir():
        if path > last:
            path.unlink()
    if how == "gone":
        last.unlink()
    elif how == "empty":
        last.write_bytes(b"")
    else:
        last.write_bytes(bytes(last.stat().st_size))
    return last


def units_behind(store: Path, physical_offset: int) -> int:
    """Units of all queues that lead to an offset or behind it."""
    units = [
        row
        for path in sorted((store / "consumequeue").glob("*/*/*"))
        for row in UNIT.iter_unpack(path.read_bytes())
    ]
    return sum(place >= physical_offset and size > 0 for place, size, _ in units)


@pytest.mark.parametrize("how", ["gone", "empty", "zeros"])
@pytest.mark.parametrize("name", ["basic", "semantics", "v533", "crash-kill.after"])
async def test_a_found_log_without_its_last_file_is_damaged_and_its_queues_stay(
    how: str, name: str, golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy(name, tmp_path / "s")
    last = without_last_file(store, how)
    was = files_below(store)
    lost = units_behind(store, int(last.name))
    assert lost > 10
    sizes = golden_sizes(golden, name)
    for _ in range(2):
        async with store_at(store, **sizes) as opened:
            assert opened.store._start.recovery.plan.label == "@foreign_lost_tail"
            damage = opened.store.damage
            assert damage is not None
            assert str(lost) in damage.why
            assert damage.begin <= int(last.name) < damage.end
            if how == "gone":
                assert damage.path == str(last)
            with pytest.raises(StoreDamaged):
                await opened.send("New", "x")
        now = files_below(store)
        assert {name: now.get(name) for name in was if name != "lock"} == {
            name: content for name, content in was.items() if name != "lock"
        }
    async with store_at(store, accept_damage=True, **sizes) as opened:
        assert opened.store.damage is None
        await opened.send("New", "x")
        assert units_behind(store, int(last.name)) <= 1
    async with store_at(store, **sizes) as opened:
        assert await opened.pulled("New") == ["x"]


@pytest.mark.parametrize(
    ("was_durable", "label"), [(True, "@foreign_lost_tail"), (False, "@ahead")]
)
async def test_after_a_crash_the_checkpoint_tells_whether_what_is_gone_was_durable(
    was_durable: bool, label: str, golden: GoldenStores, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    store = golden.copy("crash-kill.after", tmp_path / "s")
    (store / "abort").touch()
    last = without_last_file(store, "gone")
    lost = units_behind(store, int(last.name))
    checkpoint = bytearray((store / "checkpoint").read_bytes())
    # Its first number is the time of what was flushed; its second one that of the last dispatch.
    checkpoint[:8] = checkpoint[8:16] if was_durable else bytes(8)
    (store / "checkpoint").write_bytes(checkpoint)
    async with store_at(store, **golden_sizes(golden, "crash-kill.after")) as opened:
        assert opened.store._start.recovery.plan.label == label
    told = [vars(r)["messages"] for r in caplog.records if r.message == "views.ahead"]
    assert told == ([] if was_durable else [lost])
    assert units_behind(store, int(last.name)) == (lost if was_durable else 0)


async def test_views_ahead_of_the_log_are_cut(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", flush="async") as store:
        places = []
        for number in range(40):
            places += (await store.send("T", f"{number % 10}{BODY}", key="k")).physical_offsets
        await store.settled()
        image = store.killed(tmp_path / "killed")
    overwrite(image, places[17], bytes(2 * FILE_SIZE - places[17]))
    for path in sorted((image / "commitlog").iterdir())[2:]:
        path.unlink()
    (image / "pocketmq" / "watermark").unlink()
    async with store_at(image) as store:
        assert store.store.appended == places[17]
        assert len(await store.pulled("T")) == 17
        assert len(await store.found("T", "k")) == 17
    assert view_files(image) == await rebuilt_views(image, tmp_path / "rebuilt")


# -- views that are not what the checkpoint says ---------------------------------------------------


async def test_an_index_file_that_was_never_synced_is_made_anew(tmp_path: Path) -> None:
    # After a power cut it is empty, and the one before it, synced when half full, not full.
    async with store_at(tmp_path / "s") as store:
        places = []
        for number in range(10):
            places += (await store.send("T", BODY, key=f"k{number}")).physical_offsets
        await store.settled()
        early = store.killed(tmp_path / "early")
        for number in range(10, 20):
            await store.send("T", BODY, key=f"k{number}")
        await store.settled()
        end, image = store.store.appended, store.killed(tmp_path / "image")
    half_full, never_synced = sorted((image / "index").iterdir())
    shutil.copyfile(early / "index" / half_full.name, half_full)
    never_synced.write_bytes(bytes(never_synced.stat().st_size))
    believe(image, places[5], end)
    async with store_at(image) as store:
        assert [await store.found("T", f"k{number}") for number in range(20)] == [[BODY]] * 20
    assert view_files(image) == await rebuilt_views(image, tmp_path / "rebuilt")


def believe(image: Path, physical_offset: int, flushed_upto: int) -> None:
    """Writes checkpoint and mark as if views had been durable up to a record."""
    checkpoint = encode_checkpoint(CheckpointValues(logics_physical_offset=physical_offset))
    (image / "checkpoint").write_bytes(checkpoint.ljust(FILE_SIZE, b"\0"))
    mark = FlushedMark(QuickDisk(), image / "pocketmq")
    mark.open()
    mark.write(flushed_upto, checkpoint)
    mark.close()


async def test_what_recovery_wrote_down_is_durable(tmp_path: Path) -> None:
    # The checkpoint must not speak of views that a power cut right after the start takes away.
    async with store_at(tmp_path / "s") as store:
        for number in range(30):
            await store.send("T", f"{number}", key="k", queue_id=number % 2)
        await store.settled()
        end, image = store.store.appended, store.killed(tmp_path / "killed")
    shutil.rmtree(image / "consumequeue" / "T" / "1")
    believe(image, 0, end)
    disk = QuickDisk()
    disk.trust(image)
    async with store_at(image, disk=disk) as store:
        left = disk.power_cut(store.directory, tmp_path / "left")
    async with store_at(left) as store:
        for queue_id in (0, 1):
            expected = [str(number) for number in range(queue_id, 30, 2)]
            assert await store.pulled("T", queue_id) == expected
        assert len(await store.found("T", "k")) == 30
    assert view_files(left) == await rebuilt_views(left, tmp_path / "rebuilt")


async def test_the_mark_for_a_lowered_checkpoint_is_durable_before_it(tmp_path: Path) -> None:
    # Else a power cut leaves a mark that fits no checkpoint, and torn is not told from damaged.
    image, _ = await a_killed_store(tmp_path)
    believe(image, 500, 700)
    disk = QuickDisk()
    disk.trust(image)
    with closing(StoreComponents(small_settings(image), disk)) as parts:
        parts.log.load()
        parts.checkpoint.load()
        parts.mark.open()
        parts.distrust(100)
        assert [path.name for path in disk.synced] == ["watermark", "checkpoint"]
        left = disk.power_cut(image, tmp_path / "left")
    mark, checkpoint = (
        FlushedMark(disk, left / "pocketmq"),
        StoreCheckpoint(disk, left / "checkpoint"),
    )
    mark.open()
    checkpoint.load()
    assert checkpoint.values.logics_physical_offset == 100
    assert mark.valid_upto(checkpoint.content) == 700
    mark.close()


async def test_after_another_broker_was_killed_young_index_files_are_not_believed(
    tmp_path: Path,
) -> None:
    # It syncs an index file when it is full; a power cut may have taken pages from the newest.
    async with store_at(tmp_path / "s") as store:
        for number in range(20):
            last = (await store.send("T", f"{number}", key=f"k{number}")).physical_offsets[0]
            store.clock.advance(1_000)
        await store.settled()
        end, image = store.store.appended, store.killed(tmp_path / "killed")
    newest = sorted((image / "index").iterdir())[-1]
    content = bytearray(newest.read_bytes())
    begin = IndexGeometry(8, 16).entries_position + 2 * ENTRY_SIZE
    content[begin : begin + ENTRY_SIZE] = bytes(ENTRY_SIZE)
    newest.write_bytes(content)
    believe(image, last, end)
    (image / "pocketmq" / "watermark").unlink()
    async with store_at(image) as store:
        assert [await store.found("T", f"k{n}") for n in range(20)] == [[f"{n}"] for n in range(20)]
    assert view_files(image) == await rebuilt_views(image, tmp_path / "rebuilt")


async def test_a_lost_tail_of_properties_is_a_torn_record(tmp_path: Path) -> None:
    for has_crc in (True, False):
        async with store_at(tmp_path / f"s{has_crc}", property_crc=has_crc) as store:
            for letter in "ab":
                await store.send("T", f"{letter}{BODY}", key="k")
            end = (await store.send("T", f"c{BODY}", key="k" * 50, wait=False)).end
            image = store.killed(tmp_path / f"killed{has_crc}")
        overwrite(image, end - 30, bytes(30))
        async with store_at(image, property_crc=has_crc) as store:
            assert await first_letters(store) == "ab"


async def test_a_log_whose_oldest_files_were_removed_goes_on(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(60):
            await store.send("T", f"{number} {BODY}", key=f"k{number}")
    for path in sorted((tmp_path / "s" / "commitlog").iterdir())[:3]:
        path.unlink()
    for _ in range(2):
        async with store_at(tmp_path / "s") as store:
            lower, upper = store.store.reading.queue_range("T", 0)
            assert store.store.min_offset == 3 * FILE_SIZE
            bodies = await store.pulled("T")
            assert [int(body.split()[0]) for body in bodies] == list(range(lower, upper))
            assert await store.found("T", f"k{lower}") == bodies[:1]
            assert await store.found("T", f"k{lower - 1}") == []
            assert (await store.send("T", f"{upper} {BODY}", key=f"k{upper}")).queue_offset == upper


# -- stores of a real broker -----------------------------------------------------------------------


def same_views(store: Path, other: Path) -> bool:
    """Compares consume queues by name, index files by order: their names are of other clocks."""
    queues = (files_below(store / "consumequeue"), files_below(other / "consumequeue"))
    return queues[0] == queues[1] and index_contents(store) == index_contents(other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, name) for name in ("basic", "semantics", "propcrc", "rebuild-base", "v533")),
        ("rebuild-all-full.before", "rebuild-all-full.after"),
        ("rebuild-all-abort-full.before", "rebuild-all-abort-full.after"),
        ("rebuild-all.before", "rebuild-base"),
        ("rebuild-all-abort.before", "rebuild-base"),
        ("rebuild-cq.before", "rebuild-base"),
        ("rebuild-index.before", "rebuild-base"),
        ("rebuild-one-queue.before", "rebuild-base"),
    ],
)
def test_views_built_anew_are_those_of_the_real_broker(
    golden: GoldenStores, tmp_path: Path, name: str, expected: str
) -> None:
    copy = golden_copy(golden, name, tmp_path / name)
    if name == expected:
        shutil.rmtree(copy / "consumequeue")
        shutil.rmtree(copy / "index")
    with recovered(copy, **golden_sizes(golden, name)):
        pass
    assert same_views(copy, golden.store(expected))


@pytest.mark.parametrize("name", ["crash-kill", "crash-torn", "crash-behind", "clean-torn"])
def test_a_real_store_left_uncleanly_keeps_every_sound_record(
    golden: GoldenStores, tmp_path: Path, name: str
) -> None:
    name = f"{name}.before"
    sizes = golden_sizes(golden, name)
    with golden_parts(golden, name, tmp_path, **sizes) as parts:
        kept = [decode_record(f.view, at).physical_offset for _, f, at, _ in parts.log.scan(0)]
        units = [
            unit[0]
            for queue in parts.queues.queues.values()
            for number in range(queue.min_offset, queue.max_offset)
            if (unit := queue.units.at(number)) is not None
        ]
    assert kept == [record["phy"] for record in golden.manifest(name)["records"]]
    assert sorted(units) == kept
    copy = tmp_path / name
    rebuilt = copied(copy, tmp_path / "rebuilt")
    for view in ("consumequeue", "index", "pocketmq"):
        shutil.rmtree(rebuilt / view)
    with recovered(rebuilt, **sizes):
        pass
    assert files_below(copy / "consumequeue") == files_below(rebuilt / "consumequeue")
    if "crash" in name:  # In the other one a real broker has indexed a record twice.
        assert index_contents(copy) == index_contents(rebuilt)


def test_of_a_real_store_with_a_flipped_bit_only_that_record_is_lost(
    golden: GoldenStores, tmp_path: Path
) -> None:
    name = "crash-flip.before"
    before = {record["phy"] for record in golden.manifest("crash-kill.before")["records"]}
    directory = golden_copy(golden, name, tmp_path / name)
    parts = StoreComponents(
        StoreSettings(directory=directory, **golden_sizes(golden, name)), QuickDisk()
    )
    with closing(parts):
        assert start_at_once(parts, FakeClock()).recovery.plan.label == "@foreign_hole"
        units = {
            unit[0]
            for queue in parts.queues.queues.values()
            for number in range(queue.min_offset, queue.max_offset)
            if (unit := queue.units.at(number)) is not None and unit[1] != PRE_BLANK_SIZE
        }
    assert units == before - {393_216 + 30_807}
    (copy,) = (tmp_path / name / "pocketmq" / "quarantine").glob("*/*@424023")
    assert copy.stat().st_size == 304
    rebuilt = copied(tmp_path / name, tmp_path / "rebuilt")
    for view in ("consumequeue", "index", "pocketmq"):
        shutil.rmtree(rebuilt / view)
    with recovered(rebuilt, **golden_sizes(golden, name)):
        pass
    assert same_views(rebuilt, tmp_path / name)
