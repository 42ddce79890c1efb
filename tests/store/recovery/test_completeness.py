"""Completeness: files that were removed between two runs are noticed and rebuilt."""

import shutil
from pathlib import Path

import pytest

from pocketmq.format.checkpoint_layout import decode_checkpoint
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.format.index_layout import HEADER_SIZE
from pocketmq.log.hash_index import HashIndex
from pocketmq.log.store_directory import ClosedState
from pocketmq.store.recovery.completeness import missing_from_list, missing_from_log
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, index_contents
from tests.kit.store_golden import golden_copy, golden_parts, golden_sizes, recovered
from tests.kit.store_language import store_at, view_files

QUEUE = "consumequeue/T/1"

ALL, FIRST, SECOND, THIRD, LAST = (
    slice(None), slice(1), slice(1, 2), slice(2, 3), slice(-1, None)
)  # fmt: skip
HEADER = "header of the newest index file"
REMOVALS = {
    "one queue": (QUEUE, ALL),
    "first file of a queue": (f"{QUEUE}/*", FIRST),
    "middle file of a queue": (f"{QUEUE}/*", SECOND),
    "last file of a queue": (f"{QUEUE}/*", LAST),
    "all queues": ("consumequeue", ALL),
    "the index": ("index", ALL),
    "first index file": ("index/*", FIRST),
    "middle index file": ("index/*", THIRD),
    "last index file": ("index/*", LAST),
    HEADER: ("index/*", LAST),
    "everything": ("[ci]*[ex]", ALL),
}
"""Files that may be removed from a store: some of the sorted paths that fit a pattern."""


def remove(store: Path, what: str, topic: str = "T") -> None:
    """Takes it out of a store, or zero it where it is a header."""
    pattern, which = REMOVALS[what]
    found = sorted(store.glob(pattern.replace(QUEUE, f"consumequeue/{topic}/1")))[which]
    assert found
    for path in found:
        if what == HEADER:
            path.write_bytes(bytes(HEADER_SIZE) + path.read_bytes()[HEADER_SIZE:])
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


async def closed_store(directory: Path, *, killed: Path | None = None) -> Path:
    """A store of three queues, several files each, closed in order; `killed`: as a kill left it."""
    async with store_at(directory) as store:
        for number in range(99):
            await store.send(
                *("T", f"{number}"),
                queue_id=number % 3,
                key=f"k{number} all",
                tag="TagA",
                unique_key=f"id{number}",
            )
        await store.settled()
        if killed is not None:
            store.killed(killed)
    return directory


@pytest.mark.parametrize("has_list", [True, False], ids=["listed", "walked"])
@pytest.mark.parametrize("what", REMOVALS)
async def test_what_is_missing_in_an_own_store_is_built_anew(
    tmp_path: Path, what: str, has_list: bool
) -> None:
    directory = await closed_store(tmp_path / "s")
    before = view_files(directory)
    remove(directory, what)
    if not has_list:
        shutil.rmtree(directory / "pocketmq")
    async with store_at(directory) as store:
        assert await store.pulled("T", 1) == [str(number) for number in range(1, 99, 3)]
    assert view_files(directory) == before


@pytest.mark.parametrize("what", REMOVALS)
def test_what_is_missing_in_a_real_store_is_built_anew(
    golden: GoldenStores, tmp_path: Path, what: str
) -> None:
    copy = golden_copy(golden, "rebuild-base", tmp_path / "before")
    remove(copy, what, "RebuildTopic")
    with recovered(copy, **golden_sizes(golden, "rebuild-base")):
        pass
    real = golden.store("rebuild-base")
    assert files_below(copy / "consumequeue") == files_below(real / "consumequeue")
    assert index_contents(copy) == index_contents(real)


@pytest.mark.parametrize("byte", [1, 5, 7])
def test_a_damaged_last_unit_of_a_real_store_is_no_lost_end_of_its_log(
    golden: GoldenStores, tmp_path: Path, byte: int
) -> None:
    copy = golden_copy(golden, "rebuild-base", tmp_path / "before")
    path = sorted((copy / "consumequeue/RebuildTopic/1").iterdir())[-1]
    content = bytearray(path.read_bytes())
    content[(len(content.rstrip(b"\0")) - 1) // UNIT_SIZE * UNIT_SIZE + byte] ^= 0x7F
    path.write_bytes(content)
    with recovered(copy, **golden_sizes(golden, "rebuild-base")) as parts:
        assert parts.mark.valid_upto(parts.checkpoint.content) == parts.log.appended
    assert files_below(copy / "consumequeue") == files_below(
        golden.store("rebuild-base") / "consumequeue"
    )


@pytest.mark.parametrize("what", REMOVALS)
async def test_what_is_missing_after_a_kill_is_built_anew(tmp_path: Path, what: str) -> None:
    image = tmp_path / "killed"
    await closed_store(tmp_path / "s")
    async with store_at(tmp_path / "s") as store:  # What was there is below its checkpoint.
        await store.send("T", "99", queue_id=0, key="last", unique_key="id99")
        await store.settled()
        store.killed(image)
    remove(image, what)
    async with store_at(image) as store:
        assert await store.pulled("T", 1) == [str(number) for number in range(1, 99, 3)]
    assert view_files(image) == view_files(tmp_path / "s")


async def test_a_crash_while_an_index_is_built_anew_leaves_a_checkpoint_that_trusts_no_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "killed"
    await closed_store(tmp_path / "s")
    async with store_at(tmp_path / "s") as store:
        await store.send("T", "99", queue_id=0, key="last", unique_key="id99")
        await store.settled()
        store.killed(image)
    remove(image, "first index file")
    monkeypatch.setattr(HashIndex, "remove_all", lambda _: pytest.fail("a crash"))
    with pytest.raises(pytest.fail.Exception, match="a crash"):
        async with store_at(image):
            pass
    checkpoint = (image / "checkpoint").read_bytes()
    assert decode_checkpoint(checkpoint).logics_physical_offset == 0


@pytest.mark.parametrize("as_if_killed", [False, True], ids=["walked", "killed"])
async def test_a_record_whose_keys_end_one_index_file_and_fill_the_next_is_no_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, as_if_killed: bool
) -> None:
    """A record of two entries, then records of three, until the last one ends two files."""
    directory, image = tmp_path / "s", tmp_path / "image"
    async with store_at(directory) as store:
        index = store.store._structures.index
        await store.send("T", "x", key="a", unique_key="first")
        await store.settled()
        while len(index.files) < 2:
            await store.send("T", "x", key="a b", unique_key=f"id{index.files[-1].entry_count}")
            await store.settled()
        assert len({file.header.end_physical_offset for file in index.files}) == 1
    if as_if_killed:
        async with store_at(directory) as store:
            store.killed(image)
    else:
        shutil.copytree(directory, image, ignore=shutil.ignore_patterns("pocketmq"))
    async with store_at(image):
        pass
    assert not [entry for entry in caplog.records if "incomplete" in entry.message]


