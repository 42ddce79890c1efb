"""The manifest: what this broker knows of a store, never misread, never lost to a crash."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from broker.log.store_manifest import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    ClosedState,
    ManifestFile,
    StoreManifest,
)
from broker.model.errors import StoreTooNew
from broker.model.store_shape import RECORDED
from tests.fakes.quick_disk import PowerCut, QuickDisk

CLOSED = ClosedState(
    log_end=12345,
    checkpoint="00" * 48,
    queues={"T": {"0": [0, 7], "3": [2, 9]}, "%RETRY%G": {"0": [0, 1]}},
    index_files=["20261121003515660"],
)
MANIFEST = StoreManifest(
    commit_log_file_size_bytes=1 << 26,
    consume_queue_file_size_bytes=6_000_000,
    index_slot_count=200_000,
    index_entry_count_max=1_000_000,
    index_style="5.5",
    time_zone="Europe/Berlin",
    cluster="DefaultCluster",
    broker="broker-a",
)


class Manifest:
    """The manifest of one store.

    manifest.write(MANIFEST); assert manifest.read() == MANIFEST
    """

    def __init__(self, directory: Path) -> None:
        self.disk = QuickDisk()
        self.path = directory / "pocketmq" / MANIFEST_FILE
        self.file = ManifestFile(self.disk, self.path.parent)

    def write(self, manifest: StoreManifest) -> None:
        self.file.write(manifest)

    def read(self) -> StoreManifest | None:
        return ManifestFile(QuickDisk(), self.path.parent).read()

    def lay(self, fields: Any, *, name: str = MANIFEST_FILE) -> None:
        """Put a text under the manifest's name, as another version or an editor would."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.with_name(name).write_text(
            fields if isinstance(fields, str) else json.dumps(fields)
        )


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return Manifest(tmp_path)


def test_a_store_that_never_had_one_has_none(manifest: Manifest) -> None:
    assert manifest.read() is None


@pytest.mark.parametrize("closed", [None, CLOSED])
def test_what_was_written_is_read_back(manifest: Manifest, closed: ClosedState | None) -> None:
    written = replace(MANIFEST, closed=closed)
    manifest.write(written)
    assert manifest.read() == written


def test_the_file_is_json_that_people_can_read(manifest: Manifest) -> None:
    manifest.write(replace(MANIFEST, closed=CLOSED))
    text = manifest.path.read_text()
    assert json.loads(text)["closed"]["queues"]["T"] == {"0": [0, 7], "3": [2, 9]}
    assert '\n  "commit_log_file_size_bytes": 67108864,\n' in text


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99])
def test_a_newer_store_is_refused_and_left_alone(manifest: Manifest, version: int) -> None:
    manifest.lay({"format_version": version, "unheard_of": True})
    with pytest.raises(StoreTooNew) as caught:
        manifest.read()
    assert (caught.value.found, caught.value.known) == (version, FORMAT_VERSION)
    assert json.loads(manifest.path.read_text())["format_version"] == version


@pytest.mark.parametrize("size", [0, 1, 50, -1])
def test_a_torn_file_falls_back_to_the_one_before(manifest: Manifest, size: int) -> None:
    manifest.write(MANIFEST)
    manifest.write(replace(MANIFEST, broker="broker-b"))
    manifest.path.write_bytes(manifest.path.read_bytes()[:size])
    assert manifest.read() == MANIFEST


def test_a_missing_file_falls_back_to_the_one_before(manifest: Manifest) -> None:
    manifest.write(MANIFEST)
    manifest.write(replace(MANIFEST, broker="broker-b"))
    manifest.path.unlink()
    assert manifest.read() == MANIFEST


@pytest.mark.parametrize(
    "content", ["", "[1, 2]", "null", "{", "\x00\x00", '{"format_version": 1}']
)
def test_without_a_version_that_can_be_read_it_is_an_error(
    manifest: Manifest, content: str
) -> None:
    manifest.lay(content)
    manifest.lay(content, name=f"{MANIFEST_FILE}.bak")
    with pytest.raises(ValueError):
        manifest.read()


def test_fields_are_missing_in_the_file_but_not_in_the_one_before(manifest: Manifest) -> None:
    manifest.write(MANIFEST)
    manifest.write(MANIFEST)
    manifest.lay({"format_version": FORMAT_VERSION, "index_slot_count": 5})
    assert manifest.read() == MANIFEST


@pytest.mark.parametrize("step", ["write_file", "sync", "rename", "sync_directory"])
def test_a_crash_while_writing_leaves_one_of_both(manifest: Manifest, step: str) -> None:
    other = replace(MANIFEST, closed=CLOSED)
    manifest.write(MANIFEST)
    manifest.disk.fail(step, PowerCut())
    with pytest.raises(PowerCut):
        manifest.write(other)
    assert manifest.read() == (other if step == "sync_directory" else MANIFEST)


def test_every_field_is_written(manifest: Manifest) -> None:
    manifest.write(replace(MANIFEST, closed=CLOSED))
    written = json.loads(manifest.path.read_bytes())
    fields = asdict(replace(MANIFEST, closed=CLOSED))
    assert written == {name: fields[name] for name in written}
    assert fields.keys() - written.keys() == {"delay_levels", "property_crc"}
    assert list(written)[:7] == [*RECORDED[:6], "cluster"]
