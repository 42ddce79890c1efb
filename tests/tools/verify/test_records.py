"""Records that are sound and yet cannot be: times, ids, names, a CRC that is not there."""

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.cli.store.access import sizes_of
from pocketmq.files.disk import Disk
from pocketmq.log.deleted_topics import left_over_now
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.sequential import rebuild
from pocketmq.tools.verify.verification import VerifyOptions, verify
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore
from tests.kit.log_bytes import SMALL, TIME_MS, LogBytes
from tests.kit.store_language import store_at
from tests.kit.tool_sizes import golden_tool_sizes, known_shape

NOW_MS = TIME_MS + 1_000
SIZES = known_shape(4096, SMALL.consume_queue_file_size_bytes, SMALL.geometry, "5.5", "UTC")


def kinds(log: LogBytes) -> dict[str, int]:
    options = VerifyOptions(log_only=True, now_ms=NOW_MS)
    return verify(Disk(), log.close().store, SIZES, options).counts


def test_what_can_be_is_no_finding(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add()
    assert kinds(log) == {}


@pytest.mark.parametrize("time_ms", [0, -1, 1_000, NOW_MS + 48 * 3_600_000])
def test_store_times(tmp_path: Path, time_ms: int) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(time_ms=time_ms)
    assert "store_time" in kinds(log)


def test_names_and_ids(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add("a b")
    log.add("T", -1)
    found = kinds(log)
    assert (found["topic"], found["queue_id"]) == (1, 1)


def test_a_gap_and_a_repeat_of_queue_offsets(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for queue_offset in (3, 4, 6, 4, 6):
        log.add(queue_offset=queue_offset)
    found = verify(Disk(), log.close().store, SIZES, VerifyOptions(log_only=True, now_ms=NOW_MS))
    (finding,) = [f for f in found.findings if f.kind == "queue_offset"]
    assert (finding.file, finding.offset) == ("commitlog/" + "0" * 20, log.places[2])
    assert found.counts["queue_offset"] == 2


@pytest.mark.parametrize(
    ("offsets", "is_sound"),
    [
        ((0, 1, 3, 4, 5), True),  # A send was refused.
        ((0, 1, 3, 6, 7), True),
        ((0, 1, 3, 4, 4), True),  # And the broker was started again.
        ((0, 1, 3, 3, 4), False),  # One alone: its own number is damaged.
        ((0, 1, 2, 1 << 40, 4), False),
        ((0, 1, 2, 3, 1 << 40), False),
    ],
)
def test_offsets_that_refused_sends_were_counted_in_are_a_note(
    tmp_path: Path, offsets: tuple[int, ...], is_sound: bool
) -> None:
    log = LogBytes(tmp_path / "s")
    for queue_offset in offsets:
        log.add(queue_offset=queue_offset)
    files = log.close()
    rebuild(files.found(), SIZES, files.store, upto=OFFSET_MAX)
    found = verify(Disk(), files.store, SIZES, VerifyOptions(now_ms=NOW_MS))
    assert ("queue_offset" in found.counts) != is_sound
    assert any("5.0.0" in note for note in found.notes) == is_sound


def test_beside_such_offsets_a_wrong_tags_code_is_the_only_finding(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for queue_offset in (0, 1, 3, 4, 5):
        log.add(queue_offset=queue_offset)
    files = log.close()
    rebuild(files.found(), SIZES, files.store, upto=OFFSET_MAX)
    (path,) = files.store.glob("consumequeue/*/*/*")
    content = bytearray(path.read_bytes())
    content[3 * 20 + 19] ^= 1
    path.write_bytes(content)
    found = verify(Disk(), files.store, SIZES, VerifyOptions(now_ms=NOW_MS))
    assert found.counts == {"unit": 1}
    assert any("5.0.0" in note for note in found.notes)
    content[3 * 20 + 7] ^= 1
    path.write_bytes(content)
    found = verify(Disk(), files.store, SIZES, VerifyOptions(now_ms=NOW_MS))
    assert found.counts == {"unit": 1, "queue_offset": 3}


@pytest.mark.parametrize("name", ["v500", "recreate", "deleted"])
def test_what_a_real_broker_left_over_is_no_finding(golden: GoldenStores, name: str) -> None:
    store, sizes = golden.store(name), golden_tool_sizes(golden, name)
    left_over = left_over_now(Disk(), store, sizes.commit_log_file_size_bytes).text
    assert verify(Disk(), store, replace(sizes, left_over=left_over)).counts == {}


def test_a_record_without_the_crc_all_others_have(golden: GoldenStores, tmp_path: Path) -> None:
    store = CheckedStore(golden, "propcrc", tmp_path / "s")
    path, _, record = store.record_bytes(1, seed=1)[0]
    end = record + int.from_bytes(path.read_bytes()[record : record + 4])
    with store.changed(path, end - 20, b"__XRC32#"):
        assert store.kinds() == {"property_crc"}
        place = int(path.name) + record
        for begin, kinds in ((place, {"property_crc"}), (place + 1, set()), (OFFSET_MAX, set())):
            store.sizes = replace(store.sizes, property_crc_from=begin)
            assert store.kinds() == kinds
    store.sizes = replace(store.sizes, property_crc=True, property_crc_from=0)
    assert store.kinds() == set()
    assert replace(SMALL, property_crc=True).property_crc


def test_a_body_that_does_not_unfold_is_seen_by_a_deep_look(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(flags=0x301, body=b"no zlib stream")
    log.add(queue_offset=1, flags=0x301, body=zlib.compress(b"one"))
    assert kinds(log) == {}
    options = VerifyOptions(log_only=True, now_ms=NOW_MS, deep=True)
    assert verify(Disk(), log.store, SIZES, options).counts == {"compressed_body": 1}


def test_a_sample_compares_some_crcs(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(100):
        log.add(queue_offset=number, body=b"bodybody")
        if number % 3 == 1:
            log.damage(log.places[-1] + 90, b"#")
    log.close()
    sizes = replace(SIZES, commit_log_file_size_bytes=1024)

    def found(share: float) -> int:
        options = VerifyOptions(log_only=True, now_ms=NOW_MS, crc_share=share)
        return verify(Disk(), log.store, sizes, options).counts.get("record", 0)

    assert found(0) == 0 < found(0.5) < found(1)


@pytest.mark.parametrize("switched", [(False, True), (True, False), (True, False, True)])
async def test_what_was_written_without_a_property_crc_is_sound(
    tmp_path: Path, switched: tuple[bool, ...]
) -> None:
    for number, is_on in enumerate(switched):
        async with store_at(tmp_path / "s", property_crc=is_on) as store:
            await store.send("orders", *(f"{number}-{message}" for message in range(3)), key="k")
            now_ms = store.clock.wall_ms()
    sizes = sizes_of(Disk(), tmp_path / "s", [], with_index=True)
    found = verify(Disk(), tmp_path / "s", sizes, VerifyOptions(now_ms=now_ms))
    assert (found.counts, found.records) == ({}, 3 * len(switched))