async def test_the_list_of_an_earlier_stop_does_not_count(tmp_path: Path) -> None:
    directory = await closed_store(tmp_path / "s")
    earlier = (directory / "pocketmq" / "store.json").read_bytes()
    async with store_at(directory) as store:
        for number in range(20):
            await store.send("T", f"{number}", queue_id=9)
        await store.send("T", "last")
    (directory / "pocketmq" / "store.json").write_bytes(earlier)
    shutil.rmtree(directory / "consumequeue/T/9")
    async with store_at(directory) as store:
        assert await store.pulled("T", 9) == [str(number) for number in range(20)]


async def test_what_is_whole_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = await closed_store(tmp_path / "s")
    times = {path: path.stat().st_ino for path in directory.rglob("*") if "commitlog" in str(path)}
    async with store_at(directory):
        pass
    shutil.rmtree(directory / "pocketmq")
    async with store_at(directory):
        pass
    assert not [entry for entry in caplog.records if "incomplete" in entry.message]
    assert times == {path: path.stat().st_ino for path in times}


# -- the two ways of noticing ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic", "semantics", "propcrc", "cqext", "v533", "rebuild-base"])
def test_a_real_store_lacks_nothing(golden: GoldenStores, tmp_path: Path, name: str) -> None:
    with golden_parts(golden, name, tmp_path, **golden_sizes(golden, name)) as parts:
        found = missing_from_log(parts.log, parts.queues, parts.index, parts.levels)
        closed = parts.closed_state()
        assert found[:2] == (set(), False)
        assert missing_from_list(closed, parts.queues, parts.index) == (set(), False)


def test_a_list_names_what_is_gone(golden: GoldenStores, tmp_path: Path) -> None:
    with golden_parts(golden, "rebuild-base", tmp_path) as parts:
        closed = parts.closed_state()
        key = ("RebuildTopic", 1)
        queue = parts.queues.queues[key]
        ranges = closed.queues["RebuildTopic"]

        def missing(changed: list[int]) -> bool:
            other = ClosedState(
                closed.log_end,
                closed.checkpoint,
                {**closed.queues, "RebuildTopic": {**ranges, "1": changed}},
                closed.index_files,
            )
            lacking, _ = missing_from_list(other, parts.queues, parts.index)
            assert lacking in (set(), {key})
            return bool(lacking)

        lower, upper = queue.min_offset, queue.max_offset
        assert not missing([lower, upper])
        assert missing([lower, upper + 1])
        assert missing([lower, upper - 1])
        assert not missing([lower + 1, upper])
        queue.unit_min += 1
        assert missing([lower, upper])


def test_a_list_may_know_fewer_index_files_than_there_are(
    golden: GoldenStores, tmp_path: Path
) -> None:
    with golden_parts(golden, "rebuild-base", tmp_path) as parts:
        names = [file.path.name for file in parts.index.files]
        for listed, lacks in ((names, False), (names[:-1], False), ([*names, "x"], True)):
            closed = ClosedState(0, "", {}, listed)
            assert missing_from_list(closed, parts.queues, parts.index) == (set(), lacks)
        closed = ClosedState(0, "", {}, names[1:])
        assert missing_from_list(closed, parts.queues, parts.index) == (set(), True)


async def test_a_last_unit_that_leads_behind_the_log_is_seen(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s") as store:
        for number in range(5):
            await store.send("T", f"{number}")
    before = view_files(tmp_path / "s")
    (path,) = (tmp_path / "s" / "consumequeue/T/0").iterdir()
    content = bytearray(path.read_bytes())
    content[4 * 20 + 5] ^= 1
    path.write_bytes(content)
    async with store_at(tmp_path / "s") as store:
        assert await store.pulled("T") == ["0", "1", "2", "3", "4"]
    assert view_files(tmp_path / "s") == before
