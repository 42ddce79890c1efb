"""Reads of a store directory that the pages of the console use."""

import json
from pathlib import Path

from pocketmq.console.directory import DirectoryClient
from pocketmq.files.disk import Disk
from pocketmq.format.addresses import host_from_text, offset_message_id
from pocketmq.tools.store_browser import StoreBrowser
from tests.golden_stores import GoldenStores
from tests.kit.tool_sizes import golden_tool_sizes

OTHER_HOST = host_from_text("10.9.8.7:10911")


def browser_of(golden: GoldenStores, directory: Path) -> StoreBrowser:
    return StoreBrowser(Disk(), directory, golden_tool_sizes(golden, "basic"))


def test_an_offset_id_is_of_its_topic_and_broker_only(golden: GoldenStores) -> None:
    browser = browser_of(golden, golden.store("basic"))
    (message,) = browser.messages("orders", 0, 0, 1)
    found = offset_message_id(message.store_host, message.physical_offset)
    for topic in ("orders", ""):
        shown = browser.by_id(topic, found)
        assert shown is not None
        assert (shown.topic, shown.queue_offset) == ("orders", 0)
    assert browser.by_id("single", found) is None
    other = offset_message_id(OTHER_HOST, message.physical_offset)
    assert browser.by_id("orders", other) is None


async def test_the_lag_of_a_group_is_of_the_topic_asked_for(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store = golden.copy("basic", tmp_path / "store")
    rows = {"orders@g": {"0": 1}, "single@g": {"0": 2}, "single@other": {"0": 3}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": rows}))
    client = DirectoryClient(browser_of(golden, store))
    assert [lag.topic for lag in await client.group_lag("g")] == ["orders", "single"]
    assert [lag.topic for lag in await client.group_lag("g", "single")] == ["single"]
