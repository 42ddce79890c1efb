"""Reads the values of a gauge among stats."""

from collections.abc import Iterable

from pocketmq.model.stats import Gauge, LabelValues, Stat


def shown_by(stats: Iterable[Stat], name: str) -> dict[LabelValues, float]:
    """Returns the values of the gauge of that name by its labels; () if it has none."""
    (gauge,) = [one for one in stats if isinstance(one, Gauge) and one.name == name]
    found = gauge.read()
    return found if isinstance(found, dict) else {(): float(found)}
