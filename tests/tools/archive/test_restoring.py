"""A restored store is as it was at its moment, or it is not made at all."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from pocketmq.model.errors import Corruption, NotAStore
from pocketmq.tools.archive.moments import first_time, last_time
from tests.kit.archived import Archive
from tests.kit.backed_up import stocked


@pytest.fixture
async def archive(tmp_path: Path) -> Archive:
    """An archive with one moment of a store of two log files."""
    await stocked(tmp_path / "s", 0, 40)
    made = Archive(tmp_path)
    made.ship()
    return made


def some(place: Path, pattern: str) -> Path:
    return sorted((place / "a").glob(pattern))[0]


@pytest.mark.parametrize("pattern", ["log/*", "moments/*/files/*", "moments/*/*.json"])
@pytest.mark.parametrize("at", [0, -9])
def test_a_flipped_bit_is_found(archive: Archive, tmp_path: Path, pattern: str, at: int) -> None:
    path = some(tmp_path, pattern)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption) as raised:
        archive.restored()
    assert path.name in raised.value.path
    assert not (tmp_path / "a-again1").exists()
    assert not (tmp_path / "a-again1.restoring").exists()


@pytest.mark.parametrize("pattern", ["log/*", "moments/*/files/*"])
def test_a_missing_object_is_told(archive: Archive, tmp_path: Path, pattern: str) -> None:
    some(tmp_path, pattern).unlink()
    with pytest.raises(Corruption, match=r"missing|no object contains the bytes from 0 on"):
        archive.restored()
    assert not (tmp_path / "a-again1").exists()


def test_a_part_that_is_too_short(archive: Archive, tmp_path: Path) -> None:
    path = some(tmp_path, "log/*")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corruption, match="do not match the sha256 in its name"):
        archive.restored()


def test_a_place_that_is_not_empty(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "a-again1").mkdir()
    (tmp_path / "a-again1/file").touch()
    with pytest.raises(NotAStore, match="not empty"):
        archive.restored()


def test_a_moment_cannot_name_a_file_outside_of_the_store(archive: Archive, tmp_path: Path) -> None:
    path = some(tmp_path, "moments/*/*.json")
    document = json.loads(path.read_bytes())
    document.pop("sha256")
    document["files"][0][0] = "../../outside"
    digest = sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**document, "sha256": digest}))
    with pytest.raises(Corruption, match="outside of the store"):
        archive.restored()
    assert not (tmp_path / "outside").exists()


def test_which_moment_a_time_means(archive: Archive) -> None:
    time = archive.now_ms
    assert first_time(archive.objects) == last_time(archive.objects) == time
    assert last_time(archive.objects, time) == last_time(archive.objects, time + 9**9) == time
    assert last_time(archive.objects, 10**17) == time  # A time in microseconds or later.
    assert last_time(archive.objects, time - 1) is None
