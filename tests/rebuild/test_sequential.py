"""A rebuild makes byte for byte what the broker's own dispatch makes, and what RocketMQ made.

Logs with damage are in `test_damaged_logs.py`.
"""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from pocketmq.rebuild.log_files import KnownShape
from pocketmq.rebuild.sequential import rebuild
from pocketmq.walk.reader import LogReader
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below, index_contents
from tests.kit.log_bytes import (
    EVERYTHING,
    SMALL,
    TIME_MS,
    LogBytes,
    applied,
    dispatched,
    golden_files,
    golden_settings,
    rebuilt_files,
    views,
)
from tests.kit.odd_records import records
from tests.kit.records import record

IDENTICAL = (
    "basic", "semantics", "propcrc", "rebuild-base", "v533", "rebuild-all-full.after",
    "rebuild-all-abort-full.after", "crash-kill.before",
)  # fmt: skip
"""Stores whose views a real broker built without a crash between."""


@pytest.mark.parametrize("name", IDENTICAL)
def test_the_views_of_a_real_broker(golden: GoldenStores, name: str, tmp_path: Path) -> None:
    found = rebuild(
        golden_files(golden, name),
        golden_settings(golden, name, check_crc=True),
        tmp_path,
        upto=EVERYTHING,
    )
    assert views(tmp_path) == views(golden.store(name))
    assert found.record_count == golden.manifest(name)["recordCount"]
    assert (found.holes, found.tail, found.irregular) == ([], None, [])


def test_the_index_of_a_store_with_extension_units(golden: GoldenStores, tmp_path: Path) -> None:
    settings = golden_settings(golden, "cqext")
    rebuild(golden_files(golden, "cqext"), settings, tmp_path, upto=EVERYTHING)
    found, real = files_below(tmp_path / "index"), index_contents(golden.store("cqext"))
    assert [*found.values()] == real


@pytest.mark.parametrize("name", ["rebuild-all-full", "rebuild-all-abort-full", "rebuild-all"])
def test_removed_views_come_back_whole(golden: GoldenStores, name: str, tmp_path: Path) -> None:
    """Also where the real broker, which looked at ten files only, left most of it out."""
    before = f"{name}.before"
    rebuild(
        golden_files(golden, before), golden_settings(golden, before), tmp_path, upto=EVERYTHING
    )
    assert views(tmp_path) == views(golden.store("rebuild-base"))
    if name != "rebuild-all":
        assert views(tmp_path) == views(golden.store(f"{name}.after"))


def assert_like_dispatch(log: LogBytes, scratch: Path, own: KnownShape = SMALL) -> None:
    rebuild(log.found(), own, scratch / "a", upto=EVERYTHING)
    wanted = dispatched(log.store, own, log.file_size, scratch / "b")
    assert rebuilt_files(scratch / "a") == wanted


def plain(log: LogBytes, out: Path) -> dict[str, bytes]:
    return dispatched(log.store, SMALL, log.file_size, out)


@settings(max_examples=100)
@given(rows=records)
def test_odd_logs_give_what_dispatch_gives(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch) / "s", 2048)
        for row in rows:
            log.add(**row)
        log.close()
        assert_like_dispatch(log, Path(scratch))


@pytest.mark.parametrize("first", [0, 1, 5, 10, 37, 123])
@pytest.mark.parametrize("step_ms", [700, -60_000], ids=["clocks go on", "clocks go back"])
def test_many_files_and_any_first_offset(tmp_path: Path, first: int, step_ms: int) -> None:
    log = LogBytes(tmp_path / "s", base=8192)
    for number in range(90):
        log.add(
            "AaBB"[number % 2 :][:2], number % 3, queue_offset=first + number // 6, keys="a  b c",
            time_ms=TIME_MS + number * step_ms,
        )  # fmt: skip
    log.close()
    assert_like_dispatch(log, tmp_path)


@pytest.mark.parametrize(
    "offsets",
    [[0, 1, 3, 4], [5, 6, 6, 7], [0, 1, 0, 1, 2], [3, 2, 1], [7, 0, 8], [0, 25, 26], [9, 11]],
)
def test_gaps_and_repeats_follow_the_brokers_rule(tmp_path: Path, offsets: list[int]) -> None:
    log = LogBytes(tmp_path / "s")
    for number, queue_offset in enumerate(offsets):
        log.add("G", queue_offset=queue_offset)
        log.add("T", queue_offset=number)
    log.close()
    assert_like_dispatch(log, tmp_path)


@pytest.mark.parametrize("chunk_size", [4_096, 16_384, 65_536])
def test_records_cut_by_chunks_and_longer_than_one(
    tmp_path: Path, chunk_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pocketmq.rebuild.range_pass.LogReader", partial(LogReader, chunk_size=chunk_size)
    )
    log = LogBytes(tmp_path / "s", 1 << 20)
    chance = Random(chunk_size)
    sizes = [chance.choice([0, 10, 900, 4_000, 20_000, 70_000]) for _ in range(150)]
    for number, size in enumerate(sizes):
        body = chance.randbytes(size)
        if (
            number % 3 == 0
        ):  # A record at the right place, and one that ends with the one around it.
            body += record(log.end + 88 + size, b"in")
            body += record(log.end + 88 + len(body), b"at the end")[:-4]
        block = b"A\x01" + b"v" * (size % 20_001) + b"\x02"
        log.add("Aa", queue_offset=number, body=body, block=block, keys=f"k{number} common")
    log.close()
    assert_like_dispatch(log, tmp_path)


