"""Failing disks: makes each system call fail, in this process and in a broker's process.

in process   makes the Nth call fail permanently, N = 1, 2, 3, … to the last, for several shapes of
             work (the loop of tests/faults/test_failing_disk.py, with other file sizes)
a process    strace makes the Nth call of one kind fail in a broker under load. The broker refuses
             sends, or ends with exit code 74; afterwards all acknowledged messages must be stored
"""

import asyncio
import errno
import logging
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from harness.budget import Budget, NotHere
from pocketmq.app.serve import EXIT_STORE_FAILED
from pocketmq.client import AsyncClient, ClientError, Message
from tests.e2e.daemon import Daemon
from tests.faults.lives import can_trace
from tests.faults.test_failing_disk import run_with
from tests.faults.test_full_disk import all_of
from tests.sim.failing_os import Fault

KINDS: Final = tuple(
    (code, sticky) for code in (errno.EIO, errno.ENOSPC, errno.EROFS) for sticky in (False, True)
)
SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"commit_log_file_size_bytes": 16_384, "consume_queue_file_size_bytes": 2_000},
    {"property_crc": True, "index_entry_count_max": 5},
    {"consume_queue_extension": True, "consume_queue_extension_file_size_bytes": 256},
    {"reserve_size_bytes": 0},
)
"""Settings of the store under test."""
CALLS: Final = {
    "fdatasync": ("EIO", "ENOSPC"),
    "fsync": ("EIO", "ENOSPC"),
    "pwrite64": ("EIO", "ENOSPC", "EROFS"),
    "fallocate": ("EIO", "ENOSPC", "EDQUOT"),
    "rename": ("EIO", "ENOSPC", "EROFS"),
    "ftruncate": ("EIO", "ENOSPC"),
    "unlink": ("EIO", "EROFS"),
    "mkdir": ("EIO", "ENOSPC"),
}
"""System calls that a broker makes only for its store, and the errors of each."""
EXIT_CODES: Final = (0, 1, EXIT_STORE_FAILED)
"""Allowed exit codes: an orderly stop, no start on a full disk, or a failed disk."""
UNTYPED: Final = ("\nTraceback", '"rpc.failed"', '"store.task_failed"')
"""Log texts of unexpected errors."""
IN_PROCESS_SHARE: Final = 0.7
SMALL: Final = ("--set", "mappedFileSizeCommitLog=65536", "--set", "maxMessageSize=16384")


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Makes calls fail in this process, then in a broker's; returns the figures."""
    figures = Counter[str]()
    chance = random.Random(budget.seed)
    logging.disable()
    try:
        in_process(budget, figures, chance)
    finally:
        logging.disable(logging.NOTSET)
    if not can_trace():
        if not figures:
            raise NotHere("strace, which may trace")
        return {**figures, "processes": "no strace here"}
    for _ in budget.seeds():
        in_a_process(place / f"{figures['processes']}", chance, figures)
        budget.progress(f"{figures['processes']} processes")
    return dict(figures)


def in_process(budget: Budget, figures: Counter[str], chance: random.Random) -> None:
    """Makes every call of the work fail, shape by shape, kind by kind."""
    rounds = [(shape, kind) for shape in SHAPES for kind in KINDS]
    chance.shuffle(rounds)
    for shape, (code, sticky) in rounds:
        number = 0
        while budget.spent < budget.seconds * IN_PROCESS_SHARE:
            number += 1
            fault = Fault(number, code, sticky)
            with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
                try:
                    system, _ = run_with(Path(memory), fault, **shape)
                except BaseException:
                    print(f"repro: {fault} with {shape}")
                    raise
            if not system.failed:
                figures["whole_works"] += 1
                break
            figures["calls_failed"] += 1
            figures[f"syncs_lost_{errno.errorcode[code]}"] += system.lost_count
            budget.progress(f"{figures['calls_failed']} calls failed")


def in_a_process(store: Path, chance: random.Random, figures: Counter[str]) -> None:
    """Makes one call of a broker under load fail, and checks the store afterwards."""
    call = chance.choice([*CALLS])
    error, when = chance.choice(CALLS[call]), chance.randrange(1, 40)
    sticky = chance.choice(["", "+"])
    inject = f"inject={call}:error={error}:when={when}{sticky}"
    words = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
    broker = Daemon(store, *SMALL, tracer=words)
    acknowledged: dict[str, tuple[int, int]] = {}
    broker.begin()
    try:
        if broker.becomes_ready():
            figures["served"] += 1
            asyncio.run(loaded(broker, acknowledged))
            code = broker.stop()
        else:
            code = broker.wait()
        figures[f"exit_{code}"] += 1
        told = broker.log.read_text()
        if code not in EXIT_CODES or any(word in told for word in UNTYPED):
            raise AssertionError(f"{inject}: exit code {code}\n{told[-3_000:]}")
    finally:
        broker.end()
    with Daemon(store, *SMALL) as again:
        lost = acknowledged.keys() - asyncio.run(all_of(again, acknowledged))
        if lost:
            raise AssertionError(f"{inject}: {len(lost)} of {len(acknowledged)} are lost")
    figures["processes"] += 1
    figures["acknowledged"] += len(acknowledged)


async def loaded(broker: Daemon, acknowledged: dict[str, tuple[int, int]]) -> None:
    """Sends from several clients until the broker ends, or enough messages are acknowledged."""

    async def produce() -> None:
        async with AsyncClient(broker.endpoint, retry_ms=0) as client:
            for number in range(60):
                try:
                    message = Message("T", b"x" * 2_000, keys=[f"{number}"])
                    receipt = await client.send(message)
                except ClientError:
                    continue
                acknowledged[receipt.message_id] = (receipt.queue_id, receipt.queue_offset)

    await asyncio.gather(*(produce() for _ in range(4)))
