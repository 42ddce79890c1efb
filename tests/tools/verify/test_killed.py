"""A store whose broker was killed: the next start builds what its queues and index lack."""

from pathlib import Path

from pocketmq.cli.store.access import sizes_of
from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import UNIT_SIZE
from pocketmq.tools.verify.verdict import verdict
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.kit.store_language import store_at

OLD, NEW = 5, 3


async def killed(tmp_path: Path) -> Path:
    """A store with messages before its last checkpoint and after it, killed."""
    async with store_at(tmp_path / "s") as store:
        for number in range(OLD):
            await store.send("T", f"old {number}")
    async with store_at(tmp_path / "s") as store:
        for number in range(NEW):
            await store.send("T", f"new {number}")
        await store.settled()
        return store.killed(tmp_path / "image")


def zero_units(image: Path, first: int, end: int) -> None:
    """Writes zeros over units of the queue, as if they were only in the broker's memory."""
    with (image / "consumequeue/T/0/00000000000000000000").open("r+b") as file:
        file.seek(first * UNIT_SIZE)
        file.write(bytes((end - first) * UNIT_SIZE))


def verified(image: Path) -> Verification:
    sizes = sizes_of(Disk(), image, [], with_index=True)
    return verify(Disk(), image, sizes, VerifyOptions())


async def test_units_of_the_last_records_are_no_damage(tmp_path: Path) -> None:
    image = await killed(tmp_path)
    zero_units(image, OLD, OLD + NEW)
    found = verified(image)
    assert (found.counts, found.is_sound) == ({}, True)
    assert verdict(found).startswith("The store is sound")
    assert any(note.startswith(f"queues and index lack {NEW} units") for note in found.notes)
    async with store_at(image) as store:
        assert len(await store.pulled("T")) == OLD + NEW
    assert not any("lack" in note for note in verified(image).notes)


async def test_units_before_the_checkpoint_are_damage_after_a_kill_too(tmp_path: Path) -> None:
    image = await killed(tmp_path)
    zero_units(image, OLD - 1, OLD + NEW)
    assert verified(image).counts == {"missing_unit": 1}


async def test_the_same_units_are_damage_after_an_orderly_stop(tmp_path: Path) -> None:
    image = await killed(tmp_path)
    (image / "abort").unlink()
    zero_units(image, OLD, OLD + NEW)
    assert verified(image).counts == {"missing_unit": NEW}
