"""Small files: what they say may not lie beyond the log, and must parse."""

import os
from errno import EROFS
from pathlib import Path

import pytest

from pocketmq.files.disk import Disk
from pocketmq.format.checkpoint_layout import CheckpointValues, encode_checkpoint
from pocketmq.format.order_changes import encode_changes
from pocketmq.log.checkpoint import FlushedMark
from pocketmq.model.errors import TableUnreadable
from pocketmq.store.tables.tables import Tables
from pocketmq.tools.durable import flushed_upto
from pocketmq.tools.verify.tables import WITH_BACKUP, WITHOUT_BACKUP, parses
from tests.golden_stores import GoldenStores
from tests.kit.checked_store import CheckedStore
from tests.sim.clock import FakeClock


class ReadOnlyDisk(Disk):
    """A mount, or a user, that may read and nothing else."""

    def open(self, path: Path | str, *, read_only: bool = False) -> int:
        if not read_only:
            raise PermissionError(EROFS, "Read-only file system", str(path))
        return super().open(path, read_only=read_only)


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> CheckedStore:
    return CheckedStore(golden, "rebuild-base", tmp_path / "s")


def write_checkpoint(store: CheckedStore, values: CheckpointValues, size: int = 4096) -> bytes:
    content = encode_checkpoint(values)
    (store.directory / "checkpoint").write_bytes(content.ljust(size, b"\0"))
    return content


def test_a_checkpoint_beyond_the_log(store: CheckedStore) -> None:
    write_checkpoint(store, CheckpointValues(logics_physical_offset=10**9))
    (finding,) = store.verify().findings
    assert (finding.kind, finding.file, finding.offset) == ("table", "checkpoint", 40)
    write_checkpoint(store, CheckpointValues(physic_msg_timestamp=2**60))
    assert store.kinds() == {"table"}
    write_checkpoint(store, CheckpointValues(), 48)
    assert store.kinds() == {"table"}


def test_records_the_mark_knows_of_that_are_gone(store: CheckedStore) -> None:
    checkpoint = write_checkpoint(store, CheckpointValues())
    (store.directory / "pocketmq").mkdir()
    mark = FlushedMark(Disk(), store.directory / "pocketmq")
    mark.open()
    mark.write(10**8, checkpoint)
    mark.close()
    assert flushed_upto(Disk(), store.directory) == 10**8
    assert flushed_upto(ReadOnlyDisk(), store.directory) == 10**8
    (finding,) = store.verify().findings
    assert (finding.kind, finding.repairable) == ("lost_records", False)
    write_checkpoint(store, CheckpointValues(physic_msg_timestamp=1))
    found = store.verify()
    assert found.counts == {}
    assert any("another broker wrote later" in note for note in found.notes)


def test_a_cut_last_file_is_the_only_place_of_its_lost_records(store: CheckedStore) -> None:
    checkpoint, end = write_checkpoint(store, CheckpointValues()), store.verify().log_end
    (store.directory / "pocketmq").mkdir()
    mark = FlushedMark(Disk(), store.directory / "pocketmq")
    mark.open()
    mark.write(end, checkpoint)
    mark.close()
    last = sorted((store.directory / "commitlog").iterdir())[-1]
    os.truncate(last, (end - int(last.name)) // 2)
    found = store.verify()
    assert found.lost_count
    assert found.counts["file_size"] == 1
    assert "lost_records" not in found.counts


def test_a_file_closed_by_a_blank_is_durable_to_its_end(store: CheckedStore) -> None:
    checkpoint = write_checkpoint(store, CheckpointValues())
    first, *later = sorted((store.directory / "commitlog").iterdir())
    assert later
    for path in later:  # A power cut leaves the next file empty.
        path.write_bytes(bytes(path.stat().st_size))
    (store.directory / "pocketmq").mkdir()
    mark = FlushedMark(Disk(), store.directory / "pocketmq")
    mark.open()
    mark.write(first.stat().st_size, checkpoint)
    assert "lost_records" not in store.kinds()
    assert not any("truncated" in note for note in store.verify().notes)
    mark.write(first.stat().st_size + 1, checkpoint)
    mark.close()
    assert "lost_records" in store.kinds()


def test_a_manifest_that_says_nothing(store: CheckedStore) -> None:
    (store.directory / "pocketmq").mkdir()
    (store.directory / "pocketmq/store.json").write_text("{")
    assert store.kinds() == {"table"}
    assert flushed_upto(Disk(), store.directory) is None


REFUSED = {
    "topics": '{"topicConfigTable":[]}',
    "subscriptionGroup": '{"subscriptionGroupTable":{"g":1}}',
    "consumerOffset": '{"offsetTable":{"T@g":5}}',
    "lmqConsumerOffset": '{"offsetTable":[]}',
    "consumerOrderInfo": '{"table":{"T@g":[]}}',
    "delayOffset": '{"offsetTable":[]}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_a_start_refuses_are_findings(store: CheckedStore, name: str) -> None:
    path = store.directory / "config" / f"{name}.json"
    path.with_name(f"{path.name}.bak").unlink(missing_ok=True)
    path.write_text(REFUSED[name])
    tables = Tables(Disk(), store.directory, FakeClock())
    try:
        with pytest.raises(TableUnreadable):
            tables.read()
    finally:
        tables.close()
    (finding,) = store.verify().findings
    assert (finding.kind, finding.file) == ("table", f"config/{name}.json")
    assert not parses(Disk(), path)


def test_rows_of_the_order_journal_that_nobody_reads(store: CheckedStore) -> None:
    rows = [encode_changes([], 7, number) for number in (1, 2, 3)]
    journal = store.directory / "pocketmq" / "order.journal"
    journal.parent.mkdir()
    journal.write_bytes(b"".join(rows).ljust(512, b"\0"))
    table = store.directory / "config" / "consumerOrderInfo.json"
    table.write_text('{"pocketmqVersion":7,"table":{}}')
    assert store.verify().counts == {}
    flipped = bytearray(journal.read_bytes())
    flipped[len(rows[0]) + 4] ^= 1
    journal.write_bytes(flipped)
    (finding,) = store.verify().findings
    assert (finding.kind, finding.file) == ("table", "pocketmq/order.journal")
    assert (finding.offset, finding.repairable) == (len(rows[0]), False)
    table.write_text('{"table":{}}')
    assert store.verify().counts == {}, "a real broker wrote the table: no row counts"


@pytest.mark.parametrize("has_backup", [False, True])
def test_a_damaged_table_is_reported_with_its_place_and_the_next_step(
    store: CheckedStore, has_backup: bool
) -> None:
    path = store.directory / "config/consumerOffset.json"
    path.write_bytes('{\n\t"offsetTable":{"é@G":{0:1,1:2,oops}}}'.encode())
    backup = path.with_name(f"{path.name}.bak")
    backup.write_bytes(b'{"offsetTable":{}}' if has_backup else b"")
    (finding,) = store.verify().findings
    assert (finding.kind, finding.file) == ("table", "config/consumerOffset.json")
    assert finding.offset == path.read_bytes().index(b"oops")
    then = WITH_BACKUP if has_backup else WITHOUT_BACKUP
    assert finding.found == f"it is no valid JSON at line 2, column 32, byte 34; {then}"
