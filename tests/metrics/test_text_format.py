"""Lines as the two formats want them; heads are made once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pocketmq.metrics.text_format import (
    OPEN_METRICS,
    PLAIN,
    SPARE_HEADS_MAX,
    Family,
    LineMaker,
    family_of,
    format_for,
    number_text,
)
from pocketmq.model.stats import Counter, Gauge, Histogram, Histograms, Stat


def text(*stats: Stat, **fixed: str) -> str:
    family = family_of(stats[0].name, stats, fixed, {})
    return family.header(PLAIN) + "".join(blocks(family))


def blocks(family: Family, lines: LineMaker | None = None) -> list[str]:
    """Returns the lines of all series."""
    return [*(lines or LineMaker()).lines(family, len(family.series))]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0.0"),
        (3, "3.0"),
        (0.5, "0.5"),
        (1e16, "1e+16"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_floats(number: float, shown: str) -> None:
    assert number_text(number) == shown


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", PLAIN),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", PLAIN),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", OPEN_METRICS),
    ],
)
def test_the_header_chooses(accept: str, form: object) -> None:
    assert format_for(accept) is form


def test_open_metrics_calls_a_counter_without_its_suffix() -> None:
    family = family_of("a_total", [Counter("a_total", 'The "a".')], {}, {})
    assert family.header(PLAIN) == '# HELP a_total The "a".\n# TYPE a_total counter\n'
    assert family.header(OPEN_METRICS) == '# HELP a The \\"a\\".\n# TYPE a counter\n'


def test_fixed_labels_stand_first() -> None:
    counter = Counter("a_total", "A.", ("topic",))
    counter.add(("T",))
    assert text(counter, node="n").endswith('a_total{node="n",topic="T"} 1.0\n')


def test_a_histogram_is_buckets_count_and_sum() -> None:
    histogram = Histogram("h", "H.", (0.5, 1024.0), {"file": "log"})
    histogram.observe_many(0.75, 2)
    assert text(histogram).splitlines()[2:] == [
        'h_bucket{file="log",le="0.5"} 0.0',
        'h_bucket{file="log",le="1024.0"} 2.0',
        'h_bucket{file="log",le="+Inf"} 2.0',
        'h_count{file="log"} 2.0',
        'h_sum{file="log"} 1.5',
    ]


@given(st.dictionaries(st.tuples(st.text(), st.text()), st.integers(0, 2**40), max_size=8))
def test_a_parser_reads_back_whatever_labels_hold(series: dict[tuple[str, ...], int]) -> None:
    counter = Counter("a_total", "A.", ("topic", "group"))
    # A lone surrogate cannot be sent; the parser splits lines where Prometheus does not.
    for labels, value in series.items():
        if all(label.isprintable() or label in '"\\\n' for label in labels):
            counter.add(labels, value)
    (family,) = text_string_to_metric_families(text(counter, node='"'))
    read = {(s.labels.get("topic", ""), s.labels.get("group", "")): s.value for s in family.samples}
    assert read == counter.values


def test_heads_are_made_once_and_swept_when_most_are_gone() -> None:
    lines = LineMaker()
    series: dict[tuple[str, ...], float] = {(str(n),): 1.0 for n in range(SPARE_HEADS_MAX + 100)}
    gauge = Gauge("g", "G.", lambda: series, ("x",))
    assert len(blocks(family_of("g", [gauge], {}, {}), lines)) == len(series)
    assert len(lines._heads["g"]) == len(series)
    series.clear()
    series["1",] = 2.0
    assert blocks(family_of("g", [gauge], {}, {}), lines) == ['g{x="1"} 2.0\n']
    assert len(lines._heads["g"]) == 1


def test_families_know_how_many_samples_a_series_has() -> None:
    sizes = Histograms("h", "H.", (1.0, 2.0), ("x",))
    sizes.at(("a",))
    family = family_of("h", [sizes], {}, {})
    assert family.block_lines == blocks(family)[0].count("\n") == 5
