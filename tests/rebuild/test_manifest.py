"""The manifest: every file, its digest, and the records it is about."""

import hashlib
import json
from pathlib import Path

from broker.rebuild.manifest import mark_file, view_files, write_manifest
from broker.rebuild.plan import map_here
from broker.rebuild.sequential import rebuild
from broker.rebuild.staging import MANIFEST_FILE, Staging
from tests.fakes.log_bytes import EVERYTHING, SMALL, LogBytes


def test_files_and_their_sources(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(25):
        log.add(queue_offset=number + 3, keys="k")
    out = tmp_path / "out"
    rebuilt = rebuild(log.close().found(), SMALL, out, upto=EVERYTHING)
    write_manifest(Staging(out), rebuilt, map_here)
    manifest = json.loads((out / "rebuild" / MANIFEST_FILE).read_text())
    assert [mark["path"] for mark in manifest["files"]] == view_files(out)
    for mark in manifest["files"]:
        content = (out / mark["path"]).read_bytes()
        assert (mark["size"], mark["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    sources = [mark["source"] for mark in manifest["files"]]
    assert sources[:3] == [
        [log.places[0], log.places[6]], [log.places[7], log.places[16]],
        [log.places[17], log.places[24]],
    ]  # fmt: skip
    assert sources[3:] == [
        [log.places[begin], log.places[min(begin + 8, 24)]] for begin in range(0, 25, 9)
    ]
    assert manifest["queues"] == [["T", 0, 3, 28]]


def test_a_file_without_units_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue/x").write_bytes(bytes(200))
    assert mark_file((str(tmp_path), "consumequeue/x")).source == []
