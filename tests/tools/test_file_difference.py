"""Files of two stores: names, lengths, the first byte; tables by their entries."""

from pathlib import Path

import pytest

from pocketmq.tools.difference import (
    LOG_FILES,
    PIECE,
    VIEW_FILES,
    Difference,
    file_differences,
    table_differences,
)
from tests.golden_stores import GoldenStores


def differences(left: Path, right: Path) -> list[Difference]:
    return list(file_differences(left, right, (*LOG_FILES, *VIEW_FILES)))


@pytest.fixture
def base(golden: GoldenStores) -> Path:
    return golden.store("rebuild-base")


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> Path:
    return golden.copy("rebuild-base", tmp_path / "s")


def test_index_files_are_compared_by_their_order(base: Path, store: Path) -> None:
    for path in sorted((store / "index").iterdir(), reverse=True):
        path.rename(path.with_name(str(int(path.name) + 7)))
    assert differences(base, store) == []
    last = max((store / "index").iterdir())
    last.unlink()
    (found,) = differences(base, store)
    assert found.where.startswith("index/")
    assert found[2:] == ("file", "there", "missing")


def test_the_first_byte_of_each_file(base: Path, store: Path) -> None:
    name = "consumequeue/R2/0/" + "0" * 20
    content = (store / name).read_bytes()
    (store / name).write_bytes(content[:9] + bytes([content[9] ^ 9, 77]) + content[11:])
    expected = Difference("file", name, "byte 9", f"0x{content[9]:02X}", f"0x{content[9] ^ 9:02X}")
    assert differences(base, store) == [expected]


def test_files_that_are_missing_here_or_there(base: Path, store: Path) -> None:
    log = sorted((store / "commitlog").iterdir())
    log[0].rename(log[0].with_name("9" * 20))
    assert [row[1:] for row in differences(base, store)] == [
        (f"commitlog/{log[0].name}", "file", "there", "missing"),
        (f"commitlog/{'9' * 20}", "file", "missing", "there"),
    ]


def test_a_file_of_the_log_that_was_made_ahead_counts_as_none(base: Path, store: Path) -> None:
    (store / "commitlog" / ("9" * 20)).write_bytes(bytes(3 * PIECE))
    assert differences(base, store) == []
    queue = store / "consumequeue/R2/0"
    (queue / ("9" * 20)).write_bytes(bytes(20))
    assert [row.part for row in differences(base, store)] == ["file"]


def test_lengths(tmp_path: Path) -> None:
    for side, size in (("a", 5), ("b", 7)):
        (tmp_path / side / "index").mkdir(parents=True)
        (tmp_path / side / "index/1").write_bytes(b"x" * size)
    assert differences(tmp_path / "a", tmp_path / "b") == [
        Difference("file", "index/1", "length", "5", "7")
    ]


def test_far_behind_in_a_file(tmp_path: Path) -> None:
    for side in "ab":
        (tmp_path / side / "commitlog").mkdir(parents=True)
        content = bytes(2 * PIECE + 5) + side.encode() + bytes(PIECE)
        (tmp_path / side / "commitlog/1").write_bytes(content)
    (found,) = differences(tmp_path / "a", tmp_path / "b")
    assert found.what == f"byte {2 * PIECE + 5}"


def test_tables_by_what_they_say(golden: GoldenStores, tmp_path: Path) -> None:
    store, base = golden.copy("semantics", tmp_path / "s"), golden.store("semantics")
    path = store / "config/topics.json"
    path.write_text(path.read_text().replace("\t", "  "))
    assert list(table_differences(base, store)) == []
    path.write_text(path.read_text().replace('"perm":6', '"perm":4', 1))
    (found,) = table_differences(base, store)
    assert found[:2] == ("table", "config/topics.json")
    assert found.what.endswith(".perm")
    assert found[3:] == ("6", "4")


def test_entries_and_tables_that_are_missing_or_cannot_be_read(tmp_path: Path) -> None:
    texts = {
        "a": {"x.json": '{"t":{1:2,"b":[1]}}', "y.json": "{}", "z.json": "{"},
        "b": {"x.json": '{"t":{"b":[2]},"c":{}}', "z.json": "{"},
    }
    for side, tables in texts.items():
        (tmp_path / side / "config").mkdir(parents=True)
        for name, text in tables.items():
            (tmp_path / side / "config" / name).write_text(text)
    rows = list(table_differences(tmp_path / "a", tmp_path / "b"))
    assert [row[1:] for row in rows] == [
        ("config/x.json", "c", "missing", "{}"),
        ("config/x.json", "t.1", "2", "missing"),
        ("config/x.json", "t.b", "[1]", "[2]"),
        ("config/y.json", "table", "{}", "missing"),
    ]
    (tmp_path / "b/config/z.json").write_text("{}")
    assert "cannot be read" in list(table_differences(tmp_path / "a", tmp_path / "b"))[-1].left
    (tmp_path / "b/config/y.json").mkdir()
    directory = list(table_differences(tmp_path / "a", tmp_path / "b"))[-2]
    assert directory.right == '"cannot be read: Is a directory"'
