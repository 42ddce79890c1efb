"""Logs with damage: what is sound comes through, what is lost leaves its place or is refused.

What an older end of the log left behind its end does not come back.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.format.consume_unit import PRE_BLANK
from pocketmq.format.record import record_sizes
from pocketmq.model.batch import Destination
from pocketmq.model.errors import Corruption
from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    has_queue_offset,
)
from pocketmq.model.topic import QUARANTINE_TOPIC
from pocketmq.rebuild.sequential import rebuild
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import (
    EVERYTHING,
    IPV4,
    SMALL,
    TIME_MS,
    LogBytes,
    applied,
    dispatched,
    golden_files,
    golden_settings,
    rebuilt_files,
)
from tests.kit.records import record
from tests.kit.rows import Row, batch, encoded

CRC = replace(SMALL, check_crc=True)
DAMAGES: dict[str, tuple[int, bytes]] = {
    "size 0": (0, bytes(4)),
    "size negative": (0, b"\xff"),
    "size beyond the file": (0, b"\x7f"),
    "size too small": (0, b"\0\0\0\x5a"),
    "magic": (4, b"\xdb"),
    "a BLANK": (0, b"\0\0\0\x6d\xcb\xd4\x31\x94"),
    "own offset": (28, b"\x40"),
    "body length": (84, b"\xff"),
    "body": (90, b"\xff"),
    "topic length": (96, b"\xf0"),
    "zeros": (0, bytes(109)),
    "other bytes": (0, b"\x01" * 109),
}
"""Where in a record, and what is written there."""


def log_with_damage(
    tmp_path: Path, damaged: list[int], how: str = "body", file_size: int = 2_048
) -> LogBytes:
    """Thirty records of one queue, 109 bytes each, some of them damaged."""
    log = LogBytes(tmp_path / "s", file_size)
    for number in range(30):
        log.add(
            queue_offset=number, keys=f"k{number:02}", body=b"body %03d" % number,
            time_ms=TIME_MS + number,
        )  # fmt: skip
    position, content = DAMAGES[how]
    for number in damaged:
        log.damage(log.places[number] + position, content)
    return log.close()


def unit_places(out: Path) -> list[int]:
    """The records that the units of the one queue lead to, -1 for a pre-blank one."""
    units = b"".join(files_below(out / "consumequeue").values())
    return [
        -1 if units[at : at + 20] == PRE_BLANK else int.from_bytes(units[at : at + 8])
        for at in range(0, len(units), 20)
        if any(units[at + 8 : at + 12])
    ]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("damaged", [[7], [7, 8], [7, 12], [0], [17], [18], [16, 17, 18, 19]])
def test_damage_is_refused_or_leaves_pre_blank_units(
    tmp_path: Path, how: str, damaged: list[int]
) -> None:
    """In the middle, several, the first, and on both sides of where a file ends."""
    log = log_with_damage(tmp_path, damaged, how)
    assert log.places[18] == log.file_size
    with pytest.raises(Corruption, match=f"physical offset {log.places[damaged[0]]}") as refused:
        rebuild(log.found(), CRC, tmp_path / "refused", upto=EVERYTHING)
    number, position = divmod(log.places[damaged[0]], log.file_size)
    assert (refused.value.path, refused.value.file_position) == (log.found()[number].path, position)
    found = rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING, accept_holes=True)
    assert found.record_count == 30 - len(damaged)
    assert (found.queues, found.tail) == ({("T", 0): (int(damaged == [0]), 30)}, None)
    assert rebuilt_files(tmp_path / "a") == applied(log.without(damaged), CRC, tmp_path / "b")
    wanted = [-1 if n in damaged else place for n, place in enumerate(log.places)]
    assert unit_places(tmp_path / "a") == wanted


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_up_to_the_end_is_a_tail(tmp_path: Path, how: str) -> None:
    log = log_with_damage(tmp_path, [28, 29], how)
    found = rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING)
    assert (found.record_count, found.end, found.holes) == (28, log.places[28], [])
    is_orderly = how == "zeros"
    assert (found.tail is None) == is_orderly
    if found.tail is not None:
        assert (found.tail.begin, found.tail.is_followed) == (log.places[28], False)
    assert rebuilt_files(tmp_path / "a") == applied(log.entries[:28], CRC, tmp_path / "b")


@pytest.mark.parametrize("how", ["body", "size 0", "zeros", "other bytes"])
def test_a_whole_file_that_is_lost(tmp_path: Path, how: str) -> None:
    """Ten records a file; those of the second one are damaged, or of the first two."""
    for lost in (range(9, 18), range(18)):
        log = log_with_damage(tmp_path / str(len(lost)), list(lost), how, 1_024)
        assert log.places[9] == 1_024
        with pytest.raises(Corruption, match=f"physical offset {log.places[lost[0]]}"):
            rebuild(log.found(), CRC, tmp_path / "refused", upto=EVERYTHING)
        out = tmp_path / f"out {len(lost)}"
        found = rebuild(log.found(), CRC, out, upto=EVERYTHING, accept_holes=True)
        assert found.record_count == 30 - len(lost)
        assert [hole.begin // 1_024 for hole in found.holes] == [n // 9 for n in lost[::9]]
        assert rebuilt_files(out) == applied(log.without(lost), CRC, out / "plain")


damages = st.dictionaries(st.integers(0, 29), st.sampled_from(sorted(DAMAGES)), max_size=6)
queue_choices = st.lists(
    st.tuples(
        st.sampled_from([("T", 0), ("Aa", 0), ("BB", 0), ("T", 1)]),
        st.sampled_from([0, 0, 0, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK]),
    ),
    min_size=30,
    max_size=30,
)


@settings(max_examples=60)
@given(damages, queue_choices, st.sampled_from([1_024, 2_048, 4_096]), st.sampled_from([0, 7, 10]))
def test_any_damage_leaves_what_a_repair_would(
    damaged: dict[int, str], choices: list[Any], file_size: int, first: int
) -> None:
    """Everything sound, and a unit for every message at its own offset."""
    with TemporaryDirectory() as scratch:
        log = LogBytes(Path(scratch) / "s", file_size, base=file_size * 3)
        following = dict.fromkeys([key for key, _ in choices], first)
        for number, (key, flags) in enumerate(choices):
            takes_one = has_queue_offset(flags)
            log.add(
                *key, queue_offset=following[key] if takes_one else 0, flags=flags,
                keys=f"k{number:02}", body=b"body %03d" % number, time_ms=TIME_MS + number,
            )  # fmt: skip
            following[key] += takes_one
        for number, how in damaged.items():
            position, content = DAMAGES[how]
            log.damage(log.places[number] + position, content)
        log.close()
        found = rebuild(log.found(), CRC, Path(scratch) / "a", upto=EVERYTHING, accept_holes=True)
        wanted = applied(log.without(damaged), CRC, Path(scratch) / "b")
        assert rebuilt_files(Path(scratch) / "a") == wanted
        assert found.record_count == 30 - len(damaged)
        sound = [number for number in range(30) if number not in damaged]
        inside = {number for number in damaged if number < sound[-1]}
        for hole in found.holes:
            held = {n for n, place in enumerate(log.places) if hole.begin <= place < hole.end}
            assert held
            assert held <= inside
            inside -= held
        assert not inside
        if found.holes:
            with pytest.raises(Corruption, match=f"physical offset {found.holes[0].begin}"):
                rebuild(log.found(), CRC, Path(scratch) / "c", upto=EVERYTHING)
        else:
            rebuild(log.found(), CRC, Path(scratch) / "c", upto=EVERYTHING)
            assert rebuilt_files(Path(scratch) / "c") == wanted


def log_with_a_torn_tail(tmp_path: Path, *, stale_ms: int, torn: bytes) -> LogBytes:
    """Ten records, then something else, then three records of an earlier end of the log."""
    log = LogBytes(tmp_path / "s", 4_096)
    for number in range(10):
        log.add(queue_offset=number, keys=f"k{number}", time_ms=TIME_MS + number)
    end = log.end
    for number in range(4):
        log.add(queue_offset=10 + number, keys=f"stale{number}", time_ms=stale_ms)
    log.damage(end, torn)
    return log.close()


@pytest.mark.parametrize("torn", [bytes(4), bytes(90), bytes(50) + b"x" * 40, b"\xff" * 20])
def test_older_records_behind_the_end_stay_out(tmp_path: Path, torn: bytes) -> None:
    log = log_with_a_torn_tail(tmp_path, stale_ms=TIME_MS - 1_000, torn=torn)
    for accept_holes in (False, True):
        out = tmp_path / str(accept_holes)
        found = rebuild(log.found(), CRC, out, upto=EVERYTHING, accept_holes=accept_holes)
        assert (found.record_count, found.end, found.holes) == (10, log.places[10], [])
        assert found.tail is not None
        assert rebuilt_files(out) == applied(log.entries[:10], CRC, out / "plain")
    younger = log_with_a_torn_tail(tmp_path / "younger", stale_ms=TIME_MS + 9, torn=torn)
    with pytest.raises(Corruption):
        rebuild(younger.found(), CRC, tmp_path / "refused", upto=EVERYTHING)


def two_files(tmp_path: Path, time_ms: int) -> LogBytes:
    """Four records and zeros, then a file of records stored at a time."""
    log = LogBytes(tmp_path / "s", 1_024)
    for number in range(4):
        log.add(queue_offset=number, keys=f"k{number}", time_ms=TIME_MS + number)
    log.files.append(bytearray())
    for number in range(4):
        log.add(queue_offset=4 + number, keys=f"k{number}", time_ms=time_ms + number)
    return log.close()


@pytest.mark.parametrize("accept_holes", [False, True])
def test_older_records_at_the_start_of_the_next_file_stay_out(
    tmp_path: Path, accept_holes: bool
) -> None:
    log = two_files(tmp_path, TIME_MS - 5_000)
    found = rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING, accept_holes=accept_holes)
    assert (found.record_count, found.end, found.holes) == (4, log.end_of(3), [])
    assert rebuilt_files(tmp_path / "a") == applied(log.entries[:4], CRC, tmp_path / "b")


def test_younger_records_at_the_start_of_the_next_file_are_behind_a_hole(tmp_path: Path) -> None:
    log = two_files(tmp_path, TIME_MS + 5_000)
    with pytest.raises(Corruption, match="no record up to the file's end"):
        rebuild(log.found(), CRC, tmp_path / "refused", upto=EVERYTHING)
    found = rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING, accept_holes=True)
    assert (found.record_count, found.end) == (8, log.end)
    assert rebuilt_files(tmp_path / "a") == applied(log.entries, CRC, tmp_path / "b")


@pytest.mark.parametrize("accept_holes", [False, True])
def test_a_record_in_the_body_of_a_damaged_last_one_stays_out(
    tmp_path: Path, accept_holes: bool
) -> None:
    log = LogBytes(tmp_path / "s")
    log.add(queue_offset=0)
    fake = record(log.end + 88, b"fake", queue_offset=77, time_ms=TIME_MS + 1)
    place = log.add(queue_offset=1, body=fake + b"tail")
    log.damage(place + 88 + len(fake), b"\xff")
    log.close()
    found = rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING, accept_holes=accept_holes)
    assert (found.record_count, found.end) == (1, place)
    assert rebuilt_files(tmp_path / "a") == applied(log.entries[:1], CRC, tmp_path / "b")


def test_damage_no_crc_is_asked_for_is_not_seen(tmp_path: Path) -> None:
    log = log_with_damage(tmp_path, [7])
    rebuild(log.found(), SMALL, tmp_path / "a", upto=EVERYTHING)
    assert rebuilt_files(tmp_path / "a") == applied(log.entries, SMALL, tmp_path / "b")


def test_stand_ins_of_a_repair_are_gone_over_like_holes(tmp_path: Path) -> None:
    """A log that was repaired gives the views that accepting its holes gave."""
    damaged = [3, 4, 11]
    log = log_with_damage(tmp_path, damaged)
    rebuild(log.found(), CRC, tmp_path / "a", upto=EVERYTHING, accept_holes=True)
    for number in damaged:
        size = log.end_of(number) - log.places[number]
        destination = Destination(QUARANTINE_TOPIC, 0, IPV4, TRANSACTION_ROLLBACK)
        row = Row(born_ms=TIME_MS, born_host=IPV4)
        row = row._replace(body=b"x" * (size - record_sizes(destination, batch(row))[0]))
        content = encoded(
            destination,
            row,
            physical_offset=log.places[number],
            store_timestamp_ms=TIME_MS + number,
        )
        with Path(log.found()[0].path).open("r+b") as file:
            file.seek(log.places[number])
            file.write(content)
    found = rebuild(log.found(), CRC, tmp_path / "b", upto=EVERYTHING)
    assert rebuilt_files(tmp_path / "b") == rebuilt_files(tmp_path / "a")
    assert (found.record_count, found.holes) == (30, [])


def test_one_flipped_bit_in_the_log_of_a_real_broker(golden: GoldenStores, tmp_path: Path) -> None:
    """Unit n stays at byte 20 * n: what is lost leaves pre-blank units, and nothing else moves."""
    name = "crash-flip.before"
    files, own = golden_files(golden, name), golden_settings(golden, name, check_crc=True)
    with pytest.raises(Corruption, match="the CRC of its body is wrong"):
        rebuild(files, own, tmp_path / "refused", upto=EVERYTHING)
    found = rebuild(files, own, tmp_path / "a", upto=EVERYTHING, accept_holes=True)
    (hole,) = found.holes
    rebuild(files, replace(own, check_crc=False), tmp_path / "b", upto=EVERYTHING)
    left_out = 0
    flawed = files_below(tmp_path / "a/consumequeue")
    for path, content in files_below(tmp_path / "b/consumequeue").items():
        units = [content[at : at + 20] for at in range(0, len(content), 20)]
        for number, unit in enumerate(units):
            expected = unit
            if int.from_bytes(unit[:8]) == hole.begin:
                expected, left_out = PRE_BLANK, left_out + 1
            assert flawed[path][20 * number : 20 * number + 20] == expected, (path, number)
    assert left_out == 1


@pytest.mark.parametrize(
    "name", ["crash-torn.before", "crash-behind.before", "crash-kill.after", "clean-torn.after",
             "crash-flip.after"]
)  # fmt: skip
def test_damaged_stores_give_what_dispatch_gives_up_to_there(
    golden: GoldenStores, name: str, tmp_path: Path
) -> None:
    files, own = golden_files(golden, name), golden_settings(golden, name)
    found = rebuild(files, own, tmp_path / "a", upto=EVERYTHING)
    wanted = dispatched(golden.store(name), own, files[0].size, tmp_path / "b")
    assert rebuilt_files(tmp_path / "a") == wanted
    assert (found.holes, found.end > 0) == ([], True)
