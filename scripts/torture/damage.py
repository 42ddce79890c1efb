"""Counts what `store verify` sees of single changed bytes, field by field.

Random bits of random records of real brokers' stores are flipped one at a time: with a property CRC
everything must be seen; without one the table tells what is, because of the body's CRC and because
queues and index repeat what a record says. Then the same in random bytes of queues and index.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

from pocketmq.format.record import RECORD_HEAD, split_record
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore
from torture.budget import Budget

CHANGES = 1_000
WITH_CRC = "propcrc"
WITHOUT_CRC = ("basic", "v533", "semantics")
VIEWS = ("basic", "semantics", "cqext", "rebuild-base")


def field_of(content: bytes, record: int, position: int) -> str:
    """Returns the field of a record that a byte belongs to."""
    _, body, topic, topic_end, block, _ = split_record(content, record)
    at = position - record
    if position < body:
        begins = [(begin, name) for name, begin in RECORD_HEAD.positions.items() if begin <= at]
        is_long = body - record > RECORD_HEAD.size
        return "a longer head (IPv6)" if is_long and at >= 48 else max(begins)[1]
    for end, name in ((topic - 1, "body"), (topic, "topic_length"), (topic_end, "topic")):
        if position < end:
            return name
    return "property_length" if position < block else "properties"


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs everything; returns the figures."""
    seed = budget.seed
    golden = GoldenStores(place)
    figures: dict[str, Any] = {}
    store = CheckedStore(golden, WITH_CRC, place / "with-crc")
    seen, missed = _count(store, CHANGES, seed)
    figures["with_property_crc"] = f"{sum(seen.values())} of {CHANGES}"
    total_seen: Counter[str] = Counter()
    total_missed: Counter[str] = Counter()
    for name in WITHOUT_CRC:
        store = CheckedStore(golden, name, place / f"without-{name}")
        seen, missed = _count(store, CHANGES // len(WITHOUT_CRC) + 1, seed)
        total_seen += seen
        total_missed += missed
    figures["without_by_field"] = {
        field: f"{total_seen[field]} of {total_seen[field] + total_missed[field]}"
        for field in sorted(total_seen | total_missed)
    }
    figures["without_in_all"] = f"{total_seen.total()} of {(total_seen + total_missed).total()}"
    caught = 0
    for name in VIEWS:
        store = CheckedStore(golden, name, place / f"views-{name}")
        for path, position in store.view_bytes(CHANGES // len(VIEWS), seed):
            with store.changed(path, position):
                caught += bool(store.kinds())
    figures["in_views"] = f"{caught} of {CHANGES}"
    _print_table(total_seen, total_missed)
    return figures


def _count(store: CheckedStore, count: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    seen: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    chance = random.Random(seed)
    for path, position, record in store.record_bytes(count, seed):
        content = path.read_bytes()
        bit = bytes([content[position] ^ (1 << chance.randrange(8))])
        with store.changed(path, position, bit):
            (seen if store.kinds() else missed)[field_of(content, record, position)] += 1
    return seen, missed


def _print_table(seen: Counter[str], missed: Counter[str]) -> None:
    print("\n| field | changes seen |\n|---|---|")
    for field in sorted(seen | missed, key=lambda name: -(seen[name] + missed[name])):
        total = seen[field] + missed[field]
        print(f"| {field} | {seen[field]} of {total} ({100 * seen[field] // total} %) |")
