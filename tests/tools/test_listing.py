"""Every file of a store is listed, however damaged it is."""

from pathlib import Path

from broker.files.disk import Disk
from broker.tools.listing import FileRow, list_files
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores


def listed(golden: GoldenStores, directory: Path, kind: str = "") -> dict[str, FileRow]:
    sizes = golden_tool_sizes(golden, "rebuild-base")
    return {row.path: row for row in list_files(Disk(), directory, sizes, kind)}


def test_what_each_file_reaches(golden: GoldenStores) -> None:
    store, manifest = golden.store("rebuild-base"), golden.manifest("rebuild-base")
    rows = listed(golden, store)
    assert len(rows) == sum(path.is_file() for path in store.rglob("*"))
    first = rows["commitlog/" + "0" * 20]
    assert (first.begin, first.store_time_ms) == (0, manifest["records"][0]["storeTimestamp"])
    for queue in manifest["queues"]:
        own = [
            r
            for n, r in rows.items()
            if n.startswith(f"consumequeue/{queue['topic']}/{queue['queueId']}/")
        ]
        assert max(row.end or 0 for row in own) == queue["maxOffset"]
    index = [row for row in rows.values() if row.kind == "index"]
    assert [row.note for row in index] == [
        f"{file['indexCount'] - 1} entries" for file in manifest["indexFiles"]
    ]


def test_one_kind(golden: GoldenStores) -> None:
    rows = listed(golden, golden.store("rebuild-base"), "index")
    assert {row.kind for row in rows.values()} == {"index"}


def test_what_is_odd_stands_in_the_note(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("rebuild-base", tmp_path / "s")
    files = sorted((store / "commitlog").iterdir())
    files[0].write_bytes(b"\xff" * 200)
    files[1].write_bytes(b"")
    (store / "commitlog/note").touch()
    (store / "index/20200101000000000").write_bytes(b"x")
    (store / "index/readme").touch()
    (store / "consumequeue/R2/0/odd").touch()
    rows = listed(golden, store)
    assert "wrong size" in rows[f"commitlog/{files[0].name}"].note
    assert "wrong size" in rows[f"commitlog/{files[1].name}"].note
    assert rows["commitlog/note"].note == "stray name"
    assert "wrong size" in rows["index/20200101000000000"].note
    assert rows["index/readme"].note == "stray name"
    assert rows["consumequeue/R2/0/odd"].note == "stray name"
