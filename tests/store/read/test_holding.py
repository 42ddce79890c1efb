"""Messages pending at an offset of the log are named: kind, topic, group, end time."""

from pathlib import Path

from pocketmq.store.read.holding import (
    DELAY,
    LEASE,
    RECORD,
    TRANSACTION,
    RetentionHolder,
    holder_at,
)
from tests.kit.consuming import GROUP, INVISIBLE_MS, TOPIC, consuming
from tests.kit.timing import timing
from tests.kit.transacting import transacting


async def test_a_delayed_message() -> None:
    async with timing() as desk:
        await desk.wait("a", 60_000, topic="bills")
        await desk.run()
        place, until_ms = desk.timer.floor(), desk.clock.wall + 60_000 - 1_000
        holder = await holder_at(desk.store.reading, place)
        assert holder == RetentionHolder(DELAY, "bills", "", place, until_ms // 1_000 * 1_000)


async def test_a_lease(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a")
        await desk.receive()
        await desk.settled()
        place = desk.store.reading.place_of("rmq_sys_wheel_timer", 0, 0)
        assert isinstance(place, int)
        until_ms = desk.clock.wall + INVISIBLE_MS
        holder = await holder_at(desk.store.reading, place)
        assert holder == RetentionHolder(LEASE, TOPIC, GROUP, place, until_ms)


async def test_an_open_transaction_and_what_is_none() -> None:
    async with transacting(Path("/store")) as desk:
        await desk.half("a")
        await desk.settled()
        place = desk.transactions.floor()
        assert await holder_at(desk.store.reading, place) == RetentionHolder(
            TRANSACTION, "orders", "producers", place
        )
        for other in (place + 1, desk.store.appended):
            assert (await holder_at(desk.store.reading, other)).kind == RECORD
