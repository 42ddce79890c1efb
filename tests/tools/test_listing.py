"""Every file of a store is listed, however damaged it is."""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.files.disk import Disk
from pocketmq.format.consume_unit import PRE_BLANK, UNIT, UNIT_SIZE
from pocketmq.format.index_layout import HEADER
from pocketmq.format.names import NAMED_MS_MAX
from pocketmq.format.record import encode_blank
from pocketmq.rebuild.log_files import KnownShape
from pocketmq.tools.listing import (
    KINDS,
    FileRow,
    list_files,
)
from tests.golden_stores import NAMES, GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

STORE = "rebuild-base"
QUEUE = "consumequeue/R2/0"


def listed(
    golden: GoldenStores, directory: Path, kind: str = "", sizes: KnownShape | None = None
) -> dict[str, FileRow]:
    known = sizes or golden_tool_sizes(golden, STORE)
    return {row.path: row for row in list_files(Disk(), directory, known, kind)}


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> Path:
    """A store to damage."""
    return golden.copy(STORE, tmp_path / "s")


def test_what_each_file_reaches(golden: GoldenStores) -> None:
    store, manifest = golden.store(STORE), golden.manifest(STORE)
    rows = listed(golden, store)
    assert len(rows) == sum(path.is_file() for path in store.rglob("*"))
    first = rows["commitlog/" + "0" * 20]
    assert (first.begin, first.first_stored_ms) == (0, manifest["records"][0]["storeTimestamp"])
    for queue in manifest["queues"]:
        own = [
            r
            for n, r in rows.items()
            if n.startswith(f"consumequeue/{queue['topic']}/{queue['queueId']}/")
        ]
        assert max(row.end or 0 for row in own) == queue["maxOffset"]


def test_what_an_index_file_reaches_stands_in_its_header(golden: GoldenStores) -> None:
    for row in listed(golden, golden.store(STORE), "index").values():
        content = (golden.store(STORE) / row.path).read_bytes()
        begin_ms, end_ms, begin, end, _, count = HEADER.unpack_from(content)
        assert (row.begin, row.end) == (begin, end)
        assert (row.first_stored_ms, row.last_stored_ms) == (begin_ms, end_ms)
        assert row.note == f"{count - 1} entries"
    counts = [file["indexCount"] for file in golden.manifest(STORE)["indexFiles"]]
    assert len(listed(golden, golden.store(STORE), "index")) == len(counts)


@pytest.mark.parametrize("name", [name for name in NAMES if "." not in name])
def test_nothing_is_odd_in_a_sound_store(golden: GoldenStores, name: str) -> None:
    rows = listed(golden, golden.store(name), sizes=golden_tool_sizes(golden, name))
    odd = {row.note for row in rows.values() if not row.note.endswith(" entries")}
    assert odd <= {"", "empty"}
    log = [row for row in rows.values() if row.kind == "commitlog" and not row.note]
    assert all(row.first_stored_ms for row in log)


def test_rows_are_sorted_and_of_known_kinds(golden: GoldenStores) -> None:
    rows = listed(golden, golden.store("basic"), sizes=golden_tool_sizes(golden, "basic"))
    assert list(rows) == sorted(rows, key=lambda path: path.split("/"))
    assert {row.kind for row in rows.values()} <= set(KINDS)
    assert rows["config/topics.json"].kind == "config"
    assert rows["checkpoint"].kind == "other"
    for kind in KINDS:
        chosen = listed(golden, golden.store("basic"), kind, golden_tool_sizes(golden, "basic"))
        assert chosen == {path: row for path, row in rows.items() if row.kind == kind}


def test_room_on_disk_is_told_beside_the_length(golden: GoldenStores, store: Path) -> None:
    path = store / "commitlog" / "9".zfill(20)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    row = listed(golden, store)[f"commitlog/{path.name}"]
    assert row.size == 1 << 30
    assert row.allocated == path.stat().st_blocks * 512
    assert row.allocated < row.size