def test_hundreds_of_queues(tmp_path: Path) -> None:
    """Rolling files, first offsets of all kinds, some queues that do not follow."""
    log = LogBytes(tmp_path / "s", 1 << 16)
    chance = Random(11)
    following = {(f"topic-{number % 40}", number // 40): chance.choice([0, 0, 0, 5, 37, 1_000])
                 for number in range(300)}  # fmt: skip
    for number in range(4_000):
        key = (f"topic-{chance.randrange(40)}", chance.randrange(7))
        log.add(*key, queue_offset=following[key], time_ms=TIME_MS + number)
        following[key] += chance.choice([1] * 400 + [0, 2])
    log.close()
    found = rebuild(log.found(), SMALL, tmp_path / "a", upto=EVERYTHING)
    assert rebuilt_files(tmp_path / "a") == plain(log, tmp_path / "b")
    assert len(found.queues) == 280
    assert 3 < len(found.irregular) < 100


@pytest.mark.parametrize("geometry", [(3, 2), (1, 40), (50, 5)])
@pytest.mark.parametrize("style", ["5.3", "5.5"])
def test_index_files_roll_inside_one_records_keys(
    tmp_path: Path, geometry: tuple[int, int], style: str
) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(40):
        log.add(
            queue_offset=number, keys=" ".join(f"k{piece}" for piece in range(number % 13)),
            block=b"UNIQ_KEY\x01u%d\x02TAGS\x01t\x02" % number,
            time_ms=TIME_MS + number * 77 - number % 3 * 5_000,
        )  # fmt: skip
    log.close()
    slots, entries = geometry
    own = replace(SMALL, index_slot_count=slots, index_entry_count_max=entries, index_style=style)
    assert_like_dispatch(log, tmp_path, own)
    assert sum("/" not in name for name in rebuilt_files(tmp_path / "a")) >= 4


def test_a_log_whose_head_was_removed(tmp_path: Path) -> None:
    """Fronts are pre-blank from where the file of the first unit begins."""
    log = LogBytes(tmp_path / "s", 2_048)
    for number in range(120):
        log.add("AaBB"[number % 2 * 2 :][:2], queue_offset=number // 2, keys=f"k{number}")
    log.close()
    for gone in range(1, 5):
        (log.store / f"commitlog/{(gone - 1) * 2_048:020d}").unlink()
        found = rebuild(log.found(), SMALL, tmp_path / f"a{gone}", upto=EVERYTHING)
        assert found.begin == gone * 2_048
        assert rebuilt_files(tmp_path / f"a{gone}") == plain(log, tmp_path / f"b{gone}")


@pytest.mark.parametrize(
    "changes",
    [{"time_zone": "Asia/Shanghai"}, {"time_zone": "America/New_York"}, {"delay_levels": "5s 1d"}],
    ids=["east", "west", "levels"],
)
def test_zones_name_index_files_and_delays_follow_the_table(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    log = LogBytes(tmp_path / "s")
    for number, text in enumerate(["1", "2", "3", "99", "0", "x", "+1"]):
        block = f"DELAY\x01{text}\x02".encode()
        log.add("SCHEDULE_TOPIC_XXXX", queue_offset=number, block=block, keys="a b")
    log.close()
    own = replace(SMALL, **changes)
    assert_like_dispatch(log, tmp_path, own)


@pytest.mark.parametrize("time_ms", [2**62, -(2**62)])
def test_a_time_outside_of_all_calendars_names_an_index_file(tmp_path: Path, time_ms: int) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(40):
        log.add(queue_offset=number, keys="a b", time_ms=time_ms if number == 9 else TIME_MS)
    log.close()
    assert_like_dispatch(log, tmp_path)


def test_an_empty_log(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s").close()
    found = rebuild(log.found(), SMALL, tmp_path / "a", upto=EVERYTHING)
    assert (found.begin, found.end, found.record_count, found.queues) == (0, 0, 0, {})
    assert rebuilt_files(tmp_path / "a") == {}
    assert rebuild([], SMALL, tmp_path / "b", upto=EVERYTHING) == found


def test_only_records_below_a_limit_count(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 2_048)
    for number in range(30):
        log.add(queue_offset=number, keys=f"k{number}")
    log.close()
    for count in (0, 1, 17, 20, 30):
        upto = log.end_of(count - 1) if count else 0
        found = rebuild(log.found(), SMALL, tmp_path / f"a{count}", upto=upto)
        assert (found.record_count, found.end) == (count, upto)
        wanted = applied(log.entries[:count], SMALL, tmp_path / f"b{count}")
        assert rebuilt_files(tmp_path / f"a{count}") == wanted


class Killed(Exception):
    """The process ended here."""


@pytest.mark.parametrize("chunks", [1, 3, 4, 9])
def test_a_killed_rebuild_goes_on(
    golden: GoldenStores, tmp_path: Path, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.rebuild.sequential.SAVED_EVERY_BYTES", 1)
    told: list[int] = []

    def advance(byte_count: int) -> None:
        told.append(byte_count)
        if len(told) > chunks:
            raise Killed

    arguments: Any = (golden_files(golden, "basic"), golden_settings(golden, "basic"), tmp_path)
    options: Any = {"upto": EVERYTHING, "state": tmp_path / "state"}
    with pytest.raises(Killed):
        rebuild(*arguments, **options, advance=advance)
    told.clear()
    read: list[int] = []
    rebuild(*arguments, **options, advance=read.append)
    shutil.rmtree(tmp_path / "state")
    assert views(tmp_path) == views(golden.store("basic"))
    assert len(read) <= len(arguments[0]) + 1 - max(chunks - 1, 0)
