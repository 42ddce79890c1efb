"""Names of an archive's objects, and which of them contain a range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.errors import Corruption
from pocketmq.tools.archive.catalog import (
    LogPart,
    Moment,
    StoredFile,
    covering,
    hour_of,
    moment_of,
    parts_of,
)

DIGEST = "ab" * 32
MOMENT = Moment(1_795_228_200_123, 4096, 9000, files=[StoredFile("config/a.json", DIGEST)])
parts = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(
    lambda one: LogPart(one[0], one[0] + one[1], DIGEST)
)


@given(st.lists(parts), st.integers(0, 60), st.integers(0, 90))
def test_a_range_is_covered_or_its_first_missing_byte_is_told(
    given_parts: list[LogPart], begin: int, upto: int
) -> None:
    has = {at for part in given_parts for at in range(part.begin, part.end)}
    missing = [at for at in range(begin, upto) if at not in has]
    if missing:
        with pytest.raises(Corruption) as raised:
            covering(given_parts, begin, upto)
        assert raised.value.physical_offset == missing[0]
        return
    chosen = covering(given_parts, begin, upto)
    assert {*range(begin, upto)} <= {at for one in chosen for at in range(one.begin, one.end)}
    ends = [part.end for part in chosen]
    assert ends == sorted(set(ends)), "a part that adds nothing"


def test_a_large_part_is_read_in_place_of_the_small_ones_that_it_replaces() -> None:
    small = [LogPart(at, at + 1, DIGEST) for at in range(10)]
    assert covering([*small, LogPart(0, 10, DIGEST)], 0, 10) == [LogPart(0, 10, DIGEST)]


def test_names_of_parts() -> None:
    part = LogPart(0, 4096, DIGEST)
    assert part.name == f"{'0' * 20}-00000000000000004096-{DIGEST}"
    assert parts_of([part.name, "notes.txt", part.name + "0", "-".join(["1"] * 3)]) == [part]


def test_a_moment_is_read_as_it_was_written() -> None:
    assert moment_of(MOMENT.encode(), "m") == MOMENT
    assert MOMENT.name == "moments/2026-11-21T02/1795228200123.json"
    name = MOMENT.file_object(MOMENT.files[0])
    assert name == f"moments/{hour_of(MOMENT.time_ms)}/files/{DIGEST}.zst"


@pytest.mark.parametrize(
    ("before", "after"), [(b"9000", b"9001"), (b"archive 1", b"archive 2"), (b"{", b"")]
)
def test_a_changed_moment_is_refused(before: bytes, after: bytes) -> None:
    with pytest.raises(Corruption, match="not what `pocketmq archive ship` wrote"):
        moment_of(MOMENT.encode().replace(before, after, 1), "m")
