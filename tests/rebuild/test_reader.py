"""Chunks hold every record once, however they are cut; how a file ends is told."""

from pathlib import Path

import pytest

from broker.rebuild.reader import LogReader, Stop, StopKind
from tests.fakes.log_bytes import EVERYTHING, LogBytes


def places(log: LogBytes, reader: LogReader, number: int = 0, upto: int = EVERYTHING) -> list[int]:
    file = log.found()[number]
    found: list[int] = []
    for chunk in reader.chunks(file, file.base, upto):
        for place, begin in zip(
            chunk.heads.physical_offset.tolist(), chunk.heads.begin.tolist(), strict=True
        ):
            assert place == begin + chunk.shift
            found.append(place)
    return found


@pytest.mark.parametrize("chunk_size", [64, 100, 119, 120, 121, 500, 1 << 20])
def test_every_record_comes_once(tmp_path: Path, chunk_size: int) -> None:
    log = LogBytes(tmp_path / "s", 8192)
    for number in range(30):
        log.add(queue_offset=number, body=b"x" * (number % 5 * 37), block=b"a\x01bb\x02")
    log.close()
    reader = LogReader(chunk_size=chunk_size, check_crc=True)
    assert places(log, reader) == log.places
    assert reader.stop == Stop(StopKind.END_OF_DATA, log.end)


def test_ends_are_told(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(20):
        log.add(queue_offset=number)
    log.close()
    reader = LogReader()
    first = places(log, reader)
    assert reader.stop.kind is StopKind.FILE_FULL
    assert places(log, reader, upto=first[3]) == first[:3]
    assert reader.stop == Stop(StopKind.UPTO, first[3])


def test_a_file_that_ends_with_its_last_byte(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1000)
    size = len(log.files[0])
    while log.end < 800:
        log.add()
    size = log.end - log.places[-1]
    log.add(body=b"x" * (1000 - 8 - log.end - size + 4))
    assert 1000 - log.end == 8
    log.close()
    reader = LogReader()
    assert places(log, reader) == log.places
    assert reader.stop.kind is StopKind.END_OF_DATA


@pytest.mark.parametrize(
    ("position", "content", "kind"),
    [(4, b"\0\0\0\0", StopKind.BAD), (28, b"\7", StopKind.BAD), (88, b"\xff\xff", StopKind.BAD)],
)
def test_damage_ends_the_chain(
    tmp_path: Path, position: int, content: bytes, kind: StopKind
) -> None:
    log = LogBytes(tmp_path / "s")
    for number in range(9):
        log.add(queue_offset=number)
    log.damage(log.places[4] + position, content)
    log.close()
    reader = LogReader(check_crc=True, chunk_size=300)
    assert places(log, reader) == log.places[:4]
    assert (reader.stop.kind, reader.stop.physical_offset) == (kind, log.places[4])
    assert reader.stop.reason


def test_a_body_that_is_a_log_is_not_read(tmp_path: Path) -> None:
    inner = LogBytes(tmp_path / "inner")
    outer = LogBytes(tmp_path / "s")
    outer.add()
    inner.base = outer.end + 88
    for number in range(3):
        inner.add(queue_offset=number)
    outer.add(body=bytes(inner.files[0]))
    outer.add()
    outer.close()
    for chunk_size in (64, 200, 4096):
        assert places(outer, LogReader(chunk_size=chunk_size)) == outer.places
