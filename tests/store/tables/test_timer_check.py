"""What a real broker's timer is told: where the journal begins that is not settled."""

from pathlib import Path
from struct import unpack

from tests.fakes.clock import at
from tests.fakes.consuming import GROUP, TOPIC, consuming
from tests.fakes.store_language import store_at, turns
from tests.golden_stores import GoldenStores

NAME = "config/timercheck"


def numbers(directory: Path) -> tuple[int, ...]:
    """Return the numbers of the file."""
    content = (directory / NAME).read_bytes()
    assert len(content) == 4_096
    return unpack(">qqqq", content[:32])


async def test_a_store_that_ends_in_order_leaves_what_is_settled_behind(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a", "b")
        await desk.ack(await desk.receive())
        end = desk.store.tables.offsets.leases.journal_end
        assert end > 0
    assert numbers(tmp_path / "s") == (0, 0, end, end)


async def test_an_open_lease_is_told_of(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a", "b")
        await desk.ack(await desk.receive(max_messages=1))
        settled = desk.store.tables.offsets.leases.journal_end
        got = await desk.receive()
        await desk.send("c")
        await desk.ack(await desk.receive())
    assert numbers(tmp_path / "s")[2:] == (settled, settled)
    async with consuming(tmp_path / "s", clock=desk.clock) as later:
        await later.consume.ack(GROUP, TOPIC, got.handles)
        end = later.store.tables.offsets.leases.journal_end
    assert numbers(tmp_path / "s")[2:] == (end, end)


async def test_it_is_written_by_and_by(tmp_path: Path) -> None:
    async with consuming(tmp_path / "s") as desk:
        await desk.send("a")
        await desk.ack(await desk.receive())
        await desk.step(1_000)
        await desk.step(1_000)
        desk.store.tables.timer_check.step(at(desk.clock.monotonic))
        await desk.store.tables.timer_check.saved()
        await turns()
        end = desk.store.tables.offsets.leases.journal_end
        assert numbers(tmp_path / "s")[2:] == (end, end)


async def test_a_real_brokers_own_stays_as_it_is(golden: GoldenStores, tmp_path: Path) -> None:
    directory = golden.copy("semantics", tmp_path / "s")
    before = (directory / NAME).read_bytes()
    shape = {k: v for k, v in golden.shape("semantics").items() if k != "index_style"}
    async with store_at(directory, **shape) as talking:
        assert talking.store.tables.timer_check.read_ms() == 1_795_221_494_000
        talking.store.tables.offsets.leases.begin = 500
        talking.store.tables.timer_check.step(at(0))
    assert (directory / NAME).read_bytes() == before
