"""The answers of a master of RocketMQ, read as tables; bad ones end the connection."""

import json

import pytest

from pocketmq.format.table_json import decode_table
from pocketmq.format.timer_layout import CHECK, decode_progress
from pocketmq.services.replication.follower import LeaderBroken
from pocketmq.services.replication.master_tables import (
    DELAY_OFFSETS,
    GROUPS,
    MODES,
    OFFSETS,
    TIMER_CHECK,
    TOPICS,
    MasterEnds,
    MasterShape,
    ends_of,
    shape_of,
    table_records,
)
from pocketmq.services.replication.table_record import FILE, TableRecord
from pocketmq.store.tables import copied_files as names
from tests.kit.played_master import recorded_answers


def made(code: int, body: bytes) -> TableRecord:
    (record,) = table_records({code: body}, 70)
    return record


def test_recorded_answers_become_the_files_of_a_slave() -> None:
    records = list(table_records(recorded_answers(), 70))
    assert [one.name for one in records] == [
        names.TOPICS, names.GROUPS, names.MODES, names.OFFSETS, names.DELAY_OFFSETS,
        names.TIMER_COUNTS, names.TIMER_CHECK,
    ]  # fmt: skip
    assert {(one.kind, one.at, one.seq) for one in records} == {(FILE, 70, 0)}
    assert set(decode_table(records[0].content)) == {"dataVersion", "topicConfigTable"}


def test_numbers_as_names_stay_numbers() -> None:
    record = made(DELAY_OFFSETS, b'{"dataVersion":{"counter":1},"offsetTable":{1:7}}')
    assert decode_table(record.content)["offsetTable"] == {1: 7}
    assert b"1:7" in record.content


def test_the_timer_is_read_anew_from_its_topic() -> None:
    body = CHECK.struct.pack(60_000, 5_200, 9, 12, 1, 2, 3)
    progress = decode_progress(made(TIMER_CHECK, body).content)
    assert progress is not None
    assert (progress.read_ms, progress.queue_offset, progress.log_flushed) == (60_000, 9, 1)
    assert progress.delivered_before == 0
    never = decode_progress(made(TIMER_CHECK, bytes(CHECK.size)).content)
    assert never is not None
    assert never.log_flushed == 0


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (TOPICS, b""), (TOPICS, b"{}"), (GROUPS, b'{"subscriptionGroupTable":[]}'), (MODES, b"["),
        (OFFSETS, b'{"offsetTable":7}'), (OFFSETS, b"\xff"), (TIMER_CHECK, bytes(55)),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(LeaderBroken):
        made(code, body)


def test_settings_tell_size_and_port() -> None:
    body = b"brokerName=a\nbrokerClusterName=c\nhaListenPort=10912\nmappedFileSizeCommitLog=65536\n"
    assert shape_of(body) == MasterShape(65_536, 10_912, "c", "a")
    for broken in (
        body.replace(b"10912", b"x"), body.replace(b"mapped", b"m"), b"\xff",
        body + b"brokerRole=SLAVE\n",
    ):  # fmt: skip
        with pytest.raises(LeaderBroken):
            shape_of(broken)


@pytest.mark.parametrize(
    "table", [{}, {"commitLogMinOffset": "1"}, {"commitLogMinOffset": "9", "commitLogMaxOffset": 2}]
)
def test_a_log_without_ends_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(LeaderBroken):
        ends_of(json.dumps({"table": table}).encode())
    with pytest.raises(LeaderBroken):
        ends_of(b'{"table":1}')


def test_the_ends_of_a_log_are_read() -> None:
    table = {"commitLogMinOffset": "1", "commitLogMaxOffset": "20"}
    assert ends_of(json.dumps({"table": table}).encode()) == MasterEnds(1, 20)


def test_a_master_that_never_got_a_message_has_an_empty_log() -> None:
    table = {"commitLogMinOffset": "-1", "commitLogMaxOffset": "0"}
    assert ends_of(json.dumps({"table": table}).encode()) == MasterEnds(0, 0)
