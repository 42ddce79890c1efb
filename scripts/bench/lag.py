"""How late a broker's event loop was, as its own metric samples it a few times a second."""

from prometheus_client.parser import text_string_to_metric_families

NAME = "pocketmq_event_loop_lag_seconds"


def bucket_counts(page: str) -> dict[float, float]:
    """Returns how many observations each bucket of the lag holds, by its upper bound, cumulated."""
    counts: dict[float, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples if family.name == NAME else ():
            if sample.name == f"{NAME}_bucket":
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    return counts


def lag_bound_ms(before: str, after: str) -> float | None:
    """Returns what no lag seen between two pages exceeded, by the bounds of the buckets, in ms.

    None where the pages tell nothing about it; inf above the last bound.
    """
    old, new = bucket_counts(before), bucket_counts(after)
    added = {bound: count - old.get(bound, 0) for bound, count in new.items()}
    total = max(added.values(), default=0)
    if not total:
        return None
    return 1000 * min(bound for bound, count in added.items() if count == total)
