"""Hostile frames on connections of classic clients, with the handlers of the broker.

Most cases run in the process, over a store on a simulated disk. Some of the same frames are sent
to a broker's port, beside a client whose sends must all succeed.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.budget import Budget, quiet
from pocketmq.rpc.own.listener import Transport
from pocketmq.rpc.own.server import OwnServer
from pocketmq.wire.remoting import Command, encode
from tests.kit.hostile_classic import CODES, SOUND, hostile
from tests.kit.hostile_frames import FrameMaker
from tests.kit.store_broker import running, store_broker

LIFE: Final = 3_000
"""Cases of a broker, after which the next one begins with an empty store."""
SOCKETS: Final = 200
"""Connections over real sockets."""
ANSWER_S: Final = 10.0


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs cases until `budget.cases` are done or the time is over.

    Errors   AssertionError: a violation, with the frames in hexadecimal
    """
    kinds, codes = Counter[str](), Counter[int]()
    closed = life = 0
    refused = asyncio.run(_over_sockets(budget.seed))
    while kinds.total() < budget.cases and (life == 0 or budget.left()):
        closed += asyncio.run(_life(f"{budget.seed} {life}", kinds, codes))
        life += 1
        budget.progress(f"{kinds.total()} cases, {codes.total()} replies")
    return {
        "cases": kinds.total(), "brokers": life, "kinds": len(kinds),
        "replies": codes.total(), "successes": codes[0], "connections closed": closed,
        "over sockets": SOCKETS, "sound sends refused": refused,
    }  # fmt: skip


async def _life(seed: str, kinds: Counter[str], codes: Counter[int]) -> int:
    async with hostile(Random(seed)) as lives:
        done = number = 0
        while done < LIFE:
            done += await lives.one()
            number += 1
            if not number % 50:
                await lives.sound()
    kinds.update(lives.kinds)
    codes.update(lives.codes)
    return lives.closed_count


async def _over_sockets(seed: int) -> int:
    """Sends frames to a port; returns how many sound sends failed."""
    random = Random(seed)
    make, failed = FrameMaker(random, CODES), 0
    with quiet():
        async with store_broker() as broker:
            services = [*broker.services(), broker.classic.service()]
            server = OwnServer(services, transport=Transport(classic=True))
            async with running(server) as address:
                server.show_ready(writable=True)
                for _ in range(SOCKETS):
                    await _spoil(address, b"".join(make.some().raw for _ in range(9)), random)
                    failed += not await _is_sound(address)
    assert not failed, f"{failed} sound sends failed"
    return failed


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
