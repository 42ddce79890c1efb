"""A rebuild makes byte for byte what the broker's own dispatch makes, and what RocketMQ made."""

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from broker.format.consume_unit import PRE_BLANK
from broker.model.errors import Corruption
from broker.rebuild.sequential import rebuild
from tests.fakes.golden_log import files_below
from tests.fakes.log_bytes import (
    EVERYTHING,
    SMALL,
    TIME_MS,
    LogBytes,
    dispatched,
    golden_files,
    golden_settings,
    rebuilt_files,
    views,
)
from tests.fakes.odd_records import records
from tests.golden_stores import GoldenStores

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
    assert _index(views(tmp_path)) == _index(views(golden.store("cqext")))


def _index(found: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in found.items() if name.startswith("index")}


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


def rebuilt(log: LogBytes, out: Path, **options: Any) -> dict[str, bytes]:
    rebuild(log.found(), SMALL, out, upto=EVERYTHING, **options)
    return rebuilt_files(out)


def plain(log: LogBytes, out: Path) -> dict[str, bytes]:
    return dispatched(log.store, SMALL, log.file_size, out)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=records)
def test_odd_logs_give_what_dispatch_gives(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch) / "s", 2048)
        for row in rows:
            log.add(**row)
        log.close()
        assert rebuilt(log, Path(scratch) / "a") == plain(log, Path(scratch) / "b")


@pytest.mark.parametrize("first", [0, 1, 5, 10, 37, 123])
def test_many_files_and_any_first_offset(tmp_path: Path, first: int) -> None:
    log = LogBytes(tmp_path / "s", base=8192)
    for number in range(90):
        log.add(
            "AaBB"[number % 2 :][:2], number % 3, queue_offset=first + number // 6, keys="a  b c",
            time_ms=TIME_MS + number * 700,
        )  # fmt: skip
    log.close()
    assert rebuilt(log, tmp_path / "a") == plain(log, tmp_path / "b")


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
    assert rebuilt(log, tmp_path / "a") == plain(log, tmp_path / "b")


def log_with_damage(tmp_path: Path, damaged: list[int]) -> LogBytes:
    """Thirty records of one queue, some of them with another byte in their body."""
    log = LogBytes(tmp_path / "s", 2048)
    for number in range(30):
        log.add(queue_offset=number, keys=f"k{number}", body=b"body %02d" % number)
    for number in damaged:
        log.damage(log.places[number] + 90, b"\xff")
    return log.close()


@pytest.mark.parametrize("damaged", [[7], [7, 8], [7, 12], [15], [16]])
def test_damage_is_refused_or_leaves_pre_blank_units(tmp_path: Path, damaged: list[int]) -> None:
    log, crc = log_with_damage(tmp_path, damaged), replace(SMALL, check_crc=True)
    with pytest.raises(Corruption, match=f"physical offset {log.places[damaged[0]]}"):
        rebuild(log.found(), crc, tmp_path / "refused", upto=EVERYTHING)
    found = rebuild(log.found(), crc, tmp_path / "a", upto=EVERYTHING, accept_holes=True)
    assert found.record_count == 30 - len(damaged)
    units = b"".join(files_below(tmp_path / "a/consumequeue").values())
    for number in range(30):
        unit = units[20 * number : 20 * number + 20]
        is_there = unit[:8] == log.places[number].to_bytes(8)
        assert is_there if number not in damaged else unit == PRE_BLANK


def test_only_records_below_a_limit_count(tmp_path: Path) -> None:
    log = log_with_damage(tmp_path, [])
    found = rebuild(log.found(), SMALL, tmp_path / "a", upto=log.places[20])
    assert (found.record_count, found.end) == (20, log.places[20])


class Killed(Exception):
    """The process ended here."""


@pytest.mark.parametrize("chunks", [1, 3, 4, 9])
def test_a_killed_rebuild_goes_on(
    golden: GoldenStores, tmp_path: Path, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.rebuild.resume.SAVED_EVERY_BYTES", 1)
    told: list[int] = []

    def tell(byte_count: int) -> None:
        told.append(byte_count)
        if len(told) > chunks:
            raise Killed

    arguments: Any = (golden_files(golden, "basic"), golden_settings(golden, "basic"), tmp_path)
    options: Any = {"upto": EVERYTHING, "state": tmp_path / "state"}
    with pytest.raises(Killed):
        rebuild(*arguments, **options, tell=tell)
    told.clear()
    read: list[int] = []
    rebuild(*arguments, **options, tell=read.append)
    shutil.rmtree(tmp_path / "state")
    assert views(tmp_path) == views(golden.store("basic"))
    assert len(read) <= len(arguments[0]) + 1 - max(chunks - 1, 0)
