"""Fields of many records are those of each record: hosts, ids, bodies, properties."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from broker.format.message_columns import columns_of
from broker.model.message import FLAG_COMPRESSED
from tests.fakes.column_values import by_column, one_by_one
from tests.fakes.log_bytes import IPV4, IPV6, LogBytes

HOSTS = columns_of(["born_host", "store_host", "offset_message_id", "reconsume_times", "flag"])


def same(log: LogBytes, *names: str, unfold: bool = True) -> list[dict[str, Any]]:
    """The columns of a log, made sure that both ways agree."""
    files, columns = log.close().found(), columns_of(names)
    rows = by_column(files, columns, unfold=unfold)
    assert rows == one_by_one(files, columns, unfold=unfold)
    return rows


@pytest.mark.parametrize("born", [IPV4, IPV6])
@pytest.mark.parametrize("host", [IPV4, IPV6])
def test_hosts_of_any_width(tmp_path: Path, born: bytes, host: bytes) -> None:
    log = LogBytes(tmp_path)
    log.add(born=born, host=host)
    log.add(born=IPV4, host=IPV4)
    rows = same(log, *(column.name for column in HOSTS))
    assert rows[1]["born_host"] == rows[1]["store_host"] == "127.0.0.1:10911"
    assert rows[1]["offset_message_id"].startswith("7F00000100002A9F0000000000000")


def test_bodies_are_unfolded_when_asked_for(tmp_path: Path) -> None:
    packed = zlib.compress(b"hello " * 50)
    log = LogBytes(tmp_path)
    log.add(body=packed, flags=FLAG_COMPRESSED)
    log.add(body=b"")
    log.add(body=b"no zlib", flags=FLAG_COMPRESSED)
    bodies = [row["body"] for row in same(log, "body")]
    assert bodies == [b"hello " * 50, b"", b"no zlib"]


def test_bodies_are_left_when_not(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(body=zlib.compress(b"x" * 99), flags=FLAG_COMPRESSED)
    assert same(log, "body", unfold=False) == [{"body": zlib.compress(b"x" * 99)}]


def test_of_a_name_that_stands_twice_the_last_value_wins_at_the_first_place(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(block=b"a\x011\x02b\x012\x02a\x013\x02")
    assert same(log, "properties") == [{"properties": [("a", "3"), ("b", "2")]}]


def test_pairs_without_a_name_or_a_value_are_dropped(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(block=b"\x01x\x02a\x01\x02novalue\x02c\x01d\x01e\x02\x02f\x01g")
    assert same(log, "properties") == [{"properties": [("c", "d\x01e"), ("f", "g")]}]


@pytest.mark.parametrize("odd", [b"\xe4\xb8", b"\xad", b"\xff"])
def test_what_is_no_text_is_replaced(tmp_path: Path, odd: bytes) -> None:
    log = LogBytes(tmp_path)
    # Joined, the ends of two neighbours would make a character.
    log.add(block=b"TAGS\x01" + odd + b"\x02KEYS\x01k \xe4\xb8\x02" + odd + b"\x01v\x02")
    log.add(block=b"TAGS\x01\xad\x02KEYS\x01\xad k\x02")
    assert same(log, "tag", "keys", "properties")[0]["keys"] == ["k", "�"]


def test_a_message_group(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(block=b"__SHARDINGKEY\x01g1\x02")
    log.add(block=b"__SHARDINGKEX\x01g2\x02")
    log.add(block=b"x\x01y\x02__SHARDINGKEY\x01\xe8\xae\xa2\x02")
    groups = [row["message_group"] for row in same(log, "message_group")]
    assert groups == ["g1", None, "订"]
