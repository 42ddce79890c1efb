"""Every record a real RocketMQ wrote: read as it reads it, written again byte for byte."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import groupby
from typing import Any, NamedTuple

import pytest

from pocketmq.format.addresses import offset_message_id, pack_host, parse_offset_message_id
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import (
    HOSTS_V6_MASK,
    MAGIC_V2,
    PROPERTY_CRC_SIZE,
    SIZE_AND_MAGIC,
    body_crc,
    decode_record,
    encode_blank,
    split_record,
)
from pocketmq.format.record_scan import RecordScan, written_at
from pocketmq.model.batch import Destination
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import PROPERTY_CRC, StoredMessage
from pocketmq.model.store_shape import DelayLevels
from tests.golden_stores import GoldenStores
from tests.kit.records import columns_of
from tests.kit.rows import Row, encoded

STORES = ["basic", "semantics", "propcrc", "cqext", "rebuild-base", "v533"]


class Place(NamedTuple):
    """Where a record lies: the file's bytes, the position in them, and how long it is."""

    content: bytes
    position: int
    size: int

    @property
    def bytes(self) -> bytes:
        """The record as it is stored."""
        return self.content[self.position : self.position + self.size]


@dataclass(repr=False)
class Log:
    """The log of one store: what lies in it and what RocketMQ says about that."""

    manifest: dict[str, Any]
    places: list[Place]
    messages: list[StoredMessage]
    files: list[bytes]
    scans: list[RecordScan]

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.manifest["records"]
        return rows


@pytest.fixture(scope="module", params=STORES)
def log(golden: GoldenStores, request: pytest.FixtureRequest) -> Log:
    """Walks over the whole log of a store, checksums included, and decodes what it holds."""
    manifest = golden.manifest(request.param)
    paths = sorted((golden.store(request.param) / COMMIT_LOG_DIRECTORY).iterdir())
    paths = paths[: len(manifest["commitLogFiles"])]
    files = [path.read_bytes() for path in paths]
    scans = [RecordScan(f, int(p.name), crc=True) for f, p in zip(files, paths, strict=True)]
    places = [Place(f, *found) for f, scan in zip(files, scans, strict=True) for found in scan]
    messages = [decode_record(place.content, place.position) for place in places]
    return Log(manifest, places, messages, files, scans)


def digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def shown(value: str) -> str:
    """Returns a property's value as manifests show it: long ones by digest and length."""
    return value if len(value) <= 200 else f"sha1:{digest(value.encode())}:{len(value)}"


def packed(text: str) -> bytes:
    """Returns the packed form of a host as Java prints it here, address|port."""
    address, _, port = text.rpartition("|")
    return pack_host(ip_address(address), int(port))


def separate_crc(block: bytes) -> tuple[bytes, bool]:
    """Returns a property block without the property CRC at its end, and whether it had one."""
    has_crc = block[-PROPERTY_CRC_SIZE:].startswith(f"{PROPERTY_CRC}\x01".encode())
    return (block[:-PROPERTY_CRC_SIZE], True) if has_crc else (block, False)


def has_repeated_name(block: bytes) -> bool:
    names = [pair.partition(b"\x01")[0] for pair in block.split(b"\x02")]
    return len(set(names)) < len(names)


def row_of(place: Place, message: StoredMessage) -> tuple[Row, bool]:
    """Returns what a record was put from, and whether a property CRC was added to it."""
    *_, block_begin, block_end = split_record(place.content, place.position)
    block, has_crc = separate_crc(place.content[block_begin:block_end])
    body = decode_record(place.content, place.position, decompress=False).body
    born = (message.born_timestamp_ms, message.born_host)
    row = Row(body, block, message.flag, *born, reconsume_times=message.reconsume_times)
    return row, has_crc


def batches(log: Log) -> Iterator[list[tuple[Place, StoredMessage]]]:
    """Cuts the log into runs that one put may have written: all but rows and offsets is shared."""

    def shared(pair: tuple[Place, StoredMessage]) -> tuple[object, ...]:
        place, message = pair
        return (
            *(id(place.content), message.topic, message.queue_id, message.store_host),
            *(message.system_flag & ~HOSTS_V6_MASK, message.prepared_transaction_offset),
            message.store_timestamp_ms,
        )

    for _, run in groupby(zip(log.places, log.messages, strict=True), shared):
        pairs = list(run)
        first = pairs[0][1].queue_offset
        if [message.queue_offset for _, message in pairs] == [*range(first, first + len(pairs))]:
            yield pairs
        else:
            yield from ([pair] for pair in pairs)


def encoded_again(pairs: list[tuple[Place, StoredMessage]]) -> bytes:
    """Encodes a run of records from what they say of themselves."""
    first = pairs[0][1]
    made = [row_of(place, message) for place, message in pairs]
    rows, (has_crc,) = [row for row, _ in made], {has_crc for _, has_crc in made}
    destination = Destination(
        *(first.topic, first.queue_id, first.store_host, first.system_flag),
        first.prepared_transaction_offset,
    )
    return encoded(
        destination,
        *rows,
        crc=has_crc,
        queue_offset=first.queue_offset,
        physical_offset=first.physical_offset,
        store_timestamp_ms=first.store_timestamp_ms,
    )


