"""Requests to send of all kinds, damaged ones too: the shortcut and the usual way do the same.

Two brokers that are equal get the same requests, one of them by the shortcut where it takes them;
of our own protocol in one life, of RocketMQ's in the next. Replies, errors, records, queues and
index agree byte by byte. What runs is what is there: compiled modules, or with POCKETMQ_PURE=1 the
sources.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any, Final

from pocketmq.native import is_compiled
from tests.kit.official_requests import OfficialMaker, official_twin
from tests.kit.send_requests import RequestMaker, hold_alike, own_twin, served_alike, twins
from torture.budget import Budget

LIFE: Final = 400
"""Requests between two looks at the files of both stores."""
SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"flush": "async"},
    {"flush": "sync", "index_style": "5.3"},
    {"flush": "async", "index_slot_count": 40, "index_entry_count_max": 100},
    {
        "flush": "async",
        "consume_queue_extension": True,
        "consume_queue_extension_file_size_bytes": 1 << 12,
    },
)


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Serves requests until `budget.cases` are through or the time is over.

    Errors   AssertionError: what was not alike, with the request in hexadecimal
    """
    count = taken = life = 0
    while count < budget.cases and (life == 0 or budget.left()):
        settings = SETTINGS[life // 2 % len(SETTINGS)]
        taken += asyncio.run(_life(Random(f"{budget.seed} {life}"), settings, life % 2 > 0))
        count, life = count + LIFE, life + 1
        budget.progress(f"{count} requests, {taken} by the shortcut")
    assert taken > count / 2, "most requests are plain"
    return {"requests": count, "by the shortcut": taken, "compiled": is_compiled()}


async def _life(random: Random, settings: dict[str, Any], is_official: bool) -> int:
    """Returns how many requests of a life took the shortcut."""
    maker = OfficialMaker(random) if is_official else RequestMaker(random)
    make = official_twin if is_official else own_twin
    async with twins(make, **settings) as (quick, usual):
        for number in range(LIFE):
            await served_alike(quick, usual, maker.some())
            if not number % 50:
                passed_ms = random.choice((0, 1, 999))
                for twin in (quick, usual):
                    await twin.broker.talking.settled()  # Index files are named by the clock.
                    twin.broker.clock.advance(passed_ms)
        await hold_alike(quick, usual)
        return quick.shortcut_count
