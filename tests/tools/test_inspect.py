"""A description of a store agrees with what a real broker says of it."""

import json
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.tools.inspect import describe
from tests.golden_stores import GoldenStores
from tests.tools.offline import sizes_of


@pytest.mark.parametrize("name", ["basic", "semantics", "v533", "rebuild-base"])
def test_a_store_is_described_as_rocketmq_sees_it(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    found = describe(Disk(), golden.store(name), sizes_of(manifest))
    assert found["left_in_order"] is not manifest["abortFile"]
    assert found["in_use"] is False
    assert found["commit_log"]["files"] == len(manifest["commitLogFiles"])
    assert found["commit_log"]["end_offset"] == manifest["lastRecordEnd"]
    ours = {(q["topic"], q["queue_id"]): q["max_offset"] for q in found["consume_queues"]["queues"]}
    theirs = {(q["topic"], q["queueId"]): q["maxOffset"] for q in manifest["queues"]}
    assert ours == theirs
    assert [file["entries"] for file in found["index"]["files"]] == [
        file["indexCount"] - 1 for file in manifest["indexFiles"]
    ]
    assert (
        found["checkpoint"]["physic_msg_timestamp"] == manifest["checkpoint"]["physicMsgTimestamp"]
    )
    assert found["manifest"] is None
    assert found["flushed_mark"] is None


def test_topics_are_those_of_the_topic_table(golden: GoldenStores) -> None:
    found = describe(Disk(), golden.store("semantics"), sizes_of(golden.manifest("semantics")))
    assert "SCHEDULE_TOPIC_XXXX" in found["topics"]


def test_a_store_left_in_a_crash_says_so(golden: GoldenStores) -> None:
    name = "crash-kill.before"
    found = describe(Disk(), golden.store(name), sizes_of(golden.manifest(name)))
    assert found["left_in_order"] is False


def test_a_description_is_json(golden: GoldenStores) -> None:
    found = describe(Disk(), golden.store("basic"), sizes_of(golden.manifest("basic")))
    assert json.loads(json.dumps(found)) == found


def test_an_empty_directory_is_an_empty_store(tmp_path: Path, golden: GoldenStores) -> None:
    found = describe(Disk(), tmp_path, sizes_of(golden.manifest("basic")))
    assert found["commit_log"]["end_offset"] == 0
    assert found["consume_queues"]["queues"] == []
    assert found["index"]["files"] == []
    assert found["topics"] == []
    assert list(tmp_path.iterdir()) == []