def test_what_is_odd_stands_in_the_note(golden: GoldenStores, store: Path) -> None:
    files = sorted((store / "commitlog").iterdir())
    files[0].write_bytes(b"\xff" * 200)
    files[1].write_bytes(b"")
    (store / "commitlog/note").touch()
    (store / "commitlog/deep").mkdir()
    (store / "commitlog/deep" / files[0].name).touch()
    (store / "index/20200101000000000").write_bytes(b"x")
    (store / "index/readme").touch()
    (store / QUEUE / "odd").touch()
    (store / QUEUE / "7".zfill(20)).touch()
    (store / "consumequeue" / files[0].name).touch()
    (store / "config/topics.json").write_bytes(b"")
    notes = {path: row.note for path, row in listed(golden, store).items()}
    assert "wrong size" in notes[f"commitlog/{files[0].name}"]
    assert "wrong size" in notes[f"commitlog/{files[1].name}"]
    assert notes["commitlog/note"] == "unexpected name"
    assert notes[f"commitlog/deep/{files[0].name}"] == "unexpected directory"
    assert "wrong size" in notes["index/20200101000000000"]
    assert notes["index/readme"] == "unexpected name"
    assert notes[f"{QUEUE}/odd"] == "unexpected name"
    assert notes[f"{QUEUE}/{'7'.zfill(20)}"] == "unexpected name"
    assert notes[f"consumequeue/{files[0].name}"] == "unexpected directory"
    assert notes["config/topics.json"] == "empty"


# -- files of the log ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("position", "content", "note"),
    [
        (0, bytes(200), "empty"),
        (0, encode_blank(4096), "empty"),
        (0, b"\x7f\xff\xff\xff", "begins with no valid record"),
        (4, b"\0\0\0\0", "begins with no valid record"),
        (28, b"\0\0\0\0\0\0\0\1", "begins with no valid record"),
    ],
    ids=["zeros", "blank", "size", "magic", "own offset"],
)
def test_the_head_of_a_log_file(
    golden: GoldenStores, store: Path, position: int, content: bytes, note: str
) -> None:
    with (store / "commitlog" / "0".zfill(20)).open("r+b") as file:
        file.seek(position)
        file.write(content)
    row = listed(golden, store, "commitlog")["commitlog/" + "0" * 20]
    assert (row.note, row.first_stored_ms) == (note, 0)


def test_no_more_than_the_head_is_read_whatever_size_it_tells(
    golden: GoldenStores, store: Path
) -> None:
    class Meter(Disk):
        bytes_read = 0

        def read_at(self, descriptor: int, position: int, size_bytes: int) -> bytes:
            content = super().read_at(descriptor, position, size_bytes)
            Meter.bytes_read += len(content)
            return content

    path = store / "commitlog" / "0".zfill(20)
    with path.open("r+b") as file:
        file.write(path.stat().st_size.to_bytes(4))
    rows = list(list_files(Meter(), store, golden_tool_sizes(golden, STORE), "commitlog"))
    assert Meter.bytes_read <= 112 * len(rows)


# -- files of queues -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("units", "begin", "end", "note"),
    [
        (0, 5, 5, "empty"),
        (3, 5, 8, ""),
        (15, 5, 20, ""),
    ],
)
def test_units_behind_pre_blank_ones(
    golden: GoldenStores, tmp_path: Path, units: int, begin: int, end: int, note: str
) -> None:
    path = tmp_path / "consumequeue/orders/0" / "0".zfill(20)
    path.parent.mkdir(parents=True)
    content = PRE_BLANK * 5 + UNIT.pack(4096, 100, 7) * units
    path.write_bytes(content.ljust(20 * UNIT_SIZE, b"\0"))
    sizes = replace(golden_tool_sizes(golden, STORE), consume_queue_file_size_bytes=20 * UNIT_SIZE)
    (row,) = list_files(Disk(), tmp_path, sizes)
    assert (row.begin, row.end, row.note) == (begin, end, note)


# -- files of the index ----------------------------------------------------------------------------
def test_a_header_that_cannot_be_right_tells_nothing(golden: GoldenStores, store: Path) -> None:
    first, second, third = sorted((store / "index").iterdir())[:3]
    for path, header in (
        (first, HEADER.pack(1, 2, 300, 200, 1, 2)),
        (second, HEADER.pack(1, 2, 200, 300, 1, 2**31 - 1)),
        (third, HEADER.pack(0, 0, 0, 0, 0, 0)),
    ):
        with path.open("r+b") as file:
            file.write(header)
    rows = listed(golden, store, "index")
    notes = [rows[f"index/{path.name}"].note for path in (first, second, third)]
    assert notes == ["its header is invalid"] * 2 + ["empty"]
    assert rows[f"index/{first.name}"].begin is None


