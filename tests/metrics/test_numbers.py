"""The page of a running broker is the contract, in both directions."""

from pathlib import Path
from typing import Any

from broker.metrics.exposition import LEGACY_NAMES
from broker.model.errors import DiskFull
from tests.metrics.contract import FULL, NATIVE, OWN, Due
from tests.metrics.shown import Shown, compare, families
from tests.metrics.whole_broker import whole_broker

PUBLIC_ROWS = (*NATIVE, *OWN)


async def shown_by(directory: Path, **options: Any) -> dict[str, Shown]:
    async with whole_broker(directory, **options) as broker:
        await broker.traffic()
        return families(await broker.page())


async def test_the_page_is_the_contract(tmp_path: Path) -> None:
    shown = await shown_by(tmp_path / "store")
    compare(shown, PUBLIC_ROWS)
    silent = {name for name, one in shown.items() if not one.samples}
    assert silent <= {
        "rocketmq_topic_create_execution_time_milliseconds",
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "pocketmq_rejected_total",
        "pocketmq_expired_files_total",
        "pocketmq_index_skipped_total",
    }


async def test_details_are_the_contract_and_three_more(tmp_path: Path) -> None:
    compare(await shown_by(tmp_path / "store", detail="full"), (*PUBLIC_ROWS, *FULL))


async def test_label_values_are_rocketmqs(tmp_path: Path) -> None:
    shown = await shown_by(tmp_path / "store")
    sent = shown["rocketmq_messages_in_total"]
    assert sent.values("message_type") == {"normal"}
    assert sent.values("is_system") == {"false"}
    assert sent.values("node_type") == {"broker"}
    assert shown["rocketmq_storage_size_bytes"].values("storage_type") == {"local"}
    rpc = shown["rocketmq_rpc_latency_milliseconds"]
    assert rpc.values("protocol_type") == {"grpc"}
    assert {"send_message_v2", "pull_message"} <= rpc.values("request_code")


async def test_the_lag_of_a_group_is_shown(tmp_path: Path) -> None:
    shown = await shown_by(tmp_path / "store")
    (messages,) = shown["rocketmq_consumer_lag_messages"].samples
    assert messages.value == 2
    assert messages.labels["consumer_group"] == "G"
    (latency,) = shown["rocketmq_consumer_lag_latency_milliseconds"].samples
    assert latency.value == 1000
    assert shown["rocketmq_storage_message_reserve_time_milliseconds"].samples[0].value == 1000


async def test_a_store_that_takes_no_messages_is_looked_at_all_the_same(tmp_path: Path) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        await broker.traffic()
        broker.store.writing.refuse(DiskFull(path="/s"))
        shown = families(await broker.page())
        broker.store.writing.refuse(None)
    assert shown["rocketmq_consumer_lag_messages"].samples
    states = shown["pocketmq_store_state"].samples
    assert [s.labels["state"] for s in states if s.value] == ["read_only"]


async def test_while_the_store_ends_nothing_is_computed(tmp_path: Path) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        await broker.traffic()
        broker.store.drain()
        shown = families(await broker.page())
    assert not shown["rocketmq_consumer_lag_messages"].samples


def test_every_old_name_belongs_to_a_row() -> None:
    assert LEGACY_NAMES.keys() <= {row.name for row in NATIVE}


def test_what_waits_says_for_what() -> None:
    for row in (*PUBLIC_ROWS, *FULL):
        assert bool(row.reason) is (row.due is not Due.DUE), row.name
    names = [row.name for row in (*PUBLIC_ROWS, *FULL)]
    assert len(names) == len(set(names))
