"""Calculations of scripts/bench: orders, medians, and parsing of /proc and of metrics pages."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.cold import log_files, resident_share
from bench.figures import FIGURES
from bench.lag import lag_bound_ms
from bench.load import framed, percentile, requests_from
from bench.process import cpu_seconds, maps_of
from bench.queues import shuffled_queues, topics_of
from bench.retention import wanted_bases
from bench.table import Extent, Figure, table, turns

LAG = "pocketmq_event_loop_lag_seconds"


def lag_page(**counts: int) -> str:
    """A page whose buckets hold so many observations: at_0_01=3 for those up to 10 ms."""
    buckets = [
        f'{LAG}_bucket{{le="{name.removeprefix("at_").replace("_", ".")}"}} {count}'
        for name, count in counts.items()
    ]
    lines = [f"# HELP {LAG} Late.", f"# TYPE {LAG} histogram", *buckets]
    last = [*counts.values()][-1]
    return "\n".join([*lines, f'{LAG}_bucket{{le="+Inf"}} {last}', f"{LAG}_count {last}", ""])


# --- figures ------------------------------------------------------------------------------------


def test_a_figure_is_the_median_of_its_rounds_in_one_line_and_one_row() -> None:
    figure = Figure.of("send", "a send ÷ nothing", [3.0, 1.0, 2.0], "ratio", "≥ 0.8")
    assert json.loads(figure.line())["value"] == 2.0
    row = table([figure]).splitlines()[-1]
    assert row == "| a send ÷ nothing | ≥ 0.8 | 2.00 ratio [1.00 to 3.00] |"


def test_a_figure_nothing_is_wanted_of_has_a_dash() -> None:
    assert "| – | 1.00 s " in table([Figure.of("a", "b", [1.0], "s")])


def test_scale_is_of_amounts_and_leaves_something_to_measure() -> None:
    assert Extent(scale=3.0).count(400) == 1_200
    assert Extent(scale=0.0001).count(400) == 1
    assert Extent(scale=0.01).seconds(3.0) == 0.5


def test_everybody_comes_first_and_everybody_comes_last() -> None:
    orders = [turns("abc", number) for number in range(6)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert {order[0] for order in orders[:3]} == {"a", "b", "c"}
    assert {order[-1] for order in orders} == {"a", "b", "c"}
    assert orders[3] == orders[0][::-1]


def test_what_measures_is_found_by_its_name() -> None:
    assert {"queues", "cold", "retention", "messages", "pool", "scrape", "help"} <= FIGURES.keys()


# --- the generator ------------------------------------------------------------------------------


@given(some.lists(some.binary(max_size=300)))
def test_requests_come_back_as_they_were_framed(requests: list[bytes]) -> None:
    assert requests_from(framed(requests)) == requests


def test_percentiles_are_values_that_were_seen() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (percentile(ordered, 0.5), percentile(ordered, 1.0)) == (51.0, 100.0)
    assert percentile(ordered[:3], 0.99) == 3.0
    assert percentile([], 0.99) == 0.0


# --- /proc and /metrics -------------------------------------------------------------------------


def test_processor_time_of_another_process_only_grows() -> None:
    before = cpu_seconds(os.getppid())
    assert 0 < before <= cpu_seconds(os.getppid())


def test_maps_of_a_directory_are_told_from_those_beside_it() -> None:
    text = (
        "7f00-7f10 rw-s 00000000 fe:00 12    /store/consumequeue/t/0/00000000000000000000\n"
        "7f10-7f20 rw-s 00000000 fe:00 13    /store/consumequeue-old/x\n"
        "7f20-7f30 rw-p 00000000 00:00 0 \n"
    )
    assert maps_of(text, Path("/store/consumequeue")) == (3, 1)


def test_the_lag_is_bounded_by_the_bucket_that_holds_all_that_is_new() -> None:
    before = lag_page(at_0_01=5, at_0_1=6)
    assert lag_bound_ms(before, lag_page(at_0_01=9, at_0_1=10)) == pytest.approx(10)
    assert lag_bound_ms(before, lag_page(at_0_01=9, at_0_1=11)) == pytest.approx(100)


def test_pages_that_tell_nothing_new_bound_nothing() -> None:
    page = lag_page(at_0_01=5)
    assert lag_bound_ms(page, page) is None
    assert lag_bound_ms("", "") is None


# --- queues, cold files, retention --------------------------------------------------------------


@pytest.mark.parametrize(("count", "topics"), [(1, 1), (1_000, 1), (10_000, 10)])
def test_every_queue_comes_once_in_an_order_that_is_the_same_again(count: int, topics: int) -> None:
    found = topics_of(count)
    queues = shuffled_queues(found)
    assert (len(found), len(set(queues)), len(queues)) == (topics, count, count)
    assert queues == shuffled_queues(found)


def test_files_are_cold_only_when_they_end_below_what_is_pulled(tmp_path: Path) -> None:
    for base in (0, 100, 200):
        (tmp_path / f"{base:020d}").write_bytes(bytes(100))
    assert [int(path.name) for path in log_files(tmp_path, 250)] == [0, 100]


def test_what_was_written_a_moment_ago_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4_096))
    assert resident_share([path]) == 1.0
    assert resident_share([]) == 0.0


@pytest.mark.parametrize(
    ("limit", "left"), [(400, [0, 100, 200, 300]), (399, [100, 200, 300]), (50, [300])]
)
def test_the_newest_files_that_fit_the_limit_stay_and_the_last_one_always(
    limit: int, left: list[int]
) -> None:
    assert wanted_bases([0, 100, 200, 300], 100, limit) == left