def test_a_log_file_after_a_missing_one_has_a_note(golden: GoldenStores, store: Path) -> None:
    sizes = golden_tool_sizes(golden, STORE)
    paths = sorted((store / "commitlog").iterdir())
    size = sizes.commit_log_file_size_bytes
    paths[2].unlink()
    paths[0].with_name(f"{size // 2:020d}").write_bytes(paths[0].read_bytes())
    rows = list_files(Disk(), store, sizes, "commitlog")
    noted = {row.begin: row.note for row in rows if row.begin in (size // 2, size, 3 * size)}
    assert noted == {
        size // 2: "begins inside the file before it",
        size: "",
        3 * size: f"bytes {2 * size} to {3 * size} before it are missing",
    }


def test_a_time_that_is_no_date_is_unknown(golden: GoldenStores, store: Path) -> None:
    path = min((store / "index").iterdir())
    with path.open("r+b") as file:
        file.write(HEADER.pack(-1, NAMED_MS_MAX, 200, 300, 1, 2))
    row = listed(golden, store, "index")[f"index/{path.name}"]
    assert (row.first_stored_ms, row.last_stored_ms, row.note) == (0, 0, "1 entries")


def test_lengths_are_not_judged_when_the_geometry_is_unknown(
    golden: GoldenStores, store: Path
) -> None:
    path = min((store / "index").iterdir())
    path.write_bytes(path.read_bytes()[:500])
    sizes = replace(golden_tool_sizes(golden, STORE), index_slot_count=0, index_entry_count_max=0)
    rows = listed(golden, store, "index", sizes)
    assert not [row for row in rows.values() if "wrong size" in row.note]
    assert rows[f"index/{path.name}"].note == "its header is invalid"


# -- what is no plain file -------------------------------------------------------------------------
def test_links_are_followed_where_files_of_a_store_may_lie(
    golden: GoldenStores, store: Path, tmp_path: Path
) -> None:
    before = listed(golden, store)
    (store / "commitlog").rename(tmp_path / "other disk")
    (store / "commitlog").symlink_to(tmp_path / "other disk")
    (store / "config" / "loop").symlink_to(store)
    (store / "away").symlink_to(tmp_path)
    after = listed(golden, store)
    assert after.pop("away").note == "not scanned"
    assert after.pop("config/loop").note == "not scanned"
    assert after == before


def test_a_loop_of_links_ends(golden: GoldenStores, store: Path) -> None:
    before = listed(golden, store)
    (store / "consumequeue" / "loop").symlink_to(store / "consumequeue")
    assert listed(golden, store) == before


def test_what_cannot_be_read_is_listed(golden: GoldenStores, store: Path) -> None:
    name = "1".zfill(20)
    (store / "commitlog" / name).symlink_to(store / "nowhere")
    os.mkfifo(store / "commitlog" / "2".zfill(20))
    rows = listed(golden, store)
    assert rows[f"commitlog/{name}"].note == "cannot be read: No such file or directory"
    assert rows[f"commitlog/{'2'.zfill(20)}"].note == "no regular file"


def test_a_directory_that_cannot_be_read_is_listed(
    golden: GoldenStores, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterate = Path.iterdir

    def refuse(path: Path) -> object:
        if path.name == "index":
            raise PermissionError
        return iterate(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    rows = listed(golden, store, "index")
    assert {path: row.note for path, row in rows.items()} == {"index": "not scanned"}


# -- any damage ------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(st.data())
def test_whatever_a_file_holds_the_list_goes_on(golden: GoldenStores, data: st.DataObject) -> None:
    store, sizes = golden.store(STORE), golden_tool_sizes(golden, STORE)
    names = [str(row.path) for row in list_files(Disk(), store, sizes) if row.kind != "other"]
    name = data.draw(st.sampled_from(names))
    content = (store / name).read_bytes()
    cut = data.draw(st.integers(0, min(len(content), 200)))
    damaged = data.draw(st.binary(max_size=120)) + content[cut:]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, name)
        path.parent.mkdir(parents=True)
        path.write_bytes(damaged)
        (row,) = list_files(Disk(), Path(scratch), sizes)
        shutil.rmtree(path.parent)
    assert row.path == name
    assert row.size == len(damaged)
    for time_ms in (row.first_stored_ms, row.last_stored_ms):
        assert 0 <= time_ms < NAMED_MS_MAX
    if row.begin is not None and row.end is not None:
        assert row.begin <= row.end
