"""Two stores: the same, or where they first differ, queue by queue or byte by byte."""

from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.tools.difference import (
    Difference,
    Side,
    file_differences,
    message_differences,
    table_differences,
)
from broker.tools.store_access import Sizes
from tests.fakes.log_bytes import SMALL, LogBytes
from tests.golden_stores import GoldenStores

SIZES = Sizes(4096, SMALL.consume_queue_file_bytes, SMALL.geometry, "5.5", "UTC")


def log_of(directory: Path, **changed: bytes) -> LogBytes:
    log = LogBytes(directory)
    for number in range(6):
        body = changed.get(f"m{number}", b"body %d" % number)
        if body:
            log.add("T", number % 2, queue_offset=number // 2, body=body)
    return log


def differences(left: LogBytes, right: LogBytes) -> list[Difference]:
    sides = [Side(log.close().store, SIZES) for log in (left, right)]
    return list(message_differences(Disk(), *sides))


def test_the_same_messages_in_another_order_of_queues(tmp_path: Path) -> None:
    other = LogBytes(tmp_path / "b")
    for queue_id in (1, 0):
        for number in range(3):
            body = b"body %d" % (2 * number + queue_id)
            other.add("T", queue_id, queue_offset=number, body=body)
    assert differences(log_of(tmp_path / "a"), other) == []


def test_the_first_message_that_differs(tmp_path: Path) -> None:
    found = differences(log_of(tmp_path / "a"), log_of(tmp_path / "b", m3=b"other"))
    assert found == [Difference("body", "T:1:1", b"body 3".hex(), b"other".hex())]


def test_a_message_and_a_queue_that_are_missing(tmp_path: Path) -> None:
    right = log_of(tmp_path / "b", m5=b"")
    right.add("U")
    found = differences(log_of(tmp_path / "a"), right)
    assert [(d.kind, d.where, d.right) for d in found] == [
        ("message", "T:1:2", "missing"), ("queue", "U:0", "1 messages"),
    ]  # fmt: skip


def test_files_by_bytes_and_index_files_by_order(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    for path in sorted((store / "index").iterdir(), reverse=True):
        path.rename(path.with_name(str(int(path.name) + 7)))
    base = golden.store("rebuild-base")
    assert list(file_differences(base, store)) == []
    path = store / "consumequeue/R2/0" / ("0" * 20)
    path.write_bytes(b"\x09" + path.read_bytes()[1:])
    sorted((store / "commitlog").iterdir())[-1].unlink()
    found = list(file_differences(base, store))
    assert [(d.kind, d.left, d.right) for d in found] == [
        ("file", "there", "missing"), ("byte", "0x00", "0x09"),
    ]  # fmt: skip


def test_tables_by_what_they_say(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("semantics", tmp_path / "s")
    base = golden.store("semantics")
    path = store / "config/topics.json"
    path.write_text(path.read_text().replace("\t", "  "))
    assert list(table_differences(base, store)) == []
    path.write_text("{")
    (found,) = table_differences(base, store)
    assert "cannot be read" in found.right


@pytest.mark.parametrize("name", ["semantics"])
def test_a_store_and_itself(golden: GoldenStores, name: str) -> None:
    params = golden.manifest(name)["params"]
    sizes = SIZES._replace(commit_log_file_bytes=params["mappedFileSizeCommitLog"])
    side = Side(golden.store(name), sizes)
    assert list(message_differences(Disk(), side, side)) == []
