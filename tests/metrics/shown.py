"""A page of metrics as Prometheus would read it, and its comparison with the contract."""

from collections.abc import Iterable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.metrics.contract import PROCESS_PREFIXES, Due, Row


class Shown:
    """One family of a page as Prometheus would read it."""

    def __init__(self, family: Any) -> None:
        suffix = "_total" if family.type == "counter" else ""
        self.name = f"{family.name}{suffix}"
        self.kind = family.type
        self.samples = family.samples

    @property
    def labels(self) -> set[frozenset[str]]:
        """The label names of its samples, without the bound of a bucket."""
        return {frozenset(sample.labels) - {"le"} for sample in self.samples}

    @property
    def bounds(self) -> set[float]:
        """The finite bounds of its buckets."""
        found = {float(sample.labels["le"]) for sample in self.samples if "le" in sample.labels}
        return found - {float("inf")}

    def values(self, label: str) -> set[str]:
        """Return all values of a label."""
        return {sample.labels[label] for sample in self.samples}


def families(page: str) -> dict[str, Shown]:
    """Return the families of a page by name, without those of the Python process."""
    shown = [Shown(family) for family in text_string_to_metric_families(page)]
    return {one.name: one for one in shown if not one.name.startswith(PROCESS_PREFIXES)}


def compare(shown: dict[str, Shown], rows: Iterable[Row]) -> None:
    """Assert that what is shown is what the rows say, and nothing else."""
    by_name = {row.name: row for row in rows}
    undeclared = shown.keys() - by_name.keys()
    assert not undeclared, undeclared
    due = {name for name, row in by_name.items() if row.due is Due.DUE}
    missing = due - shown.keys()
    assert not missing, missing
    early = {name for name in shown if by_name[name].due is Due.LATER}
    assert not early, early
    for name, one in shown.items():
        row = by_name[name]
        assert one.kind == row.kind, name
        assert one.labels <= {row.all_labels}, name
        if one.samples:
            assert one.bounds == set(row.buckets), name
