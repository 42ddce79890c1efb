"""Chunks hold every record once, however they are cut; how a file ends is told."""

from pathlib import Path
from random import Random

import pytest

from pocketmq.format.record import BLANK_SIZE, encode_blank
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.finding import ScanEnd
from pocketmq.rebuild.log_files import LogFile
from pocketmq.walk.reader import LogReader, Stop
from tests.kit.log_bytes import EVERYTHING, IPV4, IPV6, LogBytes
from tests.kit.records import record

SIZES = [64, 92, 500, 4_096, 16_384, 65_536, 1 << 20]


def places(log: LogBytes, reader: LogReader, number: int = 0, upto: int = EVERYTHING) -> list[int]:
    file = log.found()[number]
    return _places(reader, file, file.base, upto)


def test_ends_are_told(tmp_path: Path) -> None:
    log = LogBytes(tmp_path / "s", 1024)
    for number in range(20):
        log.add(queue_offset=number)
    log.close()
    reader = LogReader()
    first = places(log, reader)
    assert reader.stop.kind is ScanEnd.FILE_FULL
    assert places(log, reader, upto=first[3]) == first[:3]
    assert reader.stop == Stop(ScanEnd.UPTO, first[3])


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
    assert reader.stop.kind is ScanEnd.END_OF_DATA


