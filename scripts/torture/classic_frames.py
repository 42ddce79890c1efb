"""Hostile frames on connections of classic clients, with the handlers of the broker.

Most cases run in the workers, over stores on simulated disks; in about 40 % of the stores users
sign their requests. Some of the same frames are sent to the port of a broker's process, beside a
client whose sends must all succeed, in time, and while the broker's memory remains bounded.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, Final

from bench.load import percentile
from harness.budget import Budget
from pocketmq.wire.remoting import Command, encode
from tests.kit.hostile_classic import CODES, SOUND, hostile
from tests.kit.hostile_frames import FrameMaker
from torture.greedy import GROWTH_MAX, P99_S, Besieged

LIFE: Final = 3_000
"""Cases of a broker, after which the next one begins with an empty store."""
SIGNED: Final = 0.4
"""Share of brokers whose users sign their requests."""
SOCKETS: Final = 6_000
"""Connections to a broker's process."""
SPOILERS: Final = 4
"""Connections at the same time."""
FRAMES: Final = 9
"""Frames of such a connection."""
ANSWER_S: Final = 10.0
PAUSE_S: Final = 0.02
"""Pause between two sound sends."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs cases until `budget.cases` are done or the time is over.

    Errors   AssertionError: a violation, with the frames in hexadecimal
    """
    with Besieged(place / "store") as broker:
        beside = asyncio.run(_beside(broker, budget.seed))
    figures, kinds = Counter[str](), set[str]()
    seeds = [f"{budget.seed} {life}" for life in range(-(-budget.cases // LIFE))]
    for found, made in budget.in_portions(seeds, 1, _lives):
        figures.update(found)
        kinds |= made
        budget.progress(f"{figures['cases']} cases, {figures['replies']} replies")
    return {**figures, "kinds": len(kinds), "over sockets": SOCKETS, **beside}


def _lives(seeds: list[str]) -> tuple[Counter[str], set[str]]:
    """Runs brokers, one for each seed; returns figures and the kinds of frames."""
    figures, kinds = Counter[str](), set[str]()
    for seed in seeds:
        asyncio.run(_life(seed, figures, kinds))
    return figures, kinds


async def _life(seed: str, figures: Counter[str], kinds: set[str]) -> None:
    random = Random(seed)
    signs = random.random() < SIGNED
    async with hostile(random, signs=signs) as lives:
        done = number = 0
        while done < LIFE:
            done += await lives.one()
            number += 1
            if not number % 50:
                await lives.sound()
    kinds.update(lives.kinds)
    figures.update({
        "cases": lives.kinds.total(), "brokers": 1, "brokers with users": int(signs),
        "replies": lives.codes.total(), "successes": lives.codes[0],
        "wrong signatures refused": lives.forged_count,
        "connections closed": lives.closed_count,
    })  # fmt: skip


async def _beside(broker: Besieged, seed: int) -> dict[str, Any]:
    """Sends frames to a broker's port beside sound sends.

    Errors   AssertionError: a sound send fails or is late, or the memory grows
    """
    address, base = broker.endpoint, broker.anonymous_bytes()
    peak = base
    await _is_sound(address)
    took_s: list[float] = []
    refused = 0
    with ProcessPoolExecutor(1) as pool:  # Frames that are made here would delay the sound sends.
        spoiling = pool.submit(_spoil_all, address, seed)
        while not spoiling.done():
            begun = perf_counter()
            refused += not await _is_sound(address)
            took_s.append(perf_counter() - begun)
            peak = max(peak, broker.anonymous_bytes())
            await asyncio.sleep(PAUSE_S)
        spoiling.result()
    p99_s = percentile(sorted(took_s), 0.99)
    assert not refused, f"{refused} sound sends failed"
    assert peak - base <= GROWTH_MAX, f"the memory grew by {(peak - base) >> 20} MiB"
    assert p99_s <= P99_S, f"sound sends took {p99_s * 1000:.0f} ms (p99)"
    return {
        "sound sends": len(took_s), "sound sends refused": refused,
        "sound sends, p99 ms": round(p99_s * 1000), "growth, MiB": (peak - base) >> 20,
    }  # fmt: skip


def _spoil_all(address: str, seed: int) -> None:
    """Opens all connections with hostile frames, some at a time; runs in a process of its own."""

    async def spoil() -> None:
        connections = iter(range(SOCKETS))
        async with asyncio.TaskGroup() as group:
            for number in range(SPOILERS):
                group.create_task(_spoil_some(address, Random(f"{seed} {number}"), connections))

    asyncio.run(spoil())


async def _spoil_some(address: str, random: Random, connections: Iterator[int]) -> None:
    make = FrameMaker(random, CODES)
    for _ in connections:
        await _spoil(address, b"".join(make.some().raw for _ in range(FRAMES)), random)
        await asyncio.sleep(0)


async def _spoil(address: str, raw: bytes, random: Random) -> None:
    """Sends bytes in pieces, reads what comes for a moment, and leaves."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with suppress(ConnectionError):
        while raw:
            size = random.randrange(1, 4_096)
            piece, raw = raw[:size], raw[size:]
            writer.write(piece)
            await writer.drain()
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(0.01):
            await reader.read(1 << 16)
    writer.transport.abort()


async def _is_sound(address: str) -> bool:
    """Returns whether a send on its own connection succeeds."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(encode(Command(310, SOUND, b"sound", opaque=7)))
    async with asyncio.timeout(ANSWER_S):
        size = int.from_bytes(await reader.readexactly(4))
        answer = await reader.readexactly(size)
    writer.transport.abort()
    return b'"code":0,' in answer
