"""A description of a store agrees with what a real broker says of it."""

import json
from pathlib import Path

import pytest

from broker.files.disk import Disk
from broker.tools.inspect import Description, describe
from tests.fakes.tool_sizes import golden_tool_sizes
from tests.golden_stores import GoldenStores


def described(golden: GoldenStores, name: str) -> Description:
    return describe(Disk(), golden.store(name), golden_tool_sizes(golden, name))


@pytest.mark.parametrize("name", ["basic", "semantics", "v533", "rebuild-base"])
def test_a_store_is_described_as_rocketmq_sees_it(golden: GoldenStores, name: str) -> None:
    manifest = golden.manifest(name)
    found = described(golden, name)
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
    found = described(golden, "semantics")
    assert "SCHEDULE_TOPIC_XXXX" in found["topics"]


def test_a_store_left_in_a_crash_says_so(golden: GoldenStores) -> None:
    assert described(golden, "crash-kill.before")["left_in_order"] is False


def test_a_description_is_json(golden: GoldenStores) -> None:
    found = described(golden, "basic")
    assert json.loads(json.dumps(found)) == found


def test_an_empty_directory_is_an_empty_store(tmp_path: Path, golden: GoldenStores) -> None:
    found = describe(Disk(), tmp_path, golden_tool_sizes(golden, "basic"))
    assert found["commit_log"]["end_offset"] == 0
    assert found["consume_queues"]["queues"] == []
    assert found["index"]["files"] == []
    assert found["topics"] == []
    assert list(tmp_path.iterdir()) == []
