"""Reads the values of a gauge among stats."""

from collections.abc import Iterable

from pocketmq.model.stats import Gauge, LabelValues, Stat


def shown_by(stats: Iterable[Stat], name: str) -> dict[LabelValues, float]:
    """Returns a gauge's values by its labels, which are () for a gauge without labels."""
    (gauge,) = [one for one in stats if isinstance(one, Gauge) and one.name == name]
    found = gauge.read()
    return found if isinstance(found, dict) else {(): float(found)}