def odd_file(chance: Random) -> LogBytes:
    """A file of records, short ones and long ones, that is changed here and there."""
    size = chance.choice([1_024, 4_096, 8_192, 65_536])
    log = LogBytes(Path("/none"), size, base=chance.choice([0, 8_192, 1 << 33]))
    while True:
        body = chance.randbytes(chance.choice([0, 0, 3, 50, chance.randrange(size // 4)]))
        if chance.random() < 0.2:
            body += record(log.end + 88 + len(body), b"in")
        if log.end - log.base + len(body) > size - 700:
            break
        log.add(
            chance.choice(["T", "t" * 127, "%RETRY%" + "é" * 140, ""]), 0, body=body,
            block=chance.choice([b"", b"k\x01v\x02", b"x" * chance.randrange(200), b"y\0\0"]),
            born=chance.choice([IPV4, IPV6]), host=chance.choice([IPV4, IPV6]),
        )  # fmt: skip
    filler = chance.choice([b"\0", b"\0", b"\0", b"\xff", b"\1"])
    if chance.random() < 0.5:
        log.roll()
        del log.files[1:]
    content = log.files[0]
    content += filler * (size - len(content))
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        at = chance.randrange(size)
        octets = chance.choice([b"\0", b"\xff", b"\x40", bytes(4), bytes(512), chance.randbytes(4)])
        content[at : at + len(octets)] = octets[: size - at]
    return log


@pytest.mark.parametrize("seed", range(40))
def test_any_file_is_read_as_a_scan_reads_it(tmp_path: Path, seed: int) -> None:
    """Records, end and reason, with any chunk, from any record on, up to any place."""
    chance = Random(seed)
    log = odd_file(chance)
    content, base, path = log.files[0], log.base, tmp_path / "file"
    path.write_bytes(content)
    file = LogFile(str(path), base, len(content))
    for crc, property_crc in ((False, False), (True, False), (True, True)):
        scan = RecordScan(content, base, crc=crc, property_crc=property_crc)
        wanted = [base + position for position, _ in scan]
        is_full = scan.blank or scan.position + BLANK_SIZE > len(content)
        kind = ScanEnd.FILE_FULL if is_full else scan.end
        stop = Stop(kind, base + scan.position, "" if is_full else scan.reason)
        for chunk_size in SIZES:
            reader = LogReader(check_crc=crc, property_crc=property_crc, chunk_size=chunk_size)
            assert _places(reader, file, base, EVERYTHING) == wanted
            assert reader.stop == stop
            for begin in wanted[1::3]:
                upto = base + chance.randrange(len(content))
                inside = [place for place in wanted if begin <= place < upto]
                assert _places(reader, file, begin, upto) == inside


def _places(reader: LogReader, file: LogFile, begin: int, upto: int) -> list[int]:
    found: list[int] = []
    with file.opened() as source:
        for chunk in reader.chunks(source, begin, upto):
            heads = chunk.heads
            assert (heads.physical_offset == heads.begin + chunk.shift).all()
            found += heads.physical_offset.tolist()
            assert chunk.end == found[-1] + int(heads.size[-1])
    return found


def bodies_that_mislead(place: int) -> list[bytes]:
    """Bodies of a record at a place that look like other ends and records of the log."""
    begin = place + 88
    whole = record(begin, b"x" * 40)
    return [
        whole,
        whole + record(begin + len(whole)),
        encode_blank(4_096 - begin % 4_096) + b"behind",
        b"-" * 30 + record(begin + 30, size=200),
        # Topic and properties of the record around it are its own: it ends on the next record.
        b"-" * 30 + record(begin + 30, size=200)[:-4],
        record(begin, size=150)[:-4] + b"\0\0\0\0",
        bytes(300),
    ]


@pytest.mark.parametrize("chunk_size", [64, 128, 4_096, 65_536])
@pytest.mark.parametrize("number", range(7))
def test_what_a_body_holds_is_not_read(tmp_path: Path, number: int, chunk_size: int) -> None:
    """Copies of records at the right offset, BLANKs, and fakes that end on the next record."""
    log = LogBytes(tmp_path / "s")
    log.add(queue_offset=0)
    for queue_offset in range(1, 8):
        body = bodies_that_mislead(log.end)[number]
        log.add(queue_offset=queue_offset, body=body)
        log.add(queue_offset=queue_offset)
    assert len(log.files) <= 2
    log.close()
    reader = LogReader(chunk_size=chunk_size, check_crc=True)
    found = [place for file in range(len(log.files)) for place in places(log, reader, file)]
    assert found == log.places


@pytest.mark.parametrize("chunk_size", [100, 4_096])
def test_a_record_longer_than_several_chunks(tmp_path: Path, chunk_size: int) -> None:
    log = LogBytes(tmp_path / "s", 1 << 16)
    for size in (10, 9_000, 0, 30_000, 4_096 - 96, 10):
        log.add(body=b"x" * size)
    log.close()
    reader = LogReader(chunk_size=chunk_size, check_crc=True)
    assert places(log, reader) == log.places
    assert places(log, reader, upto=log.places[3]) == log.places[:3]
    assert places(log, reader, upto=log.places[3] + 1) == log.places[:4]


def log_of_fifty(tmp_path: Path) -> LogBytes:
    log = LogBytes(tmp_path / "s", 8_192)
    for number in range(50):
        log.add(queue_offset=number, body=b"body %04d" % number)
    return log


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_without_damage_a_share_of_the_crcs_reads_what_all_read(
    tmp_path: Path, share: float
) -> None:
    log = log_of_fifty(tmp_path).close()
    reader = LogReader(check_crc=True, crc_share=share, chunk_size=300)
    assert places(log, reader) == log.places


def test_damage_that_the_sample_found_stays_damage(tmp_path: Path) -> None:
    """The chunk at 0 is in every sample that is not empty."""
    for number in range(40):
        log = log_of_fifty(tmp_path / str(number))
        log.damage(log.places[number] + 90, b"\xff")
        log.close()
        reader = LogReader(check_crc=True, crc_share=0.1)
        assert places(log, reader) == log.places[:number]
        assert reader.stop.kind is ScanEnd.BAD


@pytest.mark.parametrize("magic", [b"\xda\xa3\x20\xa7", b"\xcb\xd4\x31\x94", b"\xff\xff\xff\xff"])
def test_a_damaged_size_takes_no_memory(tmp_path: Path, magic: bytes) -> None:
    log = LogBytes(tmp_path / "s", 1 << 20)
    log.add()
    place = log.add()
    log.add()
    log.damage(place, (900_000).to_bytes(4) + magic)
    log.close()
    reader = LogReader(chunk_size=4_096)
    assert places(log, reader) == log.places[:1]
    assert len(reader._buffer) < 100_000
