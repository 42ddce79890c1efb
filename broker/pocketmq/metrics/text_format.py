"""Formats stats as text: Prometheus 0.0.4 and OpenMetrics 1.0.

The head of a line, its name and labels, is cached: a scrape formats little more than the values.
Bounds of buckets are formatted as in Java, so that queries for RocketMQ's metrics work.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from pocketmq.model.stats import Counter, Gauge, Histogram, Histograms, LabelValues, Stat

SPARE_HEADS_MAX: Final = 64
"""A cache of heads is cleared when it has more entries than this, plus twice the series."""

_ESCAPES: Final = {"\\": r"\\", "\n": r"\n", '"': r"\""}
_LABEL_ESCAPES: Final = str.maketrans(_ESCAPES)
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


Series = tuple[LabelValues, float] | Histogram
Gone = Mapping[str, Collection[str]]
"""Label -> names of deleted topics or groups."""


class TextFormat(NamedTuple):
    """One of the two formats."""

    content_type: str
    is_open: bool


PLAIN: Final = TextFormat("text/plain; version=0.0.4; charset=utf-8", False)
OPEN_METRICS: Final = TextFormat("application/openmetrics-text; version=1.0.0; charset=utf-8", True)


def format_for(accept: str) -> TextFormat:
    """Returns the format for an Accept header."""
    return OPEN_METRICS if "application/openmetrics-text" in accept else PLAIN


class Family(NamedTuple):
    """One metric with its series; each series has `block_lines` samples."""

    name: str
    kind: str
    help: str
    label_names: Sequence[str]
    fixed: Mapping[str, str]
    series: Sequence[Series]
    block_lines: int

    def header(self, form: TextFormat) -> str:
        """Returns the HELP and TYPE lines of a metric."""
        name = self.name
        if form.is_open and self.kind == "counter":
            name = name.removesuffix("_total")
        words = self.help.translate(_LABEL_ESCAPES if form.is_open else _HELP_ESCAPES)
        return f"# HELP {name} {words}\n# TYPE {name} {self.kind}\n"


def family_of(name: str, stats: Sequence[Stat], fixed: Mapping[str, str], gone: Gone) -> Family:
    """Returns the family of a metric.

    name   name of the metric in the profile
    fixed  labels that are added to all series
    gone   label values whose series are omitted
    """
    first = stats[0]
    if isinstance(first, Histogram | Histograms):
        found: Sequence[Series] = _histograms(stats)
        kind, lines, label_names = "histogram", len(first.buckets) + 3, [*fixed]
    else:
        kind, lines = "counter" if isinstance(first, Counter) else "gauge", 1
        found = [pair for stat in stats for pair in _numbers(stat)]
        label_names = [*fixed, *first.label_names]
    if not isinstance(first, Histogram):
        for label in gone.keys() & set(first.label_names):
            place, names = first.label_names.index(label), gone[label]
            found = [one for one in found if _values(one)[place] not in names]
    return Family(name, kind, first.help, label_names, fixed, found, lines)


def _values(one: Series) -> LabelValues:
    return (*one.labels.values(),) if isinstance(one, Histogram) else one[0]


class LineMaker:
    """Formats series as lines; caches text that later scrapes contain again."""

    __slots__ = ("_heads", "_histogram_heads", "_histogram_lines")

    def __init__(self) -> None:
        self._heads: dict[str, dict[LabelValues, str]] = {}
        self._histogram_heads: dict[str, dict[LabelValues, tuple[str, ...]]] = {}
        self._histogram_lines: dict[str, dict[LabelValues, tuple[list[int], float, str]]] = {}
        """Metric -> label values -> (counts, sum, lines) of a histogram at the last scrape."""

    def lines(self, family: Family, upto: int) -> Iterator[str]:
        """Yields the lines of a metric's first `upto` series, one block for each series.

        Cost     1 µs for a block, 20 µs for a histogram that has changed
        """
        assert 0 <= upto <= len(family.series)
        name = family.name
        for kept in (self._heads, self._histogram_heads, self._histogram_lines):
            _sweep(kept.setdefault(name, {}), upto)
        for one in family.series[:upto]:
            if isinstance(one, Histogram):
                yield self._histogram_block(name, one, family.fixed)
            else:
                yield self._number_line(family, *one)

    def _number_line(self, family: Family, values: LabelValues, number: float) -> str:
        heads = self._heads[family.name]
        head = heads.get(values)
        if head is None:
            pairs = zip(family.label_names, (*family.fixed.values(), *values), strict=True)
            head = heads[values] = f"{family.name}{_label_block(dict(pairs))} "
        return f"{head}{number_text(number)}\n"

    def _histogram_block(self, name: str, one: Histogram, fixed: Mapping[str, str]) -> str:
        heads, lines_before = self._histogram_heads[name], self._histogram_lines[name]
        values = (*one.labels.values(),)
        before = lines_before.get(values)
        if before is not None and before[0] == one.counts and before[1] == one.sum:
            return before[2]
        known = heads.get(values)
        if known is None:
            known = heads[values] = _histogram_heads(name, {**fixed, **one.labels}, one.buckets)
        *bounds, count, total = known
        sums = [*accumulate(one.counts)]
        lines = [f"{head}{number}.0\n" for head, number in zip(bounds, sums, strict=True)]
        lines.append(f"{count}{sums[-1]}.0\n{total}{number_text(one.sum)}\n")
        block = "".join(lines)
        lines_before[values] = ([*one.counts], one.sum, block)
        return block


def number_text(number: float) -> str:
    """Returns a number in the syntax of both formats."""
    text = repr(float(number))
    if text[-1] > "9":  # inf, -inf, nan
        return "NaN" if number != number else "+Inf" if number > 0 else "-Inf"
    return text


def _numbers(stat: Stat) -> Iterable[tuple[LabelValues, float]]:
    if isinstance(stat, Gauge):
        read = stat.read()
        return read.items() if isinstance(read, dict) else [((), read)]
    assert isinstance(stat, Counter)
    return stat.values.items() if stat.label_names else [((), stat.value)]


def _histograms(stats: Sequence[Stat]) -> list[Histogram]:
    found: list[Histogram] = []
    for stat in stats:
        if isinstance(stat, Histograms):
            found += stat.series.values()
        elif isinstance(stat, Histogram):
            found.append(stat)
    return found


def _histogram_heads(
    name: str, labels: Mapping[str, str], buckets: Sequence[float]
) -> tuple[str, ...]:
    bounds = [*(repr(float(bound)) for bound in buckets), "+Inf"]
    plain = _label_block(labels)
    return (
        *(f"{name}_bucket{_label_block({**labels, 'le': bound})} " for bound in bounds),
        f"{name}_count{plain} ",
        f"{name}_sum{plain} ",
    )


def _label_block(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    # In Prometheus, an empty label value is equivalent to an absent label.
    pairs = [
        f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels.items() if value
    ]
    return "{" + ",".join(pairs) + "}"


def _sweep(heads: dict[LabelValues, Any], series_count: int) -> None:
    if len(heads) > 2 * series_count + SPARE_HEADS_MAX:
        heads.clear()
