"""Stats become metrics with the names, labels and types that dashboards expect."""

import asyncio

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from pocketmq import native
from pocketmq.metrics import exposition as exposition_module
from pocketmq.metrics.exposition import (
    LEGACY_NAMES,
    SERIES_AT_ONCE,
    Exposition,
    build_info,
    compiled_modules,
)
from pocketmq.model.stats import Counter, Gauge, Histogram, Histograms, Stat
from pocketmq.native.commit import commit

BASE = {"cluster": "c1", "node_type": "broker", "node_id": "b1", "broker": "b1"}


def page(*stats: Stat, accept: str = "") -> str:
    text, _ = Exposition(lambda: stats, cluster="c1", broker="b1").page(accept)
    return text.decode()


def samples(*stats: Stat) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(page(*stats))
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def labelled(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_a_gauge_is_asked_at_each_scrape() -> None:
    numbers = iter([1.0, 2.0])
    gauge = Gauge("pocketmq_now", "Now.", lambda: next(numbers))
    exposition = Exposition(lambda: [gauge], cluster="c1", broker="b1")
    assert b"pocketmq_now 1.0\n" in exposition.page()[0]
    assert b"pocketmq_now 2.0\n" in exposition.page()[0]


def test_stats_may_come_later() -> None:
    stats: list[Stat] = []
    exposition = Exposition(lambda: stats, cluster="c1", broker="b1")
    assert b"pocketmq_things_total" not in exposition.page()[0]
    stats.append(Counter("pocketmq_things_total", "Things."))
    assert b"pocketmq_things_total 0.0" in exposition.page()[0]


def test_histograms_of_one_name_are_series_of_one_metric() -> None:
    parts = [Histogram("pocketmq_x", "X.", (1.0,), {"result": r}) for r in ("ok", "failed")]
    parts[1].observe(0.5)
    found = samples(*parts)
    assert found[labelled("pocketmq_x_count", result="ok")] == 0
    assert found[labelled("pocketmq_x_count", result="failed")] == 1
    assert page(*parts).count("# TYPE pocketmq_x histogram") == 1


def test_nothing_tells_when_it_was_created() -> None:
    assert "_created" not in page(Counter("pocketmq_things_total", "Things."))


def test_the_process_and_python_are_shown() -> None:
    text = page()
    assert "process_open_fds" in text
    assert "python_info" in text
    assert "python_gc_collections_total" in text


def test_the_build_is_told_by_labels() -> None:
    (line,) = [x for x in page(build_info("0.1.0", 1)).split("\n") if x.startswith("pocketmq_b")]
    assert 'version="0.1.0"' in line
    assert 'store_version="1"' in line
    assert f'commit="{commit()}"' in line
    assert line.endswith(" 1.0")


def test_every_module_that_may_run_compiled_says_whether_it_does() -> None:
    lines = [x for x in page(compiled_modules()).split("\n") if x.startswith("pocketmq_module_")]
    value = float(native.form() == "compiled")
    expected = [f'module="{name}"' for name in native.COMPILED]
    assert len(lines) == len(expected)
    for line, label in zip(sorted(lines), sorted(expected), strict=True):
        assert label in line
        assert line.endswith(f" {value}")


# --- names ---


@pytest.mark.parametrize(
    ("profiles", "names"),
    [
        (["native"], {"rocketmq_storage_size_bytes", "rocketmq_topic_number"}),
        (["native-legacy"], {"rocketmq_storage_size", "rocketmq_topic_number"}),
        (
            ["native", "native-legacy"],
            {"rocketmq_storage_size_bytes", "rocketmq_storage_size", "rocketmq_topic_number"},
        ),
    ],
)
def test_profiles_choose_the_names(profiles: list[str], names: set[str]) -> None:
    stats = [
        Gauge("rocketmq_storage_size_bytes", "Used.", lambda: 1.0),
        Gauge("rocketmq_topic_number", "Topics.", lambda: 2.0),
    ]
    exposition = Exposition(lambda: stats, cluster="c1", broker="b1", profiles=profiles)
    text = exposition.page()[0].decode()
    found = {x.name for x in text_string_to_metric_families(text)}
    assert {name for name in found if name.startswith("rocketmq")} == names
    assert text.count('storage_type="local"') == len(names) - 1


def test_no_old_name_is_a_new_one() -> None:
    assert not set(LEGACY_NAMES.values()) & LEGACY_NAMES.keys()
    assert "rocketmq_storage_flush_behind_bytes" not in LEGACY_NAMES


# --- how many ---


def test_series_of_what_was_deleted_go_away() -> None:
    counter = Counter("rocketmq_messages_in_total", "Messages.", ("topic", "is_system"))
    sizes = Histograms("rocketmq_message_size", "Sizes.", (1024.0,), ("topic", "is_system"))
    gauge = Gauge("rocketmq_half_messages", "Open.", lambda: {("T",): 1.0, ("U",): 2.0}, ("topic",))
    gone: dict[str, list[str]] = {}
    exposition = Exposition(
        lambda: [counter, sizes, gauge], cluster="c1", broker="b1", find_gone=lambda: gone
    )
    for topic in ("T", "U", "not known"):
        counter.add((topic, "false"))
        sizes.at((topic, "false"))
    assert exposition.page()[0].count(b'topic="T"') == 6
    gone |= {"topic": ["T", "V"], "consumer_group": ["G"]}
    page = exposition.page()[0]
    assert b'topic="T"' not in page
    assert page.count(b'topic="U"') == 6
    assert b'topic="not known"' in page
    assert ("T", "false") not in counter.values


def test_beyond_the_limit_the_largest_metrics_lose_series() -> None:
    few = Counter("pocketmq_few_total", "Few.", ("x",))
    many = Histograms("pocketmq_many", "Many.", (1.0,), ("x",))
    for number in range(3):
        few.add((str(number),))
    for number in range(10):
        many.at((str(number),))
    exposition = Exposition(lambda: [many, few], cluster="c1", broker="b1", max_series=3 + 1 + 9)
    first, second = (exposition.page()[0].decode() for _ in range(2))
    for text in (first, second):
        assert text.count("pocketmq_few_total{") == 3
        assert text.count("pocketmq_many_bucket{") == 2 * 2
        assert text.count("pocketmq_many_count{") == 2
    assert "pocketmq_metrics_dropped_series_total 0.0" in first
    assert "pocketmq_metrics_dropped_series_total 32.0" in second


def test_what_is_left_out_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    many = Counter("pocketmq_many_total", "Many.", ("x",))
    for number in range(10):
        many.add((str(number),))
    now = [0.0]
    exposition = Exposition(
        lambda: [many], cluster="c1", broker="b1", max_series=4, clock=lambda: now[0]
    )
    for at in (0.0, 1.0, 599.0, 600.0):
        now[0] = at
        exposition.page()
    told = [(one.getMessage(), vars(one)["left_out"]) for one in caplog.records]
    assert told == [("metrics.cut", 7)] * 2


def test_series_beyond_the_limit_are_not_made() -> None:
    many = Counter("pocketmq_many_total", "Many.", ("x",))
    for number in range(1_000):
        many.add((str(number),))
    exposition = Exposition(lambda: [many], cluster="c1", broker="b1", max_series=5)
    exposition.page()
    assert len(exposition._lines._heads["pocketmq_many_total"]) == 4


async def turns_of(exposition: Exposition) -> tuple[bytes, int]:
    """Returns a page that is made in turns, and how many turns of the loop others had meanwhile."""
    making = asyncio.ensure_future(exposition.page_in_turns())
    count = 0
    while not making.done():
        await asyncio.sleep(0)
        count += 1
    return making.result()[0], count


async def test_a_large_page_leaves_others_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition_module, "TURN_SECONDS", -1.0)  # after each piece of work
    many = Histograms("pocketmq_many", "Many.", (1.0,), ("x",))
    for number in range(20 * SERIES_AT_ONCE):
        many.at((str(number),))
    exposition = Exposition(lambda: [many], cluster="c1", broker="b1")
    found, count = await turns_of(exposition)
    assert found.count(b"pocketmq_many_count{") == 20 * SERIES_AT_ONCE
    assert count > 20