def test_the_walk_finds_every_record_and_every_blank(log: Log) -> None:
    assert [place.size for place in log.places] == [row["size"] for row in log.rows]
    assert {(scan.end, scan.reason) for scan in log.scans} == {(ScanEnd.END_OF_DATA, "")}
    size = log.manifest["params"]["mappedFileSizeCommitLog"]
    assert [
        {"phy": number * size + scan.position, "size": size - scan.position}
        for number, scan in enumerate(log.scans)
        if scan.blank
    ] == log.manifest["blanks"]
    assert (len(log.scans) - 1) * size + log.scans[-1].position == log.manifest["lastRecordEnd"]
    for row in log.manifest["blanks"]:
        content, position = log.files[row["phy"] // size], row["phy"] % size
        assert content[position : position + 8] == encode_blank(row["size"])


def test_a_record_decodes_to_what_rocketmq_reads(log: Log) -> None:
    for place, found, row in zip(log.places, log.messages, log.rows, strict=True):
        assert {
            "phy": found.physical_offset,
            "size": found.store_size,
            "v2": SIZE_AND_MAGIC.unpack_from(place.content, place.position)[1] == MAGIC_V2,
            "topic": found.topic,
            "queueId": found.queue_id,
            "queueOffset": found.queue_offset,
            "commitLogOffset": found.physical_offset,
            "msgId": offset_message_id(found.store_host, found.physical_offset),
            "uniqKey": found.properties.get("UNIQ_KEY"),
            "keys": found.properties.get("KEYS"),
            "tags": found.tag,
            "sysFlag": found.system_flag,
            "flag": found.flag,
            "bodyCRC": found.body_crc,
            "bornTimestamp": found.born_timestamp_ms,
            "storeTimestamp": found.store_timestamp_ms,
            "reconsumeTimes": found.reconsume_times,
            "preparedTransactionOffset": found.prepared_transaction_offset,
            "properties": {name: shown(value) for name, value in found.properties.items()},
        }.items() <= row.items()


def test_hosts_ids_and_keys_are_those_of_the_record(log: Log) -> None:
    for found, row in zip(log.messages, log.rows, strict=True):
        assert found.born_host == packed(row["bornHost"])
        assert found.store_host == packed(row["storeHost"])
        place = (found.store_host, found.physical_offset)
        assert parse_offset_message_id(row["msgId"]) == place
        assert found.keys == (row["keys"] or "").split()
        assert found.unique_key == (row["uniqKey"] or "")


def test_bodies_are_what_was_stored_and_unfold_to_what_was_sent(log: Log) -> None:
    for place, found, row in zip(log.places, log.messages, log.rows, strict=True):
        stored = decode_record(place.content, place.position, decompress=False).body
        assert (len(stored), digest(stored)) == (row["bodyLength"], row["bodySha1"])
        assert digest(found.body) == row.get("plainBodySha1", row["bodySha1"])
        assert len(found.body) == row.get("plainBodyLength", row["bodyLength"])
        assert body_crc(stored) == row["bodyCRC"]


def test_the_views_are_told_what_rocketmq_tells_them(log: Log) -> None:
    levels = DelayLevels()
    for place, row in zip(log.places, log.rows, strict=True):
        found = written_at(place.content, place.position, levels)
        assert columns_of(found) == (
            *(row["phy"], row["size"], row["tagsCode"], row["storeTimestamp"]),
            *(row["topic"], row["queueId"], row["queueOffset"]),
            *(row["uniqKey"] or "", row["keys"] or "", row["tags"] or ""),
            row["sysFlag"] & 0xC,
        )


def test_a_property_block_is_written_as_rocketmq_writes_it(log: Log) -> None:
    """5.3.3 writes some names twice in records of batches; such blocks cannot come back."""
    for place, found in zip(log.places, log.messages, strict=True):
        *_, begin, end = split_record(place.content, place.position)
        block = place.content[begin:end]
        assert encode_properties(found.properties) == block or (
            log.manifest["rocketmq"] == "V5_3_3" and has_repeated_name(block)
        )


def test_records_encoded_again_are_the_same_bytes(log: Log) -> None:
    runs = list(batches(log))
    assert sum(map(len, runs)) == len(log.rows) > len(runs)
    for pairs in runs:
        assert encoded_again(pairs) == b"".join(place.bytes for place, _ in pairs)


def test_there_is_something_to_see(golden: GoldenStores) -> None:
    """Guards the tests above: the stores do hold what makes records differ."""
    rows = [row for name in STORES for row in golden.manifest(name)["records"]]
    assert len(rows) > 7_000
    assert {row["sysFlag"] & HOSTS_V6_MASK for row in rows} == {0x00, 0x10, 0x20, 0x30}
    assert {row["sysFlag"] & 0x701 for row in rows} == {0, 0x101, 0x201, 0x301}
    assert {row["v2"] for row in rows} == {False, True}
    assert any(PROPERTY_CRC in row["properties"] for row in rows)
    assert any(row["tagsCode"] != row["tagsHash"] for row in rows)
