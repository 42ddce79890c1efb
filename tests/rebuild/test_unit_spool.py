"""Units that were spooled by ranges come back by queue, in log order, in shares of any size."""

from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.columns.units import UNIT_TYPE
from pocketmq.model.errors import IllegalTopic
from pocketmq.rebuild import unit_spool as module
from pocketmq.rebuild.queue_groups import group_borders
from pocketmq.rebuild.unit_spool import DIGEST_END, UnitSpool, read_queues

Row = tuple[int, int]
"""Queue number and queue offset."""
KEYS = [("A", 0), ("A", 1), ("B", 7), ("%LMQ%ü", 0)]
Found = dict[tuple[str, int], list[tuple[int, int]]]


def spooled(place: int, blocks: list[list[Row]]) -> tuple[bytes, int]:
    """A spool of blocks, and the physical offset after its last unit."""
    file = BytesIO()
    spool = UnitSpool(file)
    numbers = [spool.queues.number_of(topic.encode(), queue_id) for topic, queue_id in KEYS]
    for rows in blocks:
        units = np.zeros(len(rows), dtype=UNIT_TYPE)
        units["physical_offset"], units["size"] = np.arange(place, place + len(rows)), 1
        queue, offsets = (np.array([row[n] for row in rows], dtype=np.int64) for n in (0, 1))
        spool.add(np.array(numbers)[queue], offsets, units)
        spool.flush()
        place += len(rows)
    assert spool.unit_count == sum(map(len, blocks))
    return file.getvalue(), place


def found_in(paths: list[str], borders: list[int], held_max: int) -> Found:
    found: Found = {}
    for low, high in pairwise(borders):
        for queue in read_queues(paths, low, high, held_max=held_max):
            assert queue.key not in found
            found[queue.key] = []
            for first, count, units in queue.pieces():
                offsets = np.concatenate(
                    [np.arange(a, a + n) for a, n in zip(first, count, strict=True)]
                )
                places = units.view(UNIT_TYPE)["physical_offset"]
                found[queue.key] += zip(offsets.tolist(), places.tolist(), strict=True)
    return found


BLOCKS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=9), max_size=3
)


@given(st.lists(BLOCKS, max_size=4), st.integers(1, 5), st.sampled_from([0, 3, 1000]))
def test_every_unit_comes_back_in_log_order(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[list[list[Row]]], groups: int, held: int
) -> None:
    directory, place = tmp_path_factory.mktemp("s"), 0
    wanted: Found = {}
    number = 0
    for blocks in ranges:
        for queue, queue_offset in (row for rows in blocks for row in rows):
            wanted.setdefault(KEYS[queue], []).append((queue_offset, number))
            number += 1
    paths = []
    for order, blocks in enumerate(ranges):
        content, place = spooled(place, blocks)
        paths.append(str(directory / str(order)))
        Path(paths[-1]).write_bytes(content)
    borders = [DIGEST_END * count // groups for count in range(groups + 1)]
    assert found_in(paths, borders, held) == wanted


def test_a_queue_is_regular_if_its_offsets_continue(tmp_path: Path) -> None:
    content, place = spooled(0, [[(0, 4), (1, 0), (0, 5)], [(0, 6), (1, 2)]])
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "b").write_bytes(spooled(place, [[(0, 7)]])[0])
    paths = [str(tmp_path / name) for name in "ab"]
    queues = read_queues(paths, 0, DIGEST_END, held_max=9)
    assert {queue.key: queue.is_regular for queue in queues} == {("A", 0): True, ("A", 1): False}


def test_many_units_make_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNITS_AT_ONCE", 4)
    spool = UnitSpool(file := BytesIO())
    queue = np.full(3, spool.queues.number_of(b"A", 0))
    units = np.zeros(3, dtype=UNIT_TYPE)
    for first in (0, 3, 6):
        spool.add(queue, np.arange(first, first + 3), units)
    assert spool.unit_count == 6
    assert len(file.getvalue()) > 6 * 20


def test_an_illegal_topic_is_refused() -> None:
    spool = UnitSpool(BytesIO())
    number = spool.queues.number_of(b"../../etc", 0)
    spool.add(np.array([number]), np.zeros(1, np.int64), np.zeros(1, dtype=UNIT_TYPE))
    with pytest.raises(IllegalTopic):
        spool.finish()
    assert b"../../etc" not in {topic.encode() for topic, _ in UnitSpool(BytesIO()).queues.keys}


def test_a_range_gets_the_queues_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once share nothing, nor do ranges with other lists of removed topics."""
    monkeypatch.setattr(module, "_KEPT", {})

    def begun(removed: str = "", left_over: str = "") -> UnitSpool:
        return UnitSpool(BytesIO(), removed, left_over)

    first, beside = begun(), begun()
    assert first.queues is not beside.queues
    first.finish()
    assert begun('{"A": {"0": 1}}').queues is not first.queues
    assert begun("", '{"topics": [], "places": []}').queues is not first.queues
    after = begun()
    assert after.queues is first.queues
    assert begun().queues is not first.queues
    monkeypatch.setattr(module, "QUEUES_KEPT", 0)
    after.queues.number_of(b"A", 0)
    after.finish()
    assert begun().queues is not first.queues


def test_groups_have_about_as_many_units_as_asked() -> None:
    assert group_borders(0, 1, 100) == [0, DIGEST_END]
    assert len(group_borders(1000, 1, 100)) == 11
    assert len(group_borders(100, 4, 100)) == 6
    assert len(group_borders(90, 40, 1000)) == 2
    assert group_borders(300, 1, 100)[1] == DIGEST_END // 3