async def test_who_asks_while_a_page_is_made_shares_the_next_one() -> None:
    reads: list[int] = []

    def find() -> list[Stat]:
        reads.append(1)
        return [Gauge("pocketmq_reads", "Reads.", lambda: float(len(reads)))]

    exposition = Exposition(find, cluster="c1", broker="b1")
    lock = exposition._lock
    await lock.acquire()
    asked = [asyncio.ensure_future(exposition.page_in_turns()) for _ in range(50)]
    await asyncio.sleep(0)
    lock.release()
    pages = {(await one)[0].partition(b"python_gc")[0] for one in asked}
    assert len(reads) == len(pages) == 1
    assert b"pocketmq_reads 2.0" in (await exposition.page_in_turns())[0]
    assert not exposition._made


def test_a_page_within_the_limit_drops_nothing() -> None:
    exposition = Exposition(list, cluster="c1", broker="b1", max_series=1)
    assert b"pocketmq_metrics_dropped_series_total 0.0" in exposition.page()[0]
    assert b"pocketmq_metrics_dropped_series_total 0.0" in exposition.page()[0]


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_a_parser_reads_every_page(accept: str) -> None:
    counter = Counter("rocketmq_messages_in_total", 'Said "so\\".\nTwice.', ("topic",))
    counter.add(('a"b\\c\nd',), 2)
    parts: list[Stat] = [
        counter,
        Gauge("pocketmq_x", "X.", lambda: float("inf")),
        Counter("a_total", "A."),
    ]
    parse = open_metrics_families if accept else text_string_to_metric_families
    found = {x.name: x for x in parse(page(*parts, accept=accept))}
    family = found["rocketmq_messages_in"]
    assert family.type == "counter"
    assert family.documentation == 'Said "so\\".\nTwice.'
    assert family.samples[0].labels["topic"] == 'a"b\\c\nd'
    assert found["pocketmq_x"].samples[0].value == float("inf")
    assert "process_open_fds" in found
