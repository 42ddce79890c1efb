"""Names of a store's files: made, parsed, and never leading out of it or back in time."""

from datetime import UTC, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.names import (
    files_from,
    index_file_name,
    is_index_file_name,
    next_index_file_name,
    offset_file_name,
    offset_from_file_name,
    queue_directory,
    queue_id_from_name,
)
from pocketmq.model.errors import IllegalTopic
from tests.golden_stores import GoldenStores

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = timezone(timedelta(hours=5, minutes=30))

SPRING_MS = 1_774_746_000_000
"""2026-03-29, when Berlin's clocks go from 02:00 to 03:00."""
AUTUMN_MS = 1_792_890_000_000
"""2026-10-25, when they go from 03:00 back to 02:00."""
HOUR_MS = 3_600_000


def test_a_file_is_named_by_the_offset_of_its_first_byte() -> None:
    assert offset_file_name(0) == "00000000000000000000"
    assert offset_file_name(1_073_741_824) == "00000000001073741824"
    assert offset_file_name(2**63 - 1) == "09223372036854775807"


@given(st.integers(0, 10**25))
def test_every_offset_comes_back(offset_bytes: int) -> None:
    name = offset_file_name(offset_bytes)
    assert len(name) >= 20
    assert offset_from_file_name(name) == offset_bytes


@pytest.mark.parametrize(
    "name",
    [
        "", "0", "0" * 19, "-" + "0" * 19, "+" + "0" * 19, " " + "0" * 19, "0" * 20 + "\n",
        "0" * 20 + ".bak", "0x" + "0" * 18, "٠" * 20, "1_000" + "0" * 15,
    ],
)  # fmt: skip
def test_another_name_is_no_offset(name: str) -> None:
    assert offset_from_file_name(name) is None


def test_files_from_an_offset_on_are_found_among_others() -> None:
    names = [f"{0:020d}", "notes", f"{100:020d}", f"{200:020d}", "200"]
    assert files_from(names, 0) == [names[0], names[2], names[3]]
    assert files_from(names, 100) == [names[2], names[3]]
    assert files_from(names, 101) == [names[3]]


@pytest.mark.parametrize(
    ("name", "queue_id"),
    [
        ("0", 0), ("17", 17), ("007", None), ("2147483648", None), ("", None), ("-1", None),
        ("1a", None), ("١", None),
    ],
)  # fmt: skip
def test_a_queue_is_named_by_its_number(name: str, queue_id: int | None) -> None:
    assert queue_id_from_name(name) == queue_id


def test_a_queue_lies_below_its_topic() -> None:
    assert queue_directory(Path("/s/consumequeue"), "%RETRY%G|a", 3) == Path(
        "/s/consumequeue/%RETRY%G|a/3"
    )


@pytest.mark.parametrize("topic", ["", ".", "..", "../x", "a/b", "/etc", "a\x00", "a\n", "a.b"])
def test_no_topic_leads_elsewhere(topic: str) -> None:
    with pytest.raises(IllegalTopic):
        queue_directory(Path("/s/consumequeue"), topic, 0)


@pytest.mark.parametrize(
    ("timestamp_ms", "zone", "name"),
    [
        (0, UTC, "19700101000000000"),
        (1_795_221_315_660, UTC, "20261121003515660"),
        (1_795_221_315_660, KOLKATA, "20261121060515660"),
        (1_795_221_315_660, BERLIN, "20261121013515660"),
        (1_795_221_315_007, UTC, "20261121003515007"),
        (SPRING_MS - 1, BERLIN, "20260329015959999"),
        (SPRING_MS, BERLIN, "20260329030000000"),
        (AUTUMN_MS - 1, BERLIN, "20261025025959999"),
        (AUTUMN_MS, BERLIN, "20261025020000000"),
    ],
)
def test_an_index_file_is_named_by_local_time(timestamp_ms: int, zone: tzinfo, name: str) -> None:
    assert index_file_name(timestamp_ms, zone) == name
    assert is_index_file_name(name)


@pytest.mark.parametrize(
    "name", ["", "1" * 16, "1" * 18, "20261121003515660.tmp", "x" * 17, "٠" * 17, "1" * 17 + "\n"]
)
def test_another_name_is_no_index_file(name: str) -> None:
    assert not is_index_file_name(name)


@pytest.mark.parametrize(
    ("timestamp_ms", "previous", "name"),
    [
        (1_795_221_315_660, "", "20261121003515660"),
        (1_795_221_315_660, "20261121003515659", "20261121003515660"),
        (1_795_221_315_660, "20261121003515660", "20261121003515661"),
        (1_795_221_315_000, "20261121003515660", "20261121003515661"),
        (1_795_221_315_660, "20261121003515999", "20261121003516000"),
        (1_795_221_315_660, "20261231235959999", "20270101000000000"),
        (2**62, "", "99990101000000000"),
        (2**63 - 1, "99990101000000000", "99990101000000001"),
        (-(2**62), "", "19700101000000000"),
    ],
    ids=[
        "first",
        "later",
        "same ms",
        "clock went back",
        "next second",
        "next year",
        "behind all years",
        "again",
        "before all years",
    ],
)
def test_a_name_sorts_behind_the_one_before(timestamp_ms: int, previous: str, name: str) -> None:
    assert next_index_file_name(timestamp_ms, UTC, previous) == name


def test_in_the_hour_that_comes_twice_names_still_rise() -> None:
    before = index_file_name(AUTUMN_MS - 1, BERLIN)
    first = next_index_file_name(AUTUMN_MS, BERLIN, before)
    second = next_index_file_name(AUTUMN_MS + HOUR_MS // 2, BERLIN, first)
    after = next_index_file_name(AUTUMN_MS + HOUR_MS + 7, BERLIN, second)
    assert before == "20261025025959999"
    assert [first, second, after] == ["20261025030000000", "20261025030000001", "20261025030000007"]


def test_a_name_from_the_hour_that_does_not_exist_has_a_next_one() -> None:
    assert next_index_file_name(SPRING_MS - 1, BERLIN, "20260329023000000") == "20260329023000001"


@given(
    st.lists(st.integers(AUTUMN_MS - 2 * HOUR_MS, AUTUMN_MS + 2 * HOUR_MS), min_size=2),
    st.sampled_from([UTC, KOLKATA, BERLIN]),
)
def test_names_rise_whatever_the_clock_does(times_ms: list[int], zone: tzinfo) -> None:
    names = [""]
    for timestamp_ms in times_ms:
        names.append(next_index_file_name(timestamp_ms, zone, names[-1]))
    assert names == sorted(set(names))
    assert all(is_index_file_name(name) for name in names[1:])


@pytest.mark.parametrize("store", ["basic", "v533"])
def test_names_of_real_files(golden: GoldenStores, store: str) -> None:
    root = golden.store(store)
    size = golden.manifest(store)["params"]["mappedFileSizeCommitLog"]
    bases = [offset_from_file_name(path.name) for path in sorted((root / "commitlog").iterdir())]
    assert bases == [number * size for number in range(len(bases))]
    assert all(is_index_file_name(path.name) for path in (root / "index").iterdir())
    queues = root / "consumequeue"
    for path in queues.glob("*/*"):
        queue_id = queue_id_from_name(path.name)
        assert queue_id is not None
        assert queue_directory(queues, path.parent.name, queue_id) == path
